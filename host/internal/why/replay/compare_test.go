package replay

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// outcome is one with everything in it.
func outcome() Outcome {
	wait := 3.0
	return Outcome{
		Signals:      []string{"emptydirfs.limit", "ephemeralpodfs.limit"},
		ReclaimCalls: []string{"container-gc", "image-gc"},
		Evictions: []Eviction{
			{UID: "u-a", Namespace: "x", Name: "a", GracePeriodSeconds: 1, IsEvicted: true, Phase: "Failed", Reason: "Evicted", Message: "large", Conditions: []v1.PodCondition{{Type: "DisruptionTarget"}}},
			{UID: "u-b", Namespace: "x", Name: "b", KillError: "timed out"},
		},
		Events: []Event{
			{Kind: kindNode, UID: "n", Name: "n", Type: "Warning", Reason: "EvictionThresholdMet", Message: "short"},
			{Kind: kindPod, UID: "u-a", Name: "a", Type: "Warning", Reason: "Evicted", Message: "large", Annotations: map[string]string{"k": "v"}},
		},
		Returned:           []string{"u-a", "u-b"},
		CleanupWaitSeconds: &wait,
	}
}

func decisions(change func(*StepDecision), outcomes ...Outcome) *Decisions {
	d := StepDecision{MemoryPressure: true, Outcomes: outcomes, Admit: []Admit{{UID: "u", Name: "w", Message: "The node had condition: [A B]. "}}}
	if change != nil {
		change(&d)
	}
	return &Decisions{Steps: []StepDecision{d}}
}

func changedOutcome(change func(*Outcome)) Outcome {
	o := outcome()
	change(&o)
	return o
}

func TestWhatIsTheSame(t *testing.T) {
	for name, c := range map[string]struct{ got, want *Decisions }{
		"itself":              {decisions(nil, outcome()), decisions(nil, outcome())},
		"one of several":      {decisions(nil, outcome()), decisions(nil, Outcome{}, Outcome{Signals: []string{"x"}}, outcome())},
		"none recorded":       {decisions(nil, Outcome{}), decisions(nil)},
		"labels in any order": {decisions(nil, outcome()), decisions(nil, changedOutcome(func(o *Outcome) { o.Signals[0], o.Signals[1] = o.Signals[1], o.Signals[0] }))},
		"no annotations, empty ones": {
			decisions(nil, changedOutcome(func(o *Outcome) { o.Events[0].Annotations = map[string]string{} })), decisions(nil, outcome()),
		},
		"empty lists": {
			decisions(nil, Outcome{}), decisions(nil, Outcome{Signals: []string{}, Evictions: []Eviction{}, Events: []Event{}, Returned: []string{}}),
		},
		"ties, all of which are recorded": {
			decisions(nil, outcome()), decisions(nil, changedOutcome(func(o *Outcome) { o.TiedPods = []string{"u-a", "u-z"} })),
		},
		"text of an error":          {decisions(func(d *StepDecision) { d.Error = "no layout" }, Outcome{}), decisions(func(d *StepDecision) { d.Error = "what layout?" }, Outcome{})},
		"conditions in a message":   {decisions(func(d *StepDecision) { d.Admit[0].Message = "The node had condition: [B A]. " }, Outcome{}), decisions(nil, Outcome{})},
		"thresholds, which explain": {decisions(func(d *StepDecision) { d.Observed = []ObservedThreshold{{}} }, Outcome{}), decisions(nil, Outcome{})},
	} {
		t.Run(name, func(t *testing.T) {
			if d := Compare(&Scenario{}, c.got, c.want); d != nil {
				t.Error(d)
			}
		})
	}
}

