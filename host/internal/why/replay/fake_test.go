package replay

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/admission"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// fake is a manager that does in each pass what a function says.
type fake struct {
	*World
	ctx     context.Context //nolint:containedctx // the test's
	passes  []func(f *fake) (loop.PassResult, error)
	made    int
	stopped bool
}

func (f *fake) start(ctx context.Context, w *World) (Manager, func(), error) {
	f.World, f.ctx = w, ctx
	return f, func() { f.stopped = true }, nil
}

// Synchronize implements Manager.
func (f *fake) Synchronize(context.Context) (loop.PassResult, error) {
	f.made++
	return f.passes[f.made-1](f)
}

// AwaitCleanup implements Manager as the kubelet waits.
func (f *fake) AwaitCleanup(_ context.Context, o loop.PassResult) error {
	for range 30 {
		<-f.After(time.Second)
		if !slices.ContainsFunc(o.Evicted, func(e victim.Victim) bool { return !f.CleanedUp(e.Pod.API) }) {
			return nil
		}
	}
	return nil
}

func (f *fake) IsUnderMemoryPressure() bool { return f.made == 1 }
func (f *fake) IsUnderDiskPressure() bool   { return false }
func (f *fake) IsUnderPIDPressure() bool    { return f.made == 1 }

// Admit implements Manager.
func (f *fake) Admit(p *v1.Pod) admission.Answer {
	if p.Name == "welcome" {
		return admission.Answer{Admit: true}
	}
	return admission.Answer{Reason: "Evicted", Message: "no room"}
}

// evict evicts the active pod with this uid.
func (f *fake) evict(uid string) victim.Victim {
	all := f.ActivePods()
	p := all[slices.IndexFunc(all, func(p *v1.Pod) bool { return string(p.UID) == uid })]
	f.NodeEvent("Warning", "EvictionThresholdMet", "Attempting to reclaim memory")
	f.PodEvent(p, map[string]string{"starved_resource": "memory"}, "Warning", "Evicted", "too large")
	grace := int64(1)
	err := f.KillPod(p, true, &grace, func(s *v1.PodStatus) {
		s.Phase, s.Reason, s.Message = v1.PodFailed, "Evicted", "too large"
		s.Conditions = append(s.Conditions, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue})
	})
	e := victim.Victim{Kill: victim.Kill{UID: uid, Signal: eviction.MemoryAvailable, Message: "too large"}, Pod: pods.Pod{API: p, Row: eviction.Pod{UID: uid}}, GraceOverrideSeconds: grace}
	if err != nil {
		e.Err = err.Error()
	}
	return e
}

func scenario(t *testing.T, text string) *Scenario {
	t.Helper()
	trace, err := Read(file(t, "story.yaml", []byte(strings.ReplaceAll(text, "\t", "  "))))
	if err != nil {
		t.Fatal(err)
	}
	return trace.Scenario
}

func run(t *testing.T, s *Scenario, passes ...func(*fake) (loop.PassResult, error)) (*Replay, *fake) {
	t.Helper()
	f := &fake{passes: passes}
	r, err := Run(t.Context(), s, slog.New(slog.DiscardHandler), f.start)
	if err != nil {
		t.Fatal(err)
	}
	if f.made != len(s.Steps) || !f.stopped {
		t.Errorf("%d passes in %d steps, stopped: %v", f.made, len(s.Steps), f.stopped)
	}
	return r, f
}
