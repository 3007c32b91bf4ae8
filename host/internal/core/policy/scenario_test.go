package policy

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

var rewrite = flag.Bool("rewrite", false, "write what comes out into testdata instead of comparing")

// TestScenarios runs the stories of testdata. Each is a sequence of blocks:
//
//	hard SIGNAL VALUE | soft SIGNAL VALUE PERIOD | min-reclaim SIGNAL VALUE |
//	drop hard|soft|min-reclaim SIGNAL | enforce pods | transition PERIOD
//	    change the configuration from the next pass on
//	plugin SIGNAL UNIT CONDITION | no-plugin SIGNAL
//	    a plugin brings a custom signal, or goes
//	restart
//	    a new host that knows the old one's conditions only
//	first of OWNER for SIGNAL, all use AMOUNT|?
//	    what a ranking for a threshold of the last pass has put first
//	victim NAME [of OWNER] of SIGNAL uses AMOUNT|? GRACE
//	    a pod that went for a threshold of the last pass, at its time; what shortens its
//	    grace is told
//	measured NAME SIGNAL AMOUNT TIME | ended NAME TIME | dropped NAME TIME
//	    what becomes of it
//	at TIME
//	    a pass, followed by the observations, one a line:
//	SIGNAL [by OBSERVER] AMOUNT of CAPACITY [sampled TIME] [boot TIME] [freeing AMOUNT] |
//	SIGNAL [by OBSERVER] absent | SIGNAL [by OBSERVER] unknown
//	    one of several observers: they come in order, "acme" is a custom one;
//	    the sample is taken at the time of the pass unless it says otherwise,
//	    "sampled -" is one without a time; a signal that is not listed is unknown
//	> ...
//	    what comes out; "-rewrite" writes these lines
//
// Times count from the start of the story.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want := testos.ReadFile(t, file)
			got := newStory(t).play(string(want))
			if *rewrite {
				testos.WriteFile(t, file, got, 0o644)
				return
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s (-want +got), run with -rewrite if it should be so:\n%s", file, diff)
			}
		})
	}
}

// wear is another custom signal.
const wear eviction.Signal = "acme.example/nvme.wear"

var storyStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

type story struct {
	t          *testing.T
	config     ThresholdConfig
	transition time.Duration
	state      State
	ledger     Ledger
	last       Input
	// soft are victims of soft thresholds that may have their grace shortened.
	soft map[string]time.Duration
	// brought holds the custom signals in force.
	brought map[eviction.Signal]eviction.Definition
	text    string
	// pending is the pass that is being read.
	pending *Input
	out     bytes.Buffer
}

func newStory(t *testing.T) *story {
	return &story{t: t, brought: map[eviction.Signal]eviction.Definition{}, soft: map[string]time.Duration{}, config: ThresholdConfig{
		Hard: map[string]string{}, Soft: map[string]string{},
		SoftGracePeriod: map[string]string{}, MinReclaim: map[string]string{},
	}}
}

func (s *story) play(text string) string {
	s.text = text
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		fields := strings.Fields(line)
		if strings.HasPrefix(line, ">") {
			continue
		}
		if s.pending != nil && (len(fields) == 0 || !s.observation(fields)) {
			s.pass()
		}
		s.out.WriteString(line + "\n")
		if s.pending == nil && len(fields) > 0 && fields[0] != "#" {
			s.directive(fields)
		}
	}
	if s.pending != nil {
		s.pass()
	}
	return s.out.String()
}

func (s *story) directive(f []string) {
	set := map[string]map[string]string{"hard": s.config.Hard, "soft": s.config.Soft, "min-reclaim": s.config.MinReclaim}
	switch f[0] {
	case "hard", "min-reclaim":
		set[f[0]][f[1]] = f[2]
	case "soft":
		s.config.Soft[f[1]], s.config.SoftGracePeriod[f[1]] = f[2], f[3]
	case "drop":
		delete(set[f[1]], f[2])
	case "enforce":
		s.config.EnforceNodeAllocatable = f[1:]
	case "transition":
		s.transition = s.duration(f[1])
	case "plugin":
		s.brought[eviction.Signal(f[1])] = eviction.Definition{
			Unit: eviction.Unit(f[2]), Format: eviction.FormatDecimalSI, Resource: f[1], Condition: eviction.Condition(f[3]),
		}
	case "no-plugin":
		delete(s.brought, eviction.Signal(f[1]))
	case "victim":
		s.victim(f)
	case "first":
		s.first(f)
	case "measured":
		use := map[eviction.Signal]eviction.Figure{eviction.Signal(f[2]): eviction.Some(s.amount(f[3]))}
		s.ledger = s.ledger.Measured(f[1], s.threshold(f[2]), use, s.last.Observations, s.moment(f[4]))
	case "ended":
		delete(s.soft, f[1])
		s.ledger = s.ledger.Ended(f[1], s.moment(f[2]))
	case "dropped":
		s.ledger = s.ledger.Dropped(f[1], s.moment(f[2]))
	case "restart":
		s.state = Restore(s.state.ConditionsLastSeen())
	case "at":
		thresholds, err := ParseThresholds(s.config, spare, wear)
		if err != nil {
			s.t.Fatal(err)
		}
		thresholds = slices.DeleteFunc(Define(thresholds, s.brought), func(t Threshold) bool { return !t.Defined() })
		s.pending = &Input{
			Now: storyStart.Add(s.duration(f[1])), Thresholds: thresholds, TransitionPeriod: s.transition,
			Observations: map[eviction.Signal]eviction.Observation{}, Claims: map[eviction.Signal][]Claim{},
		}
	default:
		s.t.Fatalf("unknown line %q", f)
	}
}

