package host_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

// shortOfMemory makes a node of 8 GiB with half a GiB left, and what its pods use, by
// uid.
func shortOfMemory(t *testing.T, pods map[string]int64) (root string) {
	t.Helper()
	root = t.TempDir()
	files := map[string]string{
		"proc/meminfo": "MemTotal: 8388608 kB\n",
		"sys/fs/cgroup/memory/memory.usage_in_bytes": fmt.Sprintln(15 << 29),
		"sys/fs/cgroup/memory/memory.stat":           "total_inactive_file 0\n",
	}
	for uid, use := range pods {
		dir := "sys/fs/cgroup/memory/kubepods/besteffort/pod" + uid
		files[dir+"/memory.usage_in_bytes"], files[dir+"/memory.stat"] = fmt.Sprintln(use), "total_inactive_file 0\n"
	}
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// hanging is a plugin that answers nothing.
type hanging struct{}

func (hanging) plugin() eviction.Plugin {
	return eviction.Plugin{Name: "memory", Observer: hanging{}, Measurer: hanging{}, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}}
}

func (hanging) Observe(ctx context.Context, _ eviction.ObserveRequest) (eviction.ObserveReply, error) {
	<-ctx.Done()
	return eviction.ObserveReply{}, ctx.Err()
}

func (hanging) Measure(ctx context.Context, _ eviction.MeasureRequest, _ func(eviction.Measurement)) error {
	<-ctx.Done()
	return ctx.Err()
}

// Inside another program nobody was evicted when the plugin directory was empty or a
// plugin hung.
func TestAnEmbeddedManagerWithoutPluginsEvictsTheRightPod(t *testing.T) {
	for name, change := range map[string]func(*host.Embedding){
		"the plugin directory is empty": func(*host.Embedding) {},
		"so it is, and there is a summary": func(e *host.Embedding) {
			e.Summary = func(context.Context) ([]byte, error) {
				const pod = `{"podRef":{"uid":%q},"memory":{"workingSetBytes":%d}}`
				return fmt.Appendf(nil, `{"node":{"memory":{"availableBytes":1,"workingSetBytes":8589934591}},"pods":[`+pod+","+pod+"]}", "uid-big", 6<<30, "uid-first", 1<<30), nil
			}
		},
		"a plugin hangs": func(e *host.Embedding) { e.Plugins = map[string]eviction.Plugin{"memory": hanging{}.plugin()} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			victim := evictedFrom(t, change)
			select {
			case got := <-victim:
				if got != "big" {
					t.Errorf("%s was evicted, want the one that uses most", got)
				}
			case <-time.After(20 * time.Second):
				t.Error("nobody was evicted")
			}
		})
	}
}

// evictedFrom starts a manager on a node that is short of memory, and tells whom it
// evicts.
func evictedFrom(t *testing.T, change func(*host.Embedding)) <-chan string {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	plugins := filepath.Join(dir, "plugins")
	if err := os.Mkdir(plugins, 0o755); err != nil {
		t.Fatal(err)
	}
	c := host.DefaultConfig()
	c.RunDir, c.PluginDir, c.EvictionHard = filepath.Join(dir, "run"), plugins, map[string]string{"memory.available": "1Gi"}
	c.RootDir = shortOfMemory(t, map[string]int64{"uid-first": 1 << 30, "uid-big": 4 << 30})
	victim := make(chan string, 10)
	e := host.Embedding{
		Config: c, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Recorder: &reported{},
		KillPod: func(pod *v1.Pod, _ bool, _ *int64, _ func(*v1.PodStatus)) error {
			victim <- pod.Name
			return nil
		},
	}
	change(&e)
	manager, err := host.NewEmbedded(e)
	if err != nil {
		t.Fatal(err)
	}
	pods := []*v1.Pod{newPod("first", ""), newPod("big", "")}
	for _, p := range pods {
		p.UID = types.UID("uid-" + p.Name)
		p.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(func() {
		stop()
		if err := manager.Wait(); err != nil {
			t.Error(err)
		}
	})
	if err := manager.Start(ctx, nil, func() []*v1.Pod { return pods }, func(*v1.Pod) bool { return true }, time.Hour); err != nil {
		t.Fatal(err)
	}
	return victim
}
