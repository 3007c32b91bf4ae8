package startup

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into testdata instead of comparing")

// The names that testdata has.
var (
	phaseNames = [...]string{"completing", "ready", "launching", "launched", "configuring", "ending", "over"}
	turnNames  = [...]string{"waits", "holds", "passed"}
	eventNames = [...]string{
		"turnBegins", "turnEnds", "fileCompletes", "launchBegins", "launchSucceeds", "configureBegins", "configureSucceeds", "serviceBegins",
		"serviceDenied", "becomesStale", "failed",
	}
	actionNames = [...]string{"none", "cancel", "admit", "discard", "conclude"}
)

func (p Phase) String() string { return phaseNames[p] }

func (t Turn) String() string { return turnNames[t] }

func (e Event) String() string { return eventNames[e] }

func (a Action) String() string { return actionNames[a] }

// String returns s as testdata has it.
func (s State) String() string {
	text := s.Phase.String() + " " + s.Turn.String()
	if s.Stale {
		text += " stale"
	}
	return text
}

// can reports whether e happens in s.
func can(s State, e Event) bool {
	switch e {
	case TurnBegins:
		return s.Turn == Waits && s.Phase <= Ready
	case TurnEnds:
		return s.Turn == Holds
	case FileCompletes:
		return s.Phase == Completing
	case LaunchBegins:
		return s.Phase == Ready && s.Turn != Waits
	case LaunchSucceeds:
		return s.Phase == Launching
	case ConfigureBegins, ServiceBegins:
		return s.Phase == Launched
	case ConfigureSucceeds:
		return s.Phase == Configuring
	case ServiceDenied:
		return s.Phase == Launched || s.Phase == Configuring
	case Failed:
		return s.Phase == Completing || s.Phase == Launching || s.Phase == Ending
	case BecomesStale:
		return !s.Stale && s.Phase != Over
	default:
		return false
	}
}

// The stories of testdata are of attempts that begin with the look at a file, with an
// event a line; "-rewrite" writes what comes out.
func TestAttemptStories(t *testing.T) {
	const file = "testdata/attempts.txt"
	text := testos.ReadFile(t, file)
	var out strings.Builder
	var s State
	for line := range strings.Lines(string(text)) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == ">" {
			continue
		}
		out.WriteString(line)
		switch word {
		case "":
		case "#":
			s = State{}
		default:
			e := Event(slices.Index(eventNames[:], word))
			if e < 0 || !can(s, e) {
				t.Fatalf("%s cannot happen in the state %s", word, s)
			}
			var do Action
			s, do = Next(s, e)
			fmt.Fprintf(&out, "> %s: %s\n", s, do)
		}
	}
	golden(t, file, out.String())
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		testos.WriteFile(t, file, got, 0o644)
		return
	}
	want, err := os.ReadFile(file)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); err != nil || diff != "" {
		t.Errorf("%s (-want +got), run with -rewrite if it should be so: %v\n%s", file, err, diff)
	}
}

// Whatever happens in which order, an attempt ends, once: with a process that serves and that
// is wanted, or with nothing, and a process that does not serve is ended. testdata has all
// changes of phase that there are.
func TestEachAttemptEndsOnce(t *testing.T) {
	reached, todo := map[State]bool{{}: true}, []State{{}}
	transitions := map[string]bool{}
	for ; len(todo) > 0; todo = todo[1:] {
		s := todo[0]
		ends := false
		for e := range Event(len(eventNames)) {
			if !can(s, e) {
				continue
			}
			after, do := Next(s, e)
			ends = ends || after.Phase != s.Phase
			if after.Phase != s.Phase {
				transitions[fmt.Sprintf("%d %-12s %-18s %-12s %s\n", s.Phase, s.Phase, e, after.Phase, do)] = true
			}
			switch {
			case (do == Conclude) != (after.Phase == Over && s.Phase != Over && e != ServiceBegins):
				t.Errorf("%s after %s is %s: %s", s, e, after, do)
			case (s.Phase == Launched || s.Phase == Configuring) && after.Phase == Over && (e != ServiceBegins || s.Stale):
				t.Errorf("%s after %s is %s: its process is left or serves though another is wanted", s, e, after)
			case (do == Discard) != (after.Phase == Ending && s.Phase != Ending):
				t.Errorf("%s after %s is %s: its process is ended twice, or not", s, e, after)
			}
			if !reached[after] {
				reached[after] = true
				todo = append(todo, after)
			}
		}
		if ends == (s.Phase == Over) {
			t.Errorf("%s: nothing ends it", s)
		}
	}
	t.Logf("%d states", len(reached))
	var out strings.Builder
	for _, line := range slices.Sorted(maps.Keys(transitions)) {
		out.WriteString(line[2:])
	}
	golden(t, "testdata/attempt-transitions.txt", out.String())
}
