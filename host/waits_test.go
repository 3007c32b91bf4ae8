package host_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

func newShortNode() *smallNode {
	return &smallNode{
		available: map[eviction.Signal]int64{eviction.MemoryAvailable: 5 << 20, eviction.NodeFsAvailable: 50 << 20},
		pods:      []*v1.Pod{newPod("hog", "")}, died: map[string]v1.PodStatus{},
	}
}

func (n *smallNode) withThreshold(memory string) host.Config {
	c := n.config
	c.EvictionHard = map[string]string{"memory.available": memory}
	return c
}

// A Recorder or a kill function that asked for a pass, or for a reload, hung for ever.
func TestWhoIsCalledByAPassCannotWaitForOne(t *testing.T) {
	for name, where := range map[string]func(*smallNode, func()){
		"in an event": func(n *smallNode, f func()) { n.onEvent = f },
		"in a kill":   func(n *smallNode, f func()) { n.onKill = f },
	} {
		t.Run(name, func(t *testing.T) {
			n := newShortNode()
			manager, _ := startKubelet(t, n, nil)
			var errs []error
			where(n, func() {
				_, err := manager.Synchronize(t.Context())
				errs = append(errs, err, manager.Reload(t.Context(), n.withThreshold("20Mi")))
			})
			if _, err := manager.Synchronize(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(errs) == 0 || len(n.died) != 1 {
				t.Fatalf("%d calls from within the pass, %d pods killed, want some and one", len(errs), len(n.died))
			}
			for _, err := range errs {
				if err == nil || !strings.Contains(err.Error(), "called from a function that the eviction manager calls") {
					t.Errorf("%v, want the error that names the reason", err)
				}
			}
		})
	}
}

// A reload whose context ended while a pass was under way gave the plugins the new
// configuration and the loop none.
func TestAReloadIsWholeAlsoWhenItsContextEnds(t *testing.T) {
	n := newShortNode()
	manager, _ := startKubelet(t, n, nil)
	killing, goOn := make(chan struct{}), make(chan struct{})
	n.onKill = func() { close(killing); <-goOn }
	synchronized, reloaded := make(chan error), make(chan error)
	go func() { _, err := manager.Synchronize(t.Context()); synchronized <- err }()
	<-killing
	ctx, giveUp := context.WithCancel(t.Context())
	go func() { reloaded <- manager.Reload(ctx, n.withThreshold("1Mi")) }()
	giveUp()
	n.onKill = nil
	close(goOn)
	if err := errors.Join(<-synchronized); err != nil {
		t.Fatal(err)
	}
	err := <-reloaded
	pass, syncErr := manager.Synchronize(t.Context())
	if syncErr != nil {
		t.Fatal(syncErr)
	}
	met := func(t decision.Threshold) bool { return t.Since != nil }
	if applied := !slices.ContainsFunc(pass.Thresholds, met); applied != (err == nil) {
		t.Errorf("the reload returned %v, and its thresholds are in force: %v", err, applied)
	}
}

// A reload hung when the manager had ended, and a pass that was asked for when it had been
// stopped before its plugins had started.
func TestAReloadOfAnEndedManagerIsAnError(t *testing.T) {
	for name, stopped := range map[string]bool{"after its start": false, "before": true} {
		t.Run(name, func(t *testing.T) {
			n := newShortNode()
			n.stopped = stopped
			manager, _ := startKubelet(t, n, nil)
			n.stop()
			if err := manager.Wait(); err != nil {
				t.Fatal(err)
			}
			if err := manager.Reload(context.WithoutCancel(t.Context()), n.withThreshold("1Mi")); err == nil {
				t.Error("no error, want one that says that the manager has ended")
			}
			if _, err := manager.Synchronize(context.WithoutCancel(t.Context())); err == nil {
				t.Error("a pass of an ended manager is no error")
			}
		})
	}
}