func TestWhatDiffers(t *testing.T) {
	for want, got := range map[string]*Decisions{
		`steps[0].error: got "", recorded "no layout"`:                                                                        decisions(func(d *StepDecision) { d.Error = "" }, outcome()),
		`steps[0].memoryPressure: got false, recorded true`:                                                                   broken(func(d *StepDecision) { d.MemoryPressure = false }),
		`steps[0].diskPressure: got true, recorded false`:                                                                     broken(func(d *StepDecision) { d.DiskPressure = true }),
		`steps[0].pidPressure: got true, recorded false`:                                                                      broken(func(d *StepDecision) { d.PIDPressure = true }),
		`steps[0].outcomes: got 0, recorded 1`:                                                                                broken(func(d *StepDecision) { d.Outcomes = nil }),
		`steps[0].signals: got ["emptydirfs.limit"], recorded ["emptydirfs.limit","ephemeralpodfs.limit"]`:                    breaks(func(o *Outcome) { o.Signals = o.Signals[:1] }),
		`steps[0].reclaimCalls: got null, recorded ["container-gc","image-gc"]`:                                               breaks(func(o *Outcome) { o.ReclaimCalls = nil }),
		`steps[0].evictions: got ["x/a"], recorded ["x/a","x/b"]`:                                                             breaks(func(o *Outcome) { o.Evictions = o.Evictions[:1] }),
		`steps[0].evictions[0].uid: got "u-c", recorded "u-a"`:                                                                breaks(func(o *Outcome) { o.Evictions[0].UID = "u-c" }),
		`steps[0].evictions[0].namespace: got "y", recorded "x"`:                                                              breaks(func(o *Outcome) { o.Evictions[0].Namespace = "y" }),
		`steps[0].evictions[0].name: got "c", recorded "a"`:                                                                   breaks(func(o *Outcome) { o.Evictions[0].Name = "c" }),
		`steps[0].evictions[0].gracePeriodSeconds: got 0, recorded 1`:                                                         breaks(func(o *Outcome) { o.Evictions[0].GracePeriodSeconds = 0 }),
		`steps[0].evictions[0].isEvicted: got false, recorded true`:                                                           breaks(func(o *Outcome) { o.Evictions[0].IsEvicted = false }),
		`steps[0].evictions[0].phase: got "", recorded "Failed"`:                                                              breaks(func(o *Outcome) { o.Evictions[0].Phase = "" }),
		`steps[0].evictions[0].reason: got "", recorded "Evicted"`:                                                            breaks(func(o *Outcome) { o.Evictions[0].Reason = "" }),
		`steps[0].evictions[0].message: got "small", recorded "large"`:                                                        breaks(func(o *Outcome) { o.Evictions[0].Message = "small" }),
		`steps[0].evictions[1].killError: got "", recorded "timed out"`:                                                       breaks(func(o *Outcome) { o.Evictions[1].KillError = "" }),
		`steps[0].events: got ["Node n EvictionThresholdMet"], recorded ["Node n EvictionThresholdMet","Pod a Evicted"]`:      breaks(func(o *Outcome) { o.Events = o.Events[:1] }),
		`steps[0].events[1].kind: got "Node", recorded "Pod"`:                                                                 breaks(func(o *Outcome) { o.Events[1].Kind = kindNode }),
		`steps[0].events[1].uid: got "", recorded "u-a"`:                                                                      breaks(func(o *Outcome) { o.Events[1].UID = "" }),
		`steps[0].events[1].name: got "", recorded "a"`:                                                                       breaks(func(o *Outcome) { o.Events[1].Name = "" }),
		`steps[0].events[1].type: got "Normal", recorded "Warning"`:                                                           breaks(func(o *Outcome) { o.Events[1].Type = "Normal" }),
		`steps[0].events[1].reason: got "", recorded "Evicted"`:                                                               breaks(func(o *Outcome) { o.Events[1].Reason = "" }),
		`steps[0].events[1].message: got "", recorded "large"`:                                                                breaks(func(o *Outcome) { o.Events[1].Message = "" }),
		`steps[0].events[1].annotations: got {"k":"w"}, recorded {"k":"v"}`:                                                   breaks(func(o *Outcome) { o.Events[1].Annotations = map[string]string{"k": "w"} }),
		`steps[0].returned: got ["u-b","u-a"], recorded ["u-a","u-b"]`:                                                        breaks(func(o *Outcome) { o.Returned = []string{"u-b", "u-a"} }),
		`steps[0].cleanupWaitSeconds: got null, recorded 3`:                                                                   breaks(func(o *Outcome) { o.CleanupWaitSeconds = nil }),
		`steps[0].cleanupWaitSeconds: got 2, recorded 3`:                                                                      breaks(func(o *Outcome) { o.CleanupWaitSeconds = new(2.0) }),
		`steps[0].admit: got [], recorded [{"uid":"u","name":"w","admit":false,"message":"The node had condition: [A B]. "}]`: broken(func(d *StepDecision) { d.Admit = []Admit{} }),
		`steps: got 0, recorded 1`:                                                                                            {},
		`configError: got "bad", recorded ""`:                                                                                 {ConfigError: "bad"},
	} {
		t.Run(want, func(t *testing.T) {
			recorded := decisions(nil, Outcome{ReclaimCalls: []string{"other"}, Returned: []string{"u-z"}, Signals: []string{"z"}}, outcome())
			if strings.Contains(want, ".error") {
				recorded.Steps[0].Error = "no layout"
			}
			d := Compare(&Scenario{}, got, recorded)
			if d == nil {
				t.Fatal("no difference")
			}
			if d.String() != want {
				t.Errorf("got %s", d)
			}
		})
	}
}

