package replay

import (
	"errors"
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/*.golden anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *rewrite {
		testos.WriteFile(t, path, got, 0o644)
	}
	want := testos.ReadFile(t, path)
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
	hard := decision.Threshold{Signal: eviction.MemoryAvailable, Value: "1Gi", Since: new(at.Add(2500 * time.Millisecond)), GraceOver: true, Actionable: true}
	soft := decision.Threshold{Signal: eviction.MemoryAvailable, Value: "2Gi", GracePeriod: "1m0s", Since: &at}
	inodes := decision.Threshold{Signal: eviction.NodeFsInodesFree, Value: "5%", MinReclaim: "1%", Since: &at, GraceOver: true, Actionable: true}
	overSoft := soft
	overSoft.GraceOver = true
	acted := func(t decision.Threshold) decision.Threshold {
		t.Acted = true
		return t
	}
	return []func(*fake) (loop.PassResult, error){
		func(*fake) (loop.PassResult, error) {
			return loop.PassResult{Decision: decision.Decision{Observations: []decision.Observation{
				memory(12*gi + gi/2),
				{Signal: eviction.NodeFsInodesFree, State: decision.StateAbsent},
				{Signal: eviction.PIDAvailable, State: decision.StateUnknown, Err: "late"},
				{Signal: eviction.NodeFsAvailable, State: decision.StateObserved, Available: 1023},
			}}}, nil
		},
		func(f *fake) (loop.PassResult, error) {
			return loop.PassResult{
				Decision: decision.Decision{
					Observations: []decision.Observation{memory(gi - 1)}, Thresholds: []decision.Threshold{acted(hard), soft},
					Ranker: &decision.Ranker{Name: "memory"}, Order: []int{1, 0}, Candidates: []decision.Candidate{
						{UID: "u-small", Pod: "x/small", Usage: gi, MemoryRequest: 2 * gi},
						{UID: "u-big", Pod: "x/big", Usage: 3 * gi, MemoryRequest: gi, Reason: "exceeds request by 2Gi, priority 0"},
					},
				},
				Conditions: []eviction.Condition{eviction.MemoryPressure}, Evicted: []victim.Victim{f.evict("u-big")},
			}, nil
		},
		func(f *fake) (loop.PassResult, error) {
			if err := errors.Join(f.Reclaim()[stepContainerGC](f.ctx), f.Reclaim()[stepImageGC](f.ctx)); err != nil {
				return loop.PassResult{}, err
			}
			return loop.PassResult{
				Decision: decision.Decision{
					Thresholds: []decision.Threshold{overSoft, acted(inodes)},
					Reclaim:    []decision.Reclaim{{Step: "vendor-trim", By: "vendor", Err: "busy"}, {Step: "vendor-drop", By: "vendor", NotRun: "it frees things"}, {Step: stepContainerGC, By: "host"}, {Step: stepImageGC, By: "host"}},
				},
				Conditions:      []eviction.Condition{eviction.DiskPressure},
				ReclaimSufficed: true,
			}, nil
		},
		func(f *fake) (loop.PassResult, error) {
			_ = f.Reclaim()[stepImageGC](f.ctx)
			soft := overSoft
			soft.Actionable = true
			return loop.PassResult{Decision: decision.Decision{Thresholds: []decision.Threshold{acted(inodes), soft}}}, nil
		},
		func(*fake) (loop.PassResult, error) {
			return loop.PassResult{}, errors.New("no layout: gone")
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
