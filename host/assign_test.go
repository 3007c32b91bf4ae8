package host_test

import (
	"context"
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

// With the layout of the node two plugins would serve one filesystem.
func TestAReloadThatSplitsAFilesystemIsRefused(t *testing.T) {
	dir, err := os.MkdirTemp("", "evictd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	config := host.DefaultConfig()
	config.RunDir, config.EvictionHard = dir, map[string]string{"nodefs.available": "10%", "imagefs.available": "15%"}
	config.LocalStorageCapacityIsolation = false
	disk := eviction.Plugin{Name: "disk", OwnsLayout: true, Observer: oneDisk{}, Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable}, {Signal: eviction.ImageFsAvailable}}}
	r := &told{}
	manager, err := host.NewEmbedded(host.Embedding{
		Config: config, Log: slog.New(slog.DiscardHandler), KillPod: r.kill, Recorder: r, Plugins: map[string]eviction.Plugin{"disk": disk},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer func() {
		stop()
		if err := manager.Wait(); err != nil {
			t.Error(err)
		}
	}()
	if err := manager.Start(ctx, nil, func() []*v1.Pod { return nil }, func(*v1.Pod) bool { return true }, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := manager.Synchronize(t.Context()); err != nil || manager.Status().Layout != "shared" {
		t.Fatalf("layout %q, %v", manager.Status().Layout, err)
	}
	assign := func(nodefs, imagefs string) error {
		c := config
		c.Assign = map[string]map[string]string{"nodefs.available": {"rank": nodefs}, "imagefs.available": {"rank": imagefs}}
		return manager.Reload(t.Context(), c)
	}
	err = assign("disk", "acme")
	if err == nil || !strings.Contains(err.Error(), `assign["nodefs.available"].rank is "disk" and assign["imagefs.available"].rank is "acme"`) {
		t.Errorf("%v, want it refused, with both names", err)
	}
	if err := assign("acme", "acme"); err != nil {
		t.Errorf("one plugin for both: %v", err)
	}
}