func broken(change func(*StepDecision)) *Decisions { return decisions(change, outcome()) }

func breaks(change func(*Outcome)) *Decisions { return decisions(nil, changedOutcome(change)) }

func TestConditionsOfAnEvictionCount(t *testing.T) {
	d := Compare(&Scenario{}, breaks(func(o *Outcome) { o.Evictions[0].Conditions = nil }), decisions(nil, outcome()))
	if d == nil || d.Field != "evictions[0].conditions" {
		t.Errorf("got %v", d)
	}
}

// Where too many pods rank equal, not every outcome is recorded.
func TestTiesThatAreNotAllRecorded(t *testing.T) {
	tied := func(uid string, change func(*Outcome)) Outcome {
		o := Outcome{
			Signals:   []string{"memory.available"},
			Evictions: []Eviction{{UID: uid, Name: uid, GracePeriodSeconds: int64(len(uid)), IsEvicted: true, Phase: "Failed", Reason: "Evicted", Message: "for " + uid}},
			Events:    []Event{{Kind: kindNode, Message: "short"}, {Kind: kindPod, UID: uid, Name: uid, Message: "for " + uid}},
			Returned:  []string{uid}, TiedPods: []string{"a", "b", "cc"}, TieTruncated: true,
		}
		if change != nil {
			change(&o)
		}
		return o
	}
	recorded := decisions(nil, tied("a", nil))
	for name, c := range map[string]struct {
		got  Outcome
		same bool
	}{
		"the recorded victim":                   {tied("a", nil), true},
		"another that ranks equal":              {tied("cc", nil), true},
		"one that does not":                     {tied("d", nil), false},
		"the recorded victim for another cause": {tied("a", func(o *Outcome) { o.Evictions[0].Message = "for fun" }), false},
		"for another signal":                    {tied("b", func(o *Outcome) { o.Signals = []string{"pid.available"} }), false},
		"another event on the node":             {tied("b", func(o *Outcome) { o.Events[0].Message = "long" }), false},
		"an event on another pod":               {tied("b", func(o *Outcome) { o.Events[1].UID = "a" }), false},
		"without an event":                      {tied("b", func(o *Outcome) { o.Events = o.Events[:1] }), false},
		"not returned":                          {tied("b", func(o *Outcome) { o.Returned = nil }), false},
		"two victims":                           {tied("b", func(o *Outcome) { o.Evictions = append(o.Evictions, o.Evictions[0]) }), false},
	} {
		t.Run(name, func(t *testing.T) {
			if d := Compare(&Scenario{}, decisions(nil, c.got), recorded); (d == nil) != c.same {
				t.Errorf("difference %v, want the same: %v", d, c.same)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	s := &Scenario{Config: Config{
		EvictionHard:            map[string]string{"memory.available": "-5", "foo": "1Gi"},
		EvictionSoftGracePeriod: map[string]string{"pid.available": "1 min"},
	}}
	const ours = `evictionHard["foo"]: unknown signal foo
evictionHard["memory.available"]: "-5": want more than 0
evictionSoftGracePeriod["pid.available"]: "1 min": time: invalid duration "1 min"; want one`
	for name, c := range map[string]struct {
		recorded []string
		got      string
		same     bool
	}{
		"the same field and value, other words": {[]string{"eviction threshold memory.available must be positive: -5"}, ours, true},
		"one of several":                        {[]string{"unsupported eviction signal foo"}, ours, true},
		"its own words":                         {[]string{`time: invalid duration "1 min"`}, ours, true},
		"any of the recorded":                   {[]string{"other", "unsupported eviction signal foo"}, ours, true},
		"another value":                         {[]string{"eviction threshold memory.available must be positive: -5"}, `evictionHard["memory.available"]: "-6": want more than 0`, false},
		"names nothing":                         {[]string{"quantities must match"}, ours, false},
		"field and value on lines of their own": {[]string{"memory.available must be positive: -5"}, "memory.available is wrong\n-5 is wrong", false},
		"not refused":                           {[]string{"unsupported eviction signal foo"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := Compare(s, &Decisions{ConfigError: c.got}, &Decisions{ConfigError: c.recorded[0], ConfigErrors: c.recorded})
			if (d == nil) != c.same {
				t.Errorf("difference %v, want the same: %v", d, c.same)
			}
		})
	}
}

// Whatever a recorded manager did is right, and nothing that was not recorded is.
func TestRecordedOutcomesAreRight(t *testing.T) {
	files, err := filepath.Glob("../../../../test/traces/rule-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	for _, path := range files {
		trace, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range trace.Decisions.Steps {
			want := &trace.Decisions.Steps[i]
			for _, o := range want.Outcomes {
				got := *want
				got.Outcomes = []Outcome{o}
				if d := compareStep(&got, want); d != nil {
					t.Errorf("%s: step %d: %v", path, i, d)
				}
				o.Signals = append([]string{"made up"}, o.Signals...)
				got.Outcomes = []Outcome{o}
				if compareStep(&got, want) == nil {
					t.Errorf("%s: step %d: a made up signal is right", path, i)
				}
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	s := &Scenario{Name: "s", Steps: []Step{{Note: "too late"}}}
	quirky := &Scenario{Name: "q", Quirks: []string{"panic"}, Steps: s.Steps}
	same, other := decisions(nil, outcome()), decisions(nil, Outcome{})
	crashed := decisions(nil, changedOutcome(func(o *Outcome) { o.Panic = "nil" }))
	for name, c := range map[string]struct {
		trace *Trace
		got   *Decisions
		err   error
		want  Verdict
	}{
		"same":              {&Trace{s, same}, same, nil, Verdict{Result: Passed}},
		"not the same":      {&Trace{s, same}, other, nil, Verdict{Failed, `steps[0].signals: got null, recorded ["emptydirfs.limit","ephemeralpodfs.limit"] (too late)`}},
		"nothing recorded":  {&Trace{s, nil}, same, nil, Verdict{Failed, "no decisions are recorded in it, nothing to check against"}},
		"did not run":       {&Trace{quirky, same}, nil, errNoSummary, Verdict{Failed, errNoSummary.Error()}},
		"quirk, the same":   {&Trace{quirky, same}, same, nil, Verdict{Skipped, "evictd decides as recorded"}},
		"quirk, a panic":    {&Trace{quirky, crashed}, same, nil, Verdict{Skipped, "evictd instead: goes on where the recorded manager panicked"}},
		"quirk, on purpose": {&Trace{quirky, other}, broken(func(d *StepDecision) { d.PIDPressure = true }), nil, Verdict{Skipped, "evictd instead: steps[0].pidPressure: got true, recorded false (too late)"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Check(c.trace, &Replay{Decisions: c.got}, c.err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecisionsKeepTheirFormat(t *testing.T) {
	trace, err := Read("../../../../test/traces/rule-reclaim-suffices.json")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(trace)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(trace.Decisions, again.Decisions); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
