package replay

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/config"
)

func nothing(*fake) (loop.PassResult, error) { return loop.PassResult{}, nil }

func names(pods []*v1.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.Name)
	}
	return strings.Join(out, " ")
}

func TestPodsAndTimeBetweenPasses(t *testing.T) {
	s := scenario(t, `
startTime: 2026-01-01T00:00:00Z
pods:
- metadata: {name: a, uid: a}
- metadata: {name: b, uid: b}
- metadata: {name: c, uid: c}
steps:
- {advanceSeconds: 0, summary: {}}
- {advanceSeconds: 2.5, removePods: [a], updatePods: [{metadata: {name: b2, uid: b}}], addPods: [{metadata: {name: d, uid: d}}]}
- {removePods: [d], addPods: [{metadata: {name: d2, uid: d}}]}
`)
	var seen []string
	look := func(f *fake) (loop.PassResult, error) {
		seen = append(seen, f.Now().UTC().Format("05.0 ")+names(f.ActivePods()))
		return nothing(f)
	}
	r, _ := run(t, s, look, look, look)
	if diff := cmp.Diff([]string{"00.0 a b c", "02.5 b2 c d", "12.5 b2 c d2"}, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := r.Decisions.Steps[1].Now; !got.Equal(&s.StartTime) && got.Sub(s.StartTime.Time) != 2500*time.Millisecond {
		t.Errorf("the second pass was at %v", got)
	}
}

func TestFigures(t *testing.T) {
	s := scenario(t, `
steps:
- {summary: {node: {nodeName: first}}}
- {reclaim: {summaryAfter: {node: {nodeName: after}}}}
- {reclaim: {summaryAfterError: gone}}
- {summary: {node: {nodeName: fourth}}, summaryError: not now}
- {}
`)
	var seen []string
	look := func(f *fake) (loop.PassResult, error) {
		for range 2 {
			b, err := f.Summary(t.Context())
			if err != nil {
				b = []byte(err.Error())
			}
			seen = append(seen, string(b))
		}
		return nothing(f)
	}
	r, _ := run(t, s, look, look, look, look, look)
	node := func(name string) string { return `{"node":{"nodeName":"` + name + `"}}` }
	want := []string{
		node("first"), node("first"), // no reclaim: the same again
		node("first"), node("after"), // the step before counts, then the reclaim
		node("first"), "gone", // what followed a reclaim is not kept
		"not now", node("fourth"), // only the first call fails
		node("fourth"), node("fourth"),
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{2}, r.Decisions.Steps[0].SummaryCalls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestFilesystemsAndReclaim(t *testing.T) {
	s := scenario(t, `
filesystemLayout: containerfs
steps:
- {summary: {}, diskInfoError: no device, containerFsInfoError: no layer, reclaim: {containerGCError: busy}}
- {reclaim: {imageGCError: pinned}}
`)
	text := func(ok bool, err error) string {
		if err != nil {
			return err.Error()
		}
		return map[bool]string{true: "yes", false: "no"}[ok]
	}
	var seen []string
	look := func(f *fake) (loop.PassResult, error) {
		seen = append(seen, text(f.HasDedicatedImageFs(t.Context())), text(f.HasDedicatedContainerFs(t.Context())),
			text(true, f.Reclaim()["container-gc"](t.Context())), text(true, f.Reclaim()["image-gc"](t.Context())))
		return nothing(f)
	}
	r, _ := run(t, s, look, look)
	want := []string{"no device", "no layer", "busy", "yes", "yes", "yes", "yes", "pinned"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"container-gc", "image-gc"}, r.Decisions.Steps[0].Outcomes[0].ReclaimCalls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestAnEvictionIsRecorded(t *testing.T) {
	s := scenario(t, `
nodeName: n1
pods:
- {metadata: {name: big, namespace: x, uid: u-big}, status: {conditions: [{type: Ready, status: "True"}]}}
- {metadata: {name: other, namespace: x, uid: u-other}}
steps:
- {summary: {}, cleanupSeconds: 2.5, killErrors: {"*": timed out, u-big: no runtime}, admit: [{metadata: {name: welcome, uid: u-w}}, {metadata: {name: late, uid: u-l}}]}
- {cleanupSeconds: 60, killErrors: {"*": timed out}}
- {}
`)
	evict := func(uid string) func(f *fake) (loop.PassResult, error) {
		return func(f *fake) (loop.PassResult, error) {
			return loop.PassResult{Evicted: []victim.Victim{f.evict(uid)}}, nil
		}
	}
	r, _ := run(t, s, evict("u-big"), evict("u-other"), evict("u-big"))
	wait := 3.0
	want := Outcome{
		Signals: []string{"memory.available"},
		Evictions: []Eviction{{
			UID: "u-big", Namespace: "x", Name: "big", GracePeriodSeconds: 1, IsEvicted: true, Phase: "Failed", Reason: "Evicted", Message: "too large",
			Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}, KillError: "no runtime",
		}},
		Events: []Event{
			{Kind: "Node", UID: "n1", Name: "n1", Type: "Warning", Reason: "EvictionThresholdMet", Message: "Attempting to reclaim memory"},
			{
				Kind: "Pod", UID: "u-big", Name: "big", Type: "Warning", Reason: "Evicted", Message: "too large",
				Annotations: map[string]string{"starved_resource": "memory"},
			},
		},
		Returned: []string{"u-big"}, CleanupWaitSeconds: &wait,
	}
	if diff := cmp.Diff([]Outcome{want}, r.Decisions.Steps[0].Outcomes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Admit{{UID: "u-w", Name: "welcome", Admit: true}, {UID: "u-l", Name: "late", Reason: "Evicted", Message: "no room"}}, r.Decisions.Steps[0].Admit); diff != "" {
		t.Errorf("admit (-want +got):\n%s", diff)
	}
	if got := r.Decisions.Steps[1].Outcomes[0]; *got.CleanupWaitSeconds != 30 || got.Evictions[0].KillError != "timed out" {
		t.Errorf("the second eviction is %+v", got)
	}
	if got := r.Decisions.Steps[2].Outcomes[0]; got.CleanupWaitSeconds != nil || got.Evictions[0].KillError != "" {
		t.Errorf("the third eviction is %+v", got)
	}
	if got := s.Pods[0].Status; got.Phase != "" || len(got.Conditions) != 1 {
		t.Errorf("the scenario's pod was changed: %+v", got)
	}
	if got := r.Decisions.Steps[1].Now.Sub(r.Decisions.Steps[0].Now.Time); got != 10*time.Second {
		t.Errorf("the wait moved the clock of the passes: %v", got)
	}
}

func TestAFailedPassKeepsConditions(t *testing.T) {
	fails := func(*fake) (loop.PassResult, error) { return loop.PassResult{}, errors.New("no layout") }
	r, _ := run(t, scenario(t, "steps: [{summary: {}}]"), fails)
	d := r.Decisions.Steps[0]
	if diff := cmp.Diff([]string{"MemoryPressure", "PIDPressure"}, d.NodeConditions); diff != "" || d.Error != "no layout" || !d.MemoryPressure || d.DiskPressure || !d.PIDPressure {
		t.Errorf("%+v\n(-want +got):\n%s", d, diff)
	}
}

func TestTheConfigurationIsTheScenarios(t *testing.T) {
	s := scenario(t, `
nodeName: n1
config:
	evictionSoft: {pid.available: 10%}
	evictionSoftGracePeriod: {pid.available: 1m}
	evictionPressureTransitionPeriod: 0s
	evictionMaxPodGracePeriod: 7
	localStorageCapacityIsolation: false
	featureGates: {PodLevelResources: false}
steps: [{summary: {}}]
`)
	_, f := run(t, s, nothing)
	c := f.Config
	got := []any{
		c.NodeName, c.Pacing, c.Layout, len(c.EvictionHard), c.EvictionSoft["pid.available"], c.EvictionSoftGracePeriod["pid.available"],
		c.EvictionPressureTransitionPeriod.Duration, c.EvictionMaxPodGracePeriod, c.LocalStorageCapacityIsolation, c.Feature(config.FeaturePodLevelResources), len(c.EnforceNodeAllocatable), c.KernelMemcgNotification,
	}
	want := []any{"n1", config.PacingKubelet, config.LayoutKubelet, 0, "10%", "1m", time.Duration(0), int32(7), false, false, 0, false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestARefusedConfigurationIsADecision(t *testing.T) {
	s := scenario(t, `{config: {evictionHard: {memory.available: lots, foo: 1Gi}}, steps: [{summary: {}}]}`)
	r, err := Run(t.Context(), s, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`evictionHard["foo"]`, `evictionHard["memory.available"]: "lots"`} {
		if !strings.Contains(r.Decisions.ConfigError, want) {
			t.Errorf("%s: want %s in it", r.Decisions.ConfigError, want)
		}
	}
	if len(r.Decisions.Steps) != 0 {
		t.Errorf("%d steps", len(r.Decisions.Steps))
	}
}

func TestAManagerThatDoesNotStart(t *testing.T) {
	down := errors.New("plugin is down")
	_, err := Run(t.Context(), scenario(t, "steps: [{summary: {}}]"), slog.New(slog.DiscardHandler), func(context.Context, *World) (Manager, func(), error) {
		return nil, nil, down
	})
	if !errors.Is(err, down) || !strings.HasPrefix(err.Error(), "story: start") {
		t.Errorf("got %v", err)
	}
}

func TestAnInterruptEndsTheReplay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{passes: []func(*fake) (loop.PassResult, error){func(f *fake) (loop.PassResult, error) {
		cancel()
		return nothing(f)
	}}}
	_, err := Run(ctx, scenario(t, "steps: [{summary: {}}, {}]"), slog.New(slog.DiscardHandler), f.start)
	if !errors.Is(err, context.Canceled) || f.made != 1 || !f.stopped {
		t.Errorf("got %v after %d passes, stopped: %v", err, f.made, f.stopped)
	}
}

func TestPluginsGetTheConfigurationOfTheScenario(t *testing.T) {
	trace, err := Decode([]byte(`{"config": {"plugins": {"spare": {"config": {"device": "/dev/x"}}}}, "steps": [{"summary": {}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Configuration(trace.Scenario)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(c.Plugins["spare"].Config), `{"device": "/dev/x"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
