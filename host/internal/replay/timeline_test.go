package replay

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.golden anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got), -rewrite writes it anew:\n%s", path, diff)
	}
}

// The pods and passes of a bad day: memory, then disks, then nothing works.
const badDay = `
name: bad day
description: "two lines\nin one"
nodeName: n1
startTime: 2026-01-01T12:00:00Z
config:
	evictionHard: {memory.available: 1Gi, nodefs.inodesFree: 5%}
	evictionSoft: {memory.available: 2Gi}
	evictionSoftGracePeriod: {memory.available: 1m}
	evictionMinimumReclaim: {nodefs.inodesFree: 1%}
pods:
- {metadata: {name: small, namespace: x, uid: u-small}}
- {metadata: {name: big, namespace: x, uid: u-big}}
steps:
- {note: all is well, summary: {}}
- {advanceSeconds: 2.5, note: memory, cleanupSeconds: 2, killErrors: {u-big: no runtime}, admit: [{metadata: {name: welcome, uid: u-w}}, {metadata: {name: late, uid: u-l}}]}
- {removePods: [u-big], updatePods: [{metadata: {name: small2, namespace: x, uid: u-small}}], addPods: [{metadata: {name: new, namespace: x, uid: u-new}}], note: disk}
- {summaryError: no figures}
- {diskInfoError: gone}
`

func badPasses() []func(*fake) (loop.PassResult, error) {
	at := time.Date(2026, 1, 1, 12, 0, 10, 0, time.UTC)
	const gi = 1 << 30
	memory := func(available int64) decision.Observation {
		return decision.Observation{Signal: eviction.MemoryAvailable, State: decision.StateObserved, Available: available, Capacity: 16 * gi}
	}
	hard := loop.MetThreshold{Signal: eviction.MemoryAvailable, Quantity: "1Gi", FirstObservedAt: at.Add(2500 * time.Millisecond), GraceOver: true, Actionable: true}
	soft := loop.MetThreshold{Signal: eviction.MemoryAvailable, Quantity: "2Gi", GracePeriod: "1m0s", FirstObservedAt: at}
	inodes := loop.MetThreshold{Signal: eviction.NodeFsInodesFree, Percentage: "0.05", MinReclaim: "0.01x", FirstObservedAt: at, GraceOver: true, Actionable: true}
	overSoft := soft
	overSoft.GraceOver = true
	return []func(*fake) (loop.PassResult, error){
		func(*fake) (loop.PassResult, error) {
			return loop.PassResult{Chosen: -1, Signals: []decision.Observation{
				memory(12*gi + gi/2),
				{Signal: eviction.NodeFsInodesFree, State: decision.StateAbsent},
				{Signal: eviction.PIDAvailable, State: decision.StateUnknown, Err: "late"},
				{Signal: eviction.NodeFsAvailable, State: decision.StateObserved, Available: 1023},
			}}, nil
		},
		func(f *fake) (loop.PassResult, error) {
			return loop.PassResult{
				Signals: []decision.Observation{memory(gi - 1)}, Thresholds: []loop.MetThreshold{hard, soft}, Conditions: []eviction.Condition{eviction.MemoryPressure},
				Chosen: 0, Ranker: "memory", Ranking: []loop.RankedPod{
					{UID: "u-big", Pod: "x/big", State: "measured", Usage: 3 * gi, Request: gi, Reason: "exceeds request by 2Gi, priority 0"},
					{UID: "u-small", Pod: "x/small", State: "measured", Usage: gi, Request: 2 * gi},
				},
				Evicted: []victim.Victim{f.evict("u-big")},
			}, nil
		},
		func(f *fake) (loop.PassResult, error) {
			if err := errors.Join(f.Reclaim()[stepContainerGC](f.ctx), f.Reclaim()[stepImageGC](f.ctx)); err != nil {
				return loop.PassResult{}, err
			}
			return loop.PassResult{
				Thresholds: []loop.MetThreshold{overSoft, inodes}, Conditions: []eviction.Condition{eviction.DiskPressure}, Chosen: 1,
				Reclaim:         []loop.ReclaimResult{{Step: "vendor-trim", By: "vendor", Err: "busy"}, {Step: "vendor-drop", By: "vendor", NotRun: "it frees things"}, {Step: stepContainerGC, By: "host"}, {Step: stepImageGC, By: "host"}},
				ReclaimSufficed: true,
			}, nil
		},
		func(f *fake) (loop.PassResult, error) {
			_ = f.Reclaim()[stepImageGC](f.ctx)
			soft := overSoft
			soft.Actionable = true
			return loop.PassResult{Chosen: 0, Thresholds: []loop.MetThreshold{inodes, soft}}, nil
		},
		func(*fake) (loop.PassResult, error) {
			return loop.PassResult{Chosen: -1}, errors.New("no layout: gone")
		},
	}
}

