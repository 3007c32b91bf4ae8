package kubernetes

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/victim"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into testdata instead of comparing")

// The names that testdata has.
var (
	phaseNames = [...]string{"decided", "unconfirmed", "abandoned", "unneeded", "pending", "patching", "recorded", "recordedBefore", "declined"}
	eventNames = [...]string{
		"killBegins", "killOfDeletedBegins", "killReturns", "containersStop", "patchBegins", "patchAccepted", "patchDeclined", "announcementBegins",
		"announcementEnds", "podEnds", "formerKillConfirmed", "formerKillRefuted", "podRestarted",
	}
	actionNames = [...]string{"none", "save", "settle", "forget", "wake"}
)

func (p phase) String() string { return phaseNames[p] }

func (e event) String() string { return eventNames[e] }

func (a action) String() string { return actionNames[a] }

// String returns s as the stories have it.
func (s state) String() string {
	text := s.phase.String()
	if s.kills > 0 {
		text += fmt.Sprintf(" %d", s.kills)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"stopping", s.stopping}, {"announcing", s.announcing && !s.announced}, {"announced", s.announced}, {"ended", s.ended}} {
		if f.set {
			text += " " + f.name
		}
	}
	return text
}

// can reports whether e happens in s: what the API server answers was sent before, and of
// the former kills only unconfirmed ones are looked at.
func (s state) can(e event) bool {
	switch e {
	case killReturns:
		return s.kills > 0
	case patchBegins:
		return s.phase == pending
	case patchAccepted, patchDeclined:
		return s.phase == patching
	case announcementBegins:
		return s.due() && !s.announcing
	case announcementEnds:
		return s.announcing && !s.announced
	case formerKillConfirmed, formerKillRefuted, podRestarted:
		return s.unconfirmed()
	case podEnds:
		return !s.ended
	default:
		return true
	}
}

// TestStories runs the stories of testdata. Each begins with a kill that this evictd has
// saved, or with the steps of a former one, and goes on with an event a line:
//
//	saved [stopping] | restored [stopping] [recorded] [announced] [ended] [stale]
//	EVENT
//	> STATE: ACTION
//	    what comes out; "-rewrite" writes these lines
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/story-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, play(t, string(text)))
		})
	}
}

func play(t *testing.T, text string) string {
	var out strings.Builder
	var s state
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) > 0 && words[0] == ">" {
			continue
		}
		out.WriteString(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		var a action
		switch has := func(word string) bool { return slices.Contains(words[1:], word) }; words[0] {
		case "saved":
			s = state{stopping: has("stopping")}
		case "restored":
			s = restored(victim.Kill{Steps: victim.Steps{Stopping: has("stopping"), Recorded: has("recorded"), Announced: has("announced"), Ended: has("ended")}}, has("stale"))
		default:
			e := event(slices.Index(eventNames[:], words[0]))
			if e < 0 || !s.can(e) {
				t.Fatalf("%s cannot happen in the state %s", words[0], s)
			}
			s, a = next(s, e)
		}
		fmt.Fprintf(&out, "> %s: %s\n", s, a)
	}
	return out.String()
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); err != nil || diff != "" {
		t.Errorf("%s (-want +got), run with -rewrite if it should be so: %v\n%s", file, err, diff)
	}
}

// Whatever happens in which order, the API server receives each eviction of a killed pod
// once, with one event, and only then it leaves the journal. testdata/transitions.txt has all
// changes of phase that there are.
func TestEachEvictionIsSentBeforeItIsForgotten(t *testing.T) {
	reached := map[state]bool{}
	var todo []state
	reach := func(s state) {
		if s.kills <= 2 && !reached[s] {
			reached[s] = true
			todo = append(todo, s)
		}
	}
	reach(state{})
	reach(state{stopping: true})
	for bits := range 32 {
		bit := func(n int) bool { return bits>>n&1 == 1 }
		reach(restored(victim.Kill{Steps: victim.Steps{Stopping: bit(0), Recorded: bit(1), Announced: bit(2), Ended: bit(3)}}, bit(4)))
	}
	transitions := map[string]bool{}
	for len(todo) > 0 {
		s := todo[0]
		todo = todo[1:]
		for e := range event(len(eventNames)) {
			if !s.can(e) {
				continue
			}
			after, a := next(s, e)
			if after.phase != s.phase || a == settle || a == forget {
				to := after.phase.String()
				if a == settle || a == forget {
					to = a.String()
				}
				transitions[fmt.Sprintf("%-15s %-20s %s\n", s.phase, e, to)] = true
			}
			switch has := after.phase == recorded || after.phase == recordedBefore || after.phase == declined; {
			case (s.phase == recorded || s.phase == declined) && after.phase != s.phase:
				t.Errorf("%s after %s is %s: it is sent again", s, e, after)
			case a == settle && (!after.ended || !has && after.phase != unneeded || !after.announced):
				t.Errorf("%s after %s is settled as %s", s, e, after)
			case a == forget && (s.killed() || s.phase == unneeded && !s.announced):
				t.Errorf("%s after %s is forgotten", s, e)
			}
			if a != forget {
				reach(after)
			}
		}
	}
	t.Logf("%d states", len(reached))
	lines := slices.SortedFunc(maps.Keys(transitions), func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(phaseNames[:], strings.Fields(a)[0]), slices.Index(phaseNames[:], strings.Fields(b)[0])), cmp.Compare(a, b))
	})
	golden(t, "testdata/transitions.txt", strings.Join(lines, ""))
}