func (s *story) moment(text string) Moment { return Moment{Time: storyStart.Add(s.duration(text))} }

// threshold returns the one of a signal in the last pass.
func (s *story) threshold(signal string) Threshold {
	i := slices.IndexFunc(s.last.Thresholds, func(t Threshold) bool { return t.Signal == eviction.Signal(signal) })
	if i < 0 {
		s.t.Fatalf("no threshold of %s", signal)
	}
	return s.last.Thresholds[i]
}

func (s *story) figure(text string) eviction.Figure {
	if text == "?" {
		return eviction.Figure{}
	}
	return eviction.Some(s.amount(text))
}

func (s *story) first(f []string) {
	t := s.threshold(strings.TrimSuffix(f[4], ","))
	now, o := Moment{Time: s.last.Now}, s.last.Observations[t.Signal]
	owner, _, _ := strings.Cut(f[2], "@")
	s.ledger = s.ledger.Chosen(t, o, Candidate{UID: f[2], Owner: owner, Controlled: true, All: s.figure(f[7])}, now)
	s.verdict(func(format string, args ...any) { fmt.Fprintf(&s.out, "> "+format+"\n", args...) }, t, o, now)
}

// siblings returns the pods that a ranking puts first in the story, and that are made by now: those without a time, "OWNER@TIME".
func (s *story) siblings() (uids []string) {
	for _, first := range regexp.MustCompile(`(?m)^first of (\S+)`).FindAllStringSubmatch(s.text, -1) {
		if _, when, _ := strings.Cut(first[1], "@"); when == "" || !s.moment(when).Time.After(s.last.Now) {
			uids = append(uids, first[1])
		}
	}
	return uids
}

func (s *story) victim(f []string) {
	owner := ""
	if f[4] == "of" {
		owner = f[3]
		f = slices.Delete(f, 2, 4)
	}
	t, use := s.threshold(f[3]), s.figure(f[5])
	p := Promise{UID: f[1], Pod: f[1], Owner: owner, Siblings: s.siblings(), Grace: s.duration(f[6]), Frees: Relieved(t, s.last.Thresholds, eviction.LayoutImageFs, use)}
	s.ledger = s.ledger.Promised(p, t, s.last.Observations, Moment{Time: s.last.Now})
	if !t.Hard() {
		s.soft[p.UID] = p.Grace
	}
}

// observation takes a line of a pass; false if it is none.
func (s *story) observation(f []string) bool {
	o := eviction.Observation{Signal: eviction.Signal(f[0]), Time: s.pending.Now}
	if _, ok := eviction.Builtin(o.Signal); !ok && o.Signal != spare && o.Signal != wear {
		return false
	}
	by := ""
	if f[1] == "by" {
		by, f = f[2], f[2:]
	}
	switch f[1] {
	case "absent":
		o.State = eviction.Absent
	case "unknown":
	default:
		o.State = eviction.Observed
		o.Available, o.Capacity = s.amount(f[1]), s.amount(f[3])
		for i := 4; i < len(f); i += 2 {
			switch {
			case f[i] == "sampled" && f[i+1] == "-":
				o.Time = time.Time{}
			case f[i] == "sampled":
				o.Time = storyStart.Add(s.duration(f[i+1]))
			case f[i] == "boot":
				o.BootNanos = int64(s.duration(f[i+1]))
			case f[i] == "freeing":
				o.Freeing = s.amount(f[i+1])
			default:
				s.t.Fatalf("unknown word %q in %q", f[i], f)
			}
		}
	}
	s.pending.Observations[o.Signal] = o
	if by != "" {
		s.pending.Claims[o.Signal] = append(s.pending.Claims[o.Signal], Claim{Observation: o, By: by, Custom: by == "acme"})
	}
	return true
}

