package pid_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// A fork storm was noticed on the interval only.
func TestAForkStormWakes(t *testing.T) {
	f := facts(t, "node-v2")
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(f.RootDir)); err != nil {
		t.Fatal(err)
	}
	f.RootDir = root
	running := func(tasks string) {
		testos.WriteFile(t, filepath.Join(root, "proc/loadavg"), "0.41 0.50 0.61 3/"+tasks+" 98231\n", 0o644)
	}
	running("002500")
	synctest.Test(t, func(t *testing.T) {
		p := native(t, f)
		var mu sync.Mutex
		var wakes []string
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{
			{Signal: eviction.PIDAvailable, Threshold: eviction.Threshold{Amount: 20000}},
			{Signal: eviction.MemoryAvailable, Threshold: eviction.Threshold{Amount: 1 << 60}},
		}}
		go func() {
			ended <- p.Watcher.Watch(ctx, req, func(w eviction.Wake) {
				mu.Lock()
				defer mu.Unlock()
				if w.Cause != eviction.CauseNear {
					wakes = append(wakes, string(w.Signal)+" "+w.Cause)
				}
			})
		}()
		for _, c := range []struct{ tasks, want string }{
			{"002500", ""},
			{"172731", ""}, // 20,000 are left
			{"172732", "pid.available poll"},
			{"180000", ""},
		} {
			running(c.tasks)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			mu.Lock()
			if got := strings.Join(wakes, ", "); got != c.want {
				t.Errorf("%s tasks: woken by %q, want %q", c.tasks, got, c.want)
			}
			wakes = nil
			mu.Unlock()
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the watch ended with %v", err)
		}
	})
}