func TestTimeline(t *testing.T) {
	s := scenario(t, badDay)
	r, _ := run(t, s, badPasses()...)
	golden(t, "timeline", Timeline(&Trace{Scenario: s}, r))
}

func TestTimelineBesideWhatWasRecorded(t *testing.T) {
	s := scenario(t, badDay)
	r, _ := run(t, s, badPasses()...)
	recorded := *r.Decisions
	recorded.Steps = append([]StepDecision{}, r.Decisions.Steps[:4]...)
	recorded.Steps[1].MemoryPressure = true
	s.Quirks = []string{"panic"}
	golden(t, "recorded", Timeline(&Trace{s, &recorded}, r))
}

func TestTimelineOfARefusedConfiguration(t *testing.T) {
	s := scenario(t, `{name: refused, config: {evictionHard: {memory.available: lots, foo: 1Gi}}, steps: [{summary: {}}]}`)
	r, err := Run(t.Context(), s, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "refused", Timeline(&Trace{s, &Decisions{ConfigError: "unsupported eviction signal foo"}}, r))
}

func TestWhatDecidedARanking(t *testing.T) {
	pod := func(change func(*loop.RankedPod)) loop.RankedPod {
		p := loop.RankedPod{State: "measured", Usage: 5, Request: 5}
		if change != nil {
			change(&p)
		}
		return p
	}
	unknown := pod(func(p *loop.RankedPod) { p.State = noStats })
	important := pod(func(p *loop.RankedPod) { p.Priority = 1 })
	large := pod(func(p *loop.RankedPod) { p.Usage, p.Request = 9, 8 })
	frugal := pod(func(p *loop.RankedPod) { p.Request = 6 })
	bytes := pod(func(p *loop.RankedPod) { p.Request, p.LessBytes = 0, 6 })
	files := pod(func(p *loop.RankedPod) { p.Request = 0 })
	hidden := pod(func(p *loop.RankedPod) { p.State, p.Usage = "unknown", 0 })
	idle := pod(func(p *loop.RankedPod) { p.Usage, p.Request = 0, 0 })
	for name, c := range map[string]struct {
		signal eviction.Signal
		a, b   loop.RankedPod
		want   string
	}{
		"no figures":                  {eviction.MemoryAvailable, unknown, pod(nil), "no figures of it"},
		"more than requested":         {eviction.MemoryAvailable, large, pod(nil), "uses more than it requests"},
		"priority":                    {eviction.NodeFsAvailable, pod(nil), important, "lower priority"},
		"further over the request":    {eviction.NodeFsAvailable, pod(nil), frugal, "more usage beyond its request"},
		"inodes have no request":      {eviction.NodeFsInodesFree, bytes, idle, "uses inodes"},
		"inodes, the bytes requested": {eviction.NodeFsInodesFree, files, bytes, "more inodes less its request of bytes"},
		"processes":                   {eviction.PIDAvailable, large, pod(nil), "more processes"},
		"processes, priority first":   {eviction.PIDAvailable, pod(nil), important, "lower priority"},
		"processes, no figures":       {eviction.PIDAvailable, unknown, large, "no figures of it"},
		"own signal, priority first":  {"acme.example/spare", pod(nil), important, "lower priority"},
		"own signal":                  {"acme.example/spare", large, frugal, "larger use"},
		"own signal, equal":           {"acme.example/spare", pod(nil), pod(nil), "QoS class, or the order of the pods: all else is equal"},
		"use that nobody knows":       {eviction.MemoryAvailable, pod(nil), hidden, "its use is known"},
		"equal":                       {eviction.MemoryAvailable, pod(nil), pod(nil), "the order of the pods, all else is equal"},
		"another ranker":              {eviction.MemoryAvailable, important, pod(nil), "the ranker's own choice"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DecidedBy(c.signal, c.a, c.b); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAmounts(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1Ki", 1536 << 20: "1.5Gi", -2048: "-2Ki", 1<<63 - 1: "8Ei", -1 << 63: "-8Ei", 1<<30 + 1: "1Gi",
	} {
		if got := amount(eviction.MemoryAvailable, n); got != want {
			t.Errorf("%d bytes: got %q, want %q", n, got, want)
		}
	}
	if got := amount(eviction.PIDAvailable, 32768); got != "32768" {
		t.Errorf("processes: %q", got)
	}
	for part, want := range map[string]string{"0.1": "10%", "0.045": "4.5%", "1": "100%", "what": "what"} {
		if got := percent(part); got != want {
			t.Errorf("percent(%q) = %q, want %q", part, got, want)
		}
	}
}

// Amounts of own signals were raw numbers beside thresholds of a few gibibytes.
func TestAmountsOfOwnSignalsHaveTheirFormatAndUnit(t *testing.T) {
	const spare eviction.Signal = "acme.example/spare"
	for want, own := range map[string]*loop.CustomSignal{
		"3Gi of 4Gi (75%)":                             {Unit: eviction.UnitBytes, Format: eviction.FormatBinarySI},
		"3Gi pages of 4Gi pages (75%)":                 {Unit: "pages", Format: eviction.FormatBinarySI},
		"3221225472 blocks of 4294967296 blocks (75%)": {Unit: "blocks", Format: eviction.FormatDecimalSI},
		"3221225472 of 4294967296 (75%)":               nil,
	} {
		t.Run(want, func(t *testing.T) {
			s := decision.Observation{Signal: spare, State: decision.StateObserved, Available: 3 << 30, Capacity: 4 << 30}
			if got := observation(own, s); got != string(spare)+" "+want {
				t.Errorf("got %q, want %q", got, want)
			}
			w := &timeline{}
			w.ranking(&loop.PassResult{
				Custom: map[eviction.Signal]*loop.CustomSignal{spare: own}, Thresholds: []loop.MetThreshold{{Signal: spare}},
				Ranking: []loop.RankedPod{{Pod: "a/large", State: "measured", Usage: 3 << 30}},
			})
			if use, _, _ := strings.Cut(want, " of "); !strings.Contains(w.b.String(), "  "+use+"  ") {
				t.Errorf("no %q in\n%s", use, w.b.String())
			}
		})
	}
}

func TestLongRankingsAreCut(t *testing.T) {
	w := &timeline{}
	w.ranking(&loop.PassResult{Chosen: -1, Ranking: make([]loop.RankedPod, rankedShown+3)})
	if got := w.b.String(); !strings.Contains(got, "and 3 more\n") || strings.Count(got, "\n") != rankedShown+3 {
		t.Errorf("got\n%s", got)
	}
}

// A custom ranker's order may agree with the kubelet's by chance: its own reason is why.
func TestACustomOrderIsExplainedByItsRanker(t *testing.T) {
	pods := []loop.RankedPod{{Pod: "a/cheap", Reason: "costs 1"}, {Pod: "a/dear", Priority: 5, Reason: "costs 2"}, {Pod: "a/last"}}
	for ranker, want := range map[string][]string{
		"by-cost": {"costs 1\n", "costs 2\n"},
		"memory":  {"lower priority\n", "the ranker's own choice\n"},
	} {
		w := &timeline{}
		w.ranking(&loop.PassResult{Chosen: -1, Ranker: ranker, Ranking: pods})
		for _, reason := range want {
			if got := w.b.String(); !strings.Contains(got, reason) {
				t.Errorf("by %s: no %q in\n%s", ranker, reason, got)
			}
		}
	}
}