func (s *story) pass() {
	in := *s.pending
	s.pending = nil
	var a Assessment
	counts := s.count(in)
	before := s.state.ConditionsLastSeen()
	s.state, a = Assess(s.state, in)
	actionable := map[Key]bool{}
	for _, t := range a.Actionable {
		actionable[t.Key()] = true
	}
	met := map[Key]bool{}
	for _, t := range a.Met {
		met[t.Key()] = true
	}
	lines := 0
	line := func(format string, args ...any) {
		lines++
		fmt.Fprintf(&s.out, "> "+format+"\n", args...)
	}
	if counts != "" {
		line("%s", counts)
	}
	for _, o := range a.Observed {
		text := fmt.Sprintf("%s since %s", o.Threshold, o.FirstObservedAt.Sub(storyStart))
		for _, word := range []struct {
			is   bool
			name string
		}{{o.Frozen, "frozen"}, {met[o.Key()], "met"}, {actionable[o.Key()], "actionable"}} {
			if word.is {
				text += ", " + word.name
			}
		}
		line("%s", text)
	}
	if t, ok := Choose(a.Actionable); ok {
		line("act on %s, short of %d", t, Shortfall(t, in.Observations[t.Signal]))
	}
	s.judge(line, a, in)
	if wait := UntilGraceEnds(a, in.Now); wait > 0 {
		line("grace ends in %s", wait)
	}
	s.conditions(line, a)
	if lines == 0 {
		line("quiet")
	}
	for c := range before {
		before[c] = time.Time{} // a State must not hand out its own maps
	}
}

// judge tells what the ledger has to say of the thresholds that could be acted on.
func (s *story) judge(line func(string, ...any), a Assessment, in Input) {
	s.last = in
	if len(s.ledger.promises) == 0 && len(s.ledger.brakes) == 0 {
		return
	}
	now := Moment{Time: in.Now}
	s.ledger = s.ledger.Observed(in.Observations, a.Observed, now)
	for _, t := range a.Actionable {
		s.verdict(line, t, in.Observations[t.Signal], now)
	}
}

func (s *story) verdict(line func(string, ...any), t Threshold, o eviction.Observation, now Moment) {
	v := s.ledger.Judge(t, o, now)
	switch {
	case v.Go:
		line("another pod may go for %s", t)
		return
	case v.Wait.For == WaitForPace:
		line("%s waits for the kubelet's pace after %s, until %s: %s", t, v.Wait.Victims[0], v.Wait.Until.Sub(storyStart), v.Wait.Reason)
		return
	case len(v.Measure) > 0:
		line("another pod may go for %s if %s has not grown", t, strings.Join(v.Measure, ", "))
	}
	line("%s waits for the %s of %s, %d of %d are back, until %s", t, v.Wait.For, strings.Join(v.Wait.Victims, ", "),
		v.Wait.CameBack, v.Wait.Expected, v.Wait.Until.Sub(storyStart))
	for _, name := range slices.Sorted(maps.Keys(s.soft)) {
		if _, cut := ShorterGrace(t, eviction.Observation{}, false, int64(s.soft[name]/time.Second)); cut {
			line("the grace of %s is cut to %ds", name, HardGraceSeconds)
			s.ledger = s.ledger.Shortened(name, HardGraceSeconds*time.Second, now)
			delete(s.soft, name)
		}
	}
}

// count has the figures that count observed, and says whose they are.
func (s *story) count(in Input) string {
	var whose []string
	for _, signal := range slices.Sorted(maps.Keys(in.Claims)) {
		figures := in.Claims[signal]
		s.state.Count(in.Thresholds, figures)
		in.Observations[signal] = figures[0].Observation
		whose = append(whose, fmt.Sprintf("%s counts as %s says", signal, figures[0].By))
	}
	return strings.Join(whose, ", ")
}

func (s *story) conditions(line func(string, ...any), a Assessment) {
	for _, list := range []struct {
		name       string
		conditions []eviction.Condition
	}{{"conditions", a.Conditions}, {"raised", a.Raised}, {"cleared", a.Cleared}} {
		text := list.name
		for _, c := range list.conditions {
			text += " " + string(c)
		}
		if len(list.conditions) > 0 {
			line("%s", text)
		}
	}
}

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *story) amount(text string) int64 {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return q.Value()
}
