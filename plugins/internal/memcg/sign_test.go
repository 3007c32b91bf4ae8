package memcg

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

// cgroup2 makes a cgroup of version 2 until the test ends, on a hybrid machine one without controllers.
func cgroup2(t *testing.T) string {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("makes cgroups: run make test")
	}
	mount := "/sys/fs/cgroup/unified"
	if _, err := os.Stat(mount); err != nil {
		mount = "/sys/fs/cgroup"
	}
	dir, err := os.MkdirTemp(mount, "evictd-test-signs-")
	if err != nil {
		t.Skipf("no cgroup of version 2: %v", err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	return dir
}

// populate has a process in a cgroup until the test, or what the caller does before, ends it.
func populate(t *testing.T, dir string) (end func()) {
	t.Helper()
	process := exec.CommandContext(t.Context(), "sleep", "60")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	testos.WriteFile(t, filepath.Join(dir, "cgroup.procs"), strconv.Itoa(process.Process.Pid), 0)
	return func() { _, _ = process.Process.Kill(), process.Wait() }
}

// The kernel notifies of cgroup.events as of memory.events.
func TestSignsRingWhenTheKernelNotifies(t *testing.T) {
	dir := cgroup2(t)
	signs := []Sign{{causeEvents, filepath.Join(dir, "cgroup.events"), ""}, {causePSI, filepath.Join(dir, "missing"), stallTrigger}}
	ctx, cancel := context.WithCancel(t.Context())
	rings, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		watchOpenSigns(ctx, signs, rings)
	}()
	select {
	case cause := <-rings:
		t.Errorf("rung by %q before any change", cause)
	case <-time.After(10 * signInterval):
	}
	for rung := false; !rung; { // again for a watcher that was late to open the file
		end := populate(t, dir)
		select {
		case cause := <-rings:
			if rung = true; cause != causeEvents {
				t.Errorf("rung by %q, want %q", cause, causeEvents)
			}
		case <-time.After(time.Second):
		}
		end()
	}
	cancel()
	<-ended
}

// A cgroup that is removed must not keep the watcher busy.
func TestSignsOfARemovedCgroupEnd(t *testing.T) {
	t.Parallel()
	dir := cgroup2(t)
	ended := make(chan struct{})
	end := populate(t, dir)
	go func() {
		defer close(ended)
		watchOpenSigns(t.Context(), []Sign{{causeEvents, filepath.Join(dir, "cgroup.events"), ""}}, make(chan string, 1))
	}()
	end()
	for os.Remove(dir) != nil { // until its process is reaped
		time.Sleep(time.Millisecond)
	}
	<-ended
}

func TestTheTriggerOfStallsIsAccepted(t *testing.T) {
	cgroup2(t) // as root
	f, err := Sign{causePSI, "/proc/pressure/memory", stallTrigger}.open()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("this kernel has no PSI")
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

func TestSignsOfAShortageAreThoseOfAllCgroupsAbove(t *testing.T) {
	naming, err := nodefs.FS{}.Naming("/a/tenant", "cgroupfs")
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Hierarchy: nodefs.Hierarchy{Version: nodefs.V2, Dir: "/cg"}, Naming: naming}
	var got []string
	for _, s := range append(n.Signs(eviction.AllocatableMemoryAvailable), n.Signs(eviction.MemoryAvailable)...) {
		got = append(got, s.path)
	}
	want := "/cg/a/tenant/kubepods/memory.pressure /cg/a/tenant/kubepods/memory.events /cg/a/tenant/memory.pressure /cg/a/tenant/memory.events " +
		"/cg/a/memory.pressure /cg/a/memory.events /proc/pressure/memory /cg/memory.events"
	if strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
