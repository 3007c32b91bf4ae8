package loop

import (
	"context"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
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

// A step hears what is missing when it runs.
func TestReclaimIsToldHowMuchIsMissing(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		for _, name := range []string{"a", "b"} {
			n.rankers = append(n.rankers, &registry.Instance{Name: name, Generation: 3, Plugin: &eviction.Plugin{
				Name: name, Reclaimer: reclaimer(func(r eviction.ReclaimRequest) (eviction.Reclaimed, error) {
					n.locked("%s is short of %d Gi", r.Step, r.Shortfall/gi)
					d.set(7 * gi)
					return eviction.Reclaimed{Bytes: 2 * gi}, nil
				}),
				Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable, ReclaimSteps: []eviction.ReclaimStep{{Name: "step-" + name}}}},
			}})
		}
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(10 * time.Second)
		for _, want := range []string{"step-a is short of 5 Gi", "step-b is short of 3 Gi"} {
			if n.count(want) != 1 {
				t.Errorf("%q, want %q", n.story(), want)
			}
		}
	})
}

// A plugin of memory that had come to hang stayed, and no other process in its place, for as
// long as a step took on a disk.
func TestReclaimKeepsNoPluginOfAnotherCondition(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.takes = time.Minute
		for i, p := range n.providers {
			n.providers[i] = registry.NewInstance(p.Name, p.Generation, 1, p.Plugin)
		}
		memory, disk := n.providers[0], n.providers[1]
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(10 * time.Second)
		if n.count("reclaim ") != 1 {
			t.Fatalf("%q, want a step under way", n.story())
		}
		n.plugins.Publish(registry.New(nil, nil)) // both are condemned
		n.after(time.Second)
		if !memory.Ended() || disk.Ended() {
			t.Errorf("memory ended: %v, want so; disk, whose step runs, ended: %v, want not", memory.Ended(), disk.Ended())
		}
	})
}
