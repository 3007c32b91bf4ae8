package loop

import (
	"context"
	"testing"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// What containers have left behind may only go by the list of pods if that is all of them,
// and there is none for a program that knows its pods.
func TestReclaimIsToldWhetherAllPodsAreKnown(t *testing.T) {
	l := New(Options{})
	for _, complete := range []bool{true, false} {
		p := &pass{list: func() (pods.Snapshot, error) {
			return pods.Snapshot{Pods: []pods.Pod{{Row: eviction.Pod{UID: "a"}}}, Complete: complete}, nil
		}}
		for name, standIns := range map[string]map[string]ReclaimFunc{"plugin": nil, "embedder": {"trim": func(context.Context) error { return nil }}} {
			r := &reclaimRun{groups: [][]registry.Step{{{Step: policy.Step{Name: "trim"}}}}, standIns: standIns}
			r.prepared(l, p)
			listed := name == "plugin"
			if got := r.request; got.AllSourcesReady != (complete && listed) || len(got.Pods) == 1 != listed {
				t.Errorf("%s, complete %v: told of %d pods, all: %v", name, complete, len(got.Pods), got.AllSourcesReady)
			}
		}
	}
}
