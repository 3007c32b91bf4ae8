package pressure

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// seriesEnv names a directory of more series, such as make thrash leaves in bin/test/series.
const seriesEnv = "EVICTD_SERIES"

// thrashed is in the name of a series in which a hog grows until a service stops for seconds. In the others no pod must go.
var thrashed = regexp.MustCompile(`-at-\d+`)

// A series is a recorded node, ten looks a second.
type series struct {
	name  string
	looks []look
	// available has what the kubelet counts at each look.
	available []int64
	// gap is when the first gap of a second or more began in a service, 0 for never.
	gap time.Duration
}

func readSeries(t *testing.T, file string) series {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := series{name: strings.TrimSuffix(filepath.Base(file), ".txt")}
	for line := range strings.Lines(string(text)) {
		var ms, availableMiB, memAvailableMiB, refaults, scans, fullMicroseconds int64
		if n, _ := fmt.Sscanf(line, "gap %d %d", &ms, &availableMiB); n == 2 && s.gap == 0 && ms > 0 {
			s.gap = time.Duration(ms) * time.Millisecond
		}
		if n, _ := fmt.Sscan(line, &ms, &availableMiB, &memAvailableMiB, &refaults, &scans, &fullMicroseconds); n == 6 {
			s.available = append(s.available, min(availableMiB, memAvailableMiB)<<20)
			s.looks = append(s.looks, look{
				at: time.Duration(ms) * time.Millisecond, refaults: refaults, scans: scans, reclaimable: memAvailableMiB << 20,
				stalled: [3]time.Duration{time.Duration(fullMicroseconds) * time.Microsecond},
			})
		}
	}
	if len(s.looks) < 50 {
		t.Fatalf("%s: %d looks", s.name, len(s.looks))
	}
	return s
}

// firsts returns when the rule first finds that a node of 640 MiB thrashes with less than the threshold available, and when
// PSI alone would: full for a tenth of a window. Both are 0 for never, and count what follows.
func (s *series) firsts(r rule, threshold int64) (byRule, byPSI time.Duration, windows int) {
	var l looks
	for i, next := range s.looks {
		if i%2 == 1 { // a look each 200 ms, as while counters grow
			continue
		}
		l.add(next, r.window)
		v, ok := r.judge(l)
		if ok && v.thrashes() && s.available[i] < threshold {
			windows++
			if byRule == 0 {
				byRule = next.at
			}
		}
		if ok && byPSI == 0 && v.stalled[0] >= v.over/10 {
			byPSI = next.at
		}
	}
	return byRule, byPSI, windows
}

// The rule holds in each recorded thrash before the first gap of a second, and in no harmless load; PSI holds in some of these.
func TestTheRuleTellsThrashingFromStalling(t *testing.T) {
	const nodeMiB = 605
	files, _ := filepath.Glob("testdata/series/*.txt") // the pattern is right
	more, _ := filepath.Glob(filepath.Join(os.Getenv(seriesEnv), "*.txt"))
	if len(files) < 7 {
		t.Fatalf("%d series", len(files))
	}
	falsePSI := 0
	for _, file := range append(files, more...) {
		s := readSeries(t, file)
		threshold := int64(nodeMiB << 20 * 30 / 100)
		if !thrashed.MatchString(s.name) {
			threshold = nodeMiB << 20 // whatever is available
		}
		byRule, byPSI, windows := s.firsts(rule{window: 2 * time.Second, brink: 100 * mib}, threshold)
		t.Logf("%-60s gap %6.1f s, rule %6.1f s (%d windows), PSI %6.1f s", s.name, s.gap.Seconds(), byRule.Seconds(), windows, byPSI.Seconds())
		switch {
		case thrashed.MatchString(s.name):
			if s.gap > 0 && (windows == 0 || byRule > s.gap) {
				t.Errorf("%s: the rule holds at %v, want before the gap at %v", s.name, byRule, s.gap)
			}
		case windows > 0:
			t.Errorf("%s: the rule holds in %d windows, want none", s.name, windows)
		case byPSI != 0:
			falsePSI++
		}
	}
	if falsePSI < 3 {
		t.Errorf("PSI alone holds in %d harmless loads, want 3 at least: the loads are too light to tell them apart", falsePSI)
	}
}
