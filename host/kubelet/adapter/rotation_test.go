package adapter

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/logs"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

var errReopen = errors.New("no log is opened")

// A rotating container has its log rotated by the kubelet. Log GC runs just before the kubelet's
// step number at of each rotation.
type rotating struct {
	path string
	at   int
	// The runtime writes file.
	file     *os.File
	step     int
	refused  bool
	reopened int
}

// A rotator is the runtime and the operating system of a kubelet's log manager.
type rotator struct {
	internalapi.RuntimeService
	kubecontainer.RealOS

	t       *testing.T
	reclaim func() int64

	mu      sync.Mutex
	all     map[string]*rotating
	removed int64
	over    bool
}

// before runs log GC if it is the moment for it. What the runtime writes must have a name after it.
func (r *rotator) before(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	for _, c := range r.all {
		if !strings.HasPrefix(path, c.path) {
			continue
		}
		if c.step == c.at {
			r.removed += r.reclaim()
		}
		c.step++
	}
	for id, c := range r.all {
		info, err := c.file.Stat()
		if err != nil {
			r.t.Error(err)
		} else if info.Sys().(*syscall.Stat_t).Nlink == 0 {
			r.t.Errorf("container %s writes a log that was removed", id)
		}
	}
}

func (r *rotator) ListContainers(context.Context, *runtimeapi.ContainerFilter) (list []*runtimeapi.Container, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.all {
		if !r.over {
			list = append(list, &runtimeapi.Container{Id: id, State: runtimeapi.ContainerState_CONTAINER_RUNNING, Metadata: &runtimeapi.ContainerMetadata{Name: "c"}})
		}
	}
	return list, nil
}

// ContainerStatus is asked for at the begin of a rotation.
func (r *rotator) ContainerStatus(_ context.Context, id string, _ bool) (*runtimeapi.ContainerStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.all[id]
	c.step = 0
	if _, err := c.file.Write(make([]byte, 32<<10)); err != nil {
		return nil, err
	}
	return &runtimeapi.ContainerStatusResponse{Status: &runtimeapi.ContainerStatus{Id: id, LogPath: c.path}}, nil
}

// ReopenContainerLog fails once: then the kubelet renames the log back.
func (r *rotator) ReopenContainerLog(_ context.Context, id string) error {
	r.before(r.all[id].path)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.all[id]
	if !c.refused {
		c.refused = true
		return errReopen
	}
	c.reopened++
	return c.open()
}

func (c *rotating) open() (err error) {
	if c.file != nil {
		if err := c.file.Close(); err != nil {
			return err
		}
	}
	c.file, err = os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

func (r *rotator) Rename(from, to string) error { r.before(from); return r.RealOS.Rename(from, to) }

func (r *rotator) Remove(path string) error { r.before(path); return r.RealOS.Remove(path) }

func (r *rotator) Open(path string) (*os.File, error) { r.before(path); return r.RealOS.Open(path) }

func (r *rotator) OpenFile(path string, flag int, mode fs.FileMode) (*os.File, error) {
	r.before(path)
	return r.RealOS.OpenFile(path, flag, mode)
}

// A kubelet's log manager finds its files gone in the middle of a rotation, whichever step it is at.
// It never loses the log that is written, and the next rotations work.
func TestAKubeletRotatesLogsWhileLogGCRemovesThem(t *testing.T) {
	const steps, rotations = 7, 3
	runtime, dir := fakecri.Start(t), t.TempDir()
	r := &rotator{t: t, all: map[string]*rotating{}}
	for at := range steps {
		uid := fmt.Sprint("p", at)
		c := &rotating{path: filepath.Join(dir, "ns_pod_"+uid, "c", "0.log"), at: at}
		if err := os.MkdirAll(filepath.Dir(c.path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := c.open(); err != nil {
			t.Fatal(err)
		}
		added := runtime.Add(fakecri.Pod{UID: uid, Namespace: "ns", Name: "pod", Containers: []fakecri.Container{{Name: "c", LogPath: c.path}}})
		r.all[added.ContainerIDs[0]] = c
	}
	plugin := disk.New()
	facts := eviction.NodeFacts{RuntimeEndpoint: runtime.Endpoint(), ImageEndpoint: runtime.Endpoint(), RootDir: "/", KubeletRootDir: dir, PodLogsDir: dir}
	if err := plugin.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: facts, Config: []byte(`{"logGC":true}`)}); err != nil {
		t.Fatal(err)
	}
	r.reclaim = func() int64 {
		released, err := plugin.Reclaimer.Reclaim(t.Context(), eviction.ReclaimRequest{Signal: eviction.NodeFsInodesFree, Step: disk.LogGC}, nil)
		if err != nil {
			t.Error(err)
		}
		return released.Inodes
	}
	// Names of rotated logs have seconds.
	manager, err := logs.NewContainerLogManager(r, r, "16Ki", 4, 2, metav1.Duration{Duration: 1100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	manager.Start(t.Context())
	state := func() (least int, removed int64) {
		r.mu.Lock()
		defer r.mu.Unlock()
		least = rotations
		for _, c := range r.all {
			least = min(least, c.reopened)
		}
		return least, r.removed
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		least, removed := state()
		if least >= rotations && removed > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d rotations of each log, %d logs removed, want %d and some", least, removed, rotations)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true // the manager never ends
	t.Logf("%d rotated logs removed beside %d rotations of each log", r.removed, rotations)
}
