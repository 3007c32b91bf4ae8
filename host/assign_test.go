package host_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

// oneDisk observes a node with one filesystem for all.
type oneDisk struct{}

func (oneDisk) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	reply := eviction.ObserveReply{Layout: &eviction.LayoutReport{}}
	for _, s := range req.Signals {
		reply.Observations = append(reply.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Available: 50, Capacity: 100})
	}
	return reply, nil
}

// Rank implements eviction.Ranker: pods as they come.
func (oneDisk) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	var all []eviction.Ranked
	for _, c := range req.Candidates {
		all = append(all, eviction.Ranked{UID: c.Pod.UID})
	}
	return all, nil
}

// withOneDisk returns a manager of a node with one filesystem for all, as yet without a pass,
// and its configuration.
func withOneDisk(t *testing.T, layout string) (*host.Embedded, host.Config) {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := host.DefaultConfig()
	config.RunDir, config.PluginDir, config.EvictionHard = dir, "", map[string]string{"nodefs.available": "10%", "imagefs.available": "15%"}
	config.Layout, config.LocalStorageCapacityIsolation = layout, false
	disk := eviction.Plugin{
		Name: "disk", OwnsLayout: true, Observer: oneDisk{}, Ranker: oneDisk{},
		Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable}, {Signal: eviction.ImageFsAvailable}},
	}
	acme := eviction.Plugin{Name: "acme", Ranker: oneDisk{}, Signals: []eviction.SignalSpec{{Signal: eviction.ImageFsAvailable}}}
	r := &reported{}
	manager, err := host.NewEmbedded(host.Embedding{
		Config: config, Log: slog.New(slog.DiscardHandler), KillPod: r.kill, Recorder: r, Plugins: map[string]eviction.Plugin{"disk": disk, "acme": acme},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		if err := manager.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err := manager.Start(ctx, nil, func() []*v1.Pod { return nil }, func(*v1.Pod) bool { return true }, 0); err != nil {
		t.Fatal(err)
	}
	return manager, config
}

// Whoever ranks for the images does so for the kubelet's filesystem where that is the
// same, and the status showed another.
func TestTheStatusShowsWhoServesWithTheLayoutOfTheNode(t *testing.T) {
	for _, layout := range []string{"recheck", "kubelet"} {
		t.Run(layout, func(t *testing.T) {
			manager, _ := withOneDisk(t, layout)
			if got, want := rankersOf(manager, eviction.NodeFsAvailable), "disk in charge; "; got != want {
				t.Errorf("before the layout is known %s, want %s", got, want)
			}
			if _, err := manager.Synchronize(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got, want := rankersOf(manager, eviction.NodeFsAvailable), "acme in charge; disk fallback; "; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// rankersOf returns the rankers by a signal, with their roles, from the status.
func rankersOf(m *host.Embedded, by eviction.Signal) (ranks string) {
	for _, p := range m.Status().Plugins {
		for _, s := range p.Signals {
			for _, r := range s.Roles {
				if s.Signal == by && r.Capability == "rank" {
					ranks += fmt.Sprintf("%s %s; ", p.Name, r.Role)
				}
			}
		}
	}
	return ranks
}

// With the layout of the node two plugins would serve one filesystem.
func TestAReloadThatSplitsAFilesystemIsRefused(t *testing.T) {
	manager, config := withOneDisk(t, "recheck")
	if _, err := manager.Synchronize(t.Context()); err != nil || manager.Status().Layout != "shared" {
		t.Fatalf("layout %q, %v", manager.Status().Layout, err)
	}
	assign := func(nodefs, imagefs string) error {
		c := config
		c.Assign = map[eviction.Signal]map[string]string{"nodefs.available": {"rank": nodefs}, "imagefs.available": {"rank": imagefs}}
		return manager.Reload(t.Context(), c)
	}
	err := assign("disk", "acme")
	if err == nil || !strings.Contains(err.Error(), `assign["nodefs.available"].rank is "disk" and assign["imagefs.available"].rank is "acme"`) {
		t.Errorf("%v, want it refused, with both names", err)
	}
	if err := assign("acme", "acme"); err != nil {
		t.Errorf("one plugin for both: %v", err)
	}
}
