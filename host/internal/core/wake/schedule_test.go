package wake

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into testdata instead of comparing")

// TestSchedule runs the stories of testdata, one step a line, at the time that it begins
// with, with a monitoring interval of 10 s:
//
//	TIME wake CONDITION CAUSE
//	TIME pass [incomplete] [met] [grace PERIOD] [look TIME]
//	    the pass that is due, how it ended and why to look again
//	TIME hold CONDITION | TIME look
//	> ...
//	    what comes out: what is due now, else when something is; "-rewrite" writes it
func TestSchedule(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, got := string(text), play(t, string(text))
			if *rewrite {
				err = os.WriteFile(file, []byte(got), 0o644)
			} else if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
				err = fmt.Errorf("(-want +got), run with -rewrite if it should be so:\n%s", diff)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func play(t *testing.T, text string) string {
	start := time.Unix(1000, 0)
	duration := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	var (
		s   Schedule
		due Scope
		out strings.Builder
	)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if strings.HasPrefix(line, ">") {
			continue
		}
		out.WriteString(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		now := start.Add(duration(f[0]))
		switch f[1] {
		case "wake":
			s.Wake(map[eviction.Condition]string{eviction.Condition(f[2]): strings.Join(f[3:], " ")})
		case "hold":
			s.Hold(eviction.Condition(f[2]), now)
		case "look":
			s.Look(now)
		case "pass":
			r := Result{Scope: due}
			for i := 2; i < len(f); i++ {
				switch f[i] {
				case "incomplete":
					r.Incomplete = true
				case "met":
					r.Met = true
				case "grace":
					i++
					r.GraceLeft = duration(f[i])
				case "look":
					i++
					r.LookAt = append(r.LookAt, time.Time{}, start.Add(duration(f[i])))
				}
			}
			s.Ended(now, 10*time.Second, r)
		default:
			t.Fatalf("unknown line %q", line)
		}
		if scope, ok := s.Due(now); ok {
			due = scope
			fmt.Fprintf(&out, "> due by %s: %s, crossing: %v\n", due.Trigger(), due.Causes(), due.Crossing())
		} else {
			fmt.Fprintf(&out, "> next at %s\n", s.Next(now).Sub(start))
		}
	}
	return out.String()
}
