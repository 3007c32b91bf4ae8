package gc_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/stack"
)

func TestMain(m *testing.M) {
	stack.SweepIfGuard()
	if os.Getenv("EVICTD_TEST_E2E") == "1" && os.Geteuid() == 0 {
		for _, prepare := range []func() error{stack.PrivateMounts, stack.Prepare} {
			if err := prepare(); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

const (
	fill   = 8 << 20 // what an image, and what a container writes
	unused = "localhost/evictd/unused:1"
	used   = "localhost/evictd/used:1"
	pinned = "localhost/evictd/pinned:1"
)

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: test, uid: %[1]s-0001}
spec:
  containers:
  - name: main
    image: %[2]s
    command: [/bin/sh, -c, %[3]q]
`

const (
	sleeps = "sleep 1000000"
	// A container ends after it has filled its writable layer and its log.
	writes = "dd if=/dev/zero of=/filler bs=1048576 count=8; yes $(printf %01000d 0) | head -n 1200"
	logged = 1_000_000 // of the log at least: containerd 1.6 may lose its end
)

// onEachRuntime runs a test with the containerd of version 2 that make e2e builds, and in
// make nightly also with the distribution's, which is of version 1.
func onEachRuntime(t *testing.T, test func(t *testing.T, f *field)) {
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		t.Skip("needs root and real containers: run make e2e")
	}
	modern := os.Getenv("EVICTD_CONTAINERD")
	if modern == "" {
		t.Fatal("EVICTD_CONTAINERD is not set: make e2e names the directory of containerd v2 in it")
	}
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		t.Run("containerd 1.6", func(t *testing.T) { test(t, newField(t, "")) })
	}
	t.Run("containerd 2", func(t *testing.T) { test(t, newField(t, modern)) })
}

// field is a real containerd on a filesystem of its own, so that no other writes are in the figures.
type field struct {
	*stack.Stack
	collector *gc.Collector
	links     string
}

func newField(t *testing.T, programs string) *field {
	t.Helper()
	s, err := stack.Start(t.Context(), stack.Options{
		Name: "evictd-gc", Filesystems: []stack.Filesystem{{Path: "disk", Type: "ext4", Bytes: 256 << 20}},
		RuntimeRoot: "disk/containerd", PodLogs: "disk/logs", Programs: programs,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := cri.Dial(nodefs.FS{}, s.Socket, "unix://"+s.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	f := &field{Stack: s, links: filepath.Join(s.Dir, "links")}
	testos.Mkdir(t, f.links, 0o755)
	zero := gc.Duration(0)
	f.collector = gc.New(gc.Options{
		Client: client, PodLogsDir: s.PodLogsDir, Settings: gc.Settings{ImageMinimumGCAge: &zero, ContainerLogsDir: f.links},
		Now: func() time.Time { return time.Now().Add(time.Hour) }, // nothing is new
	})
	return f
}

func (f *field) run(t *testing.T, name, image, command string) *stack.Pod {
	t.Helper()
	manifest, err := stack.ReadManifest(fmt.Appendf(nil, pod, name, image, command))
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.RunPod(t.Context(), manifest)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// exited waits until a container has ended and the runtime has measured its layer.
func (f *field) exited(t *testing.T, p *stack.Pod) string {
	t.Helper()
	id := p.ContainerIDs["main"]
	link := filepath.Join(f.links, fmt.Sprintf("%s_test_main-%s.log", p.Name, id))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		status, err := f.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if err != nil {
			t.Fatal(err)
		}
		stats, err := f.Runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{Id: id}})
		if err != nil {
			t.Fatal(err)
		}
		measured := len(stats.GetStats()) == 1 && stats.GetStats()[0].GetWritableLayer().GetUsedBytes().GetValue() >= fill
		if status.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_EXITED && measured {
			testos.Symlink(t, status.GetStatus().GetLogPath(), link)
			return id
		}
		select {
		case <-ctx.Done():
			t.Fatalf("container of %s: %v, %v", p.Key(), status, stats)
		case <-ticker.C:
		}
	}
}

func (f *field) containers(t *testing.T) []string {
	t.Helper()
	reply, err := f.Runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range reply.GetContainers() {
		out = append(out, c.GetId())
	}
	return out
}

func (f *field) tags(t *testing.T) (tags []string, bytes map[string]int64, pins bool) {
	t.Helper()
	reply, err := f.Images.ListImages(t.Context(), &runtimeapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	bytes = map[string]int64{}
	for _, i := range reply.GetImages() {
		tags = append(tags, i.GetRepoTags()...)
		for _, tag := range i.GetRepoTags() {
			bytes[tag] = int64(i.GetSize())
			pins = pins || i.GetPinned() && tag == pinned
		}
	}
	slices.Sort(tags)
	return tags, bytes, pins
}

func (f *field) free(t *testing.T) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(filepath.Join(f.Dir, "disk"), &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bfree) * st.Bsize
}

// released returns the bytes that are free beyond before. A busy disk may give space back later
// than container GC waits for it.
func (f *field) released(t *testing.T, before, want int64) int64 {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		more := f.free(t) - before
		if more >= want*9/10 || time.Now().After(deadline) {
			return more
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Dead containers, their logs and the rest of pods that are gone really go, and
// their space is there when container GC says so.
func TestContainerGCOnRealContainers(t *testing.T) { onEachRuntime(t, containerGCOnRealContainers) }

func containerGCOnRealContainers(t *testing.T, f *field) {
	living := f.run(t, "living", stack.PodImage, sleeps)
	restarting := f.run(t, "restarting", stack.PodImage, writes)
	var instances []string
	for attempt := range uint32(3) {
		if attempt > 0 {
			if err := restarting.Restart(t.Context(), "main", attempt); err != nil {
				t.Fatal(err)
			}
		}
		instances = append(instances, f.exited(t, restarting))
	}
	vanished := f.run(t, "vanished", stack.PodImage, writes)
	f.exited(t, vanished)
	if _, err := f.Runtime.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: vanished.SandboxID}); err != nil {
		t.Fatal(err)
	}
	before := f.free(t)
	started := time.Now()
	released, err := f.collector.Containers(t.Context(), []eviction.PodPhase{is("living-0001", eviction.PodActive), is("restarting-0001", eviction.PodActive)}, true, nil)
	more := f.released(t, before, released.Bytes)
	t.Logf("after %v, %d bytes more are free: %+v", time.Since(started), more, released)
	if err != nil {
		t.Error(err)
	}
	want := []string{living.ContainerIDs["main"], instances[2]}
	got := f.containers(t)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("containers left %v, want %v", got, want)
	}
	if running, err := living.Running(t.Context()); err != nil || !running {
		t.Errorf("the living pod runs: %v, %v", running, err)
	}
	if got, want := strings.Join(names(t, f.PodLogsDir), " "), "test_living_living-0001 test_restarting_restarting-0001"; got != want {
		t.Errorf("log directories %q, want %q", got, want)
	}
	if got, want := strings.Join(names(t, filepath.Join(restarting.LogDir(), "main")), " "), "2.log"; got != want {
		t.Errorf("logs of the restarting pod %q, want %q", got, want)
	}
	if got, want := strings.Join(names(t, f.links), " "), "restarting_test_main-"+instances[2]+".log"; got != want {
		t.Errorf("log links %q, want %q", got, want)
	}
	// Two dead instances and the vanished pod's container: layers and logs.
	if least := int64(3 * (fill + logged)); released.Bytes < least || more < released.Bytes*9/10 || more > released.Bytes*11/10 {
		t.Errorf("says %d bytes, %d are free, want at least %d, and both about the same", released.Bytes, more, least)
	}
	if released, err := f.collector.Containers(t.Context(), []eviction.PodPhase{is("living-0001", eviction.PodActive), is("restarting-0001", eviction.PodActive)}, true, nil); err != nil || released.Message != "removed nothing" {
		t.Errorf("again: %+v, %v", released, err)
	}
}

// Unused images really go, with their space; those in use, pinned and of sandboxes
// stay and still serve.
func TestImageGCOnRealImages(t *testing.T) { onEachRuntime(t, imageGCOnRealImages) }

func imageGCOnRealImages(t *testing.T, f *field) {
	for _, name := range []string{unused, used, pinned} {
		image := stack.BusyboxImage(name, nil)
		image.FillerBytes, image.FillerFiles = fill, 8
		if err := f.Import(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	ctr := f.Command(t.Context(), "ctr", "--address", f.Socket, "--namespace", "k8s.io", "images", "label", pinned, "io.cri-containerd.pinned=pinned")
	if out, err := ctr.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	user := f.run(t, "user", used, sleeps)
	before, sizes, pins := f.tags(t)
	room := f.free(t)
	released, err := f.collector.Images(t.Context(), eviction.Reclaimed{}, nil)
	t.Logf("%+v", released)
	if err != nil {
		t.Error(err)
	}
	// PodImage is not in use here. containerd 1.6 knows no pins.
	goes := []string{unused, stack.PodImage}
	if !pins {
		t.Log("this runtime does not report pinned images")
		goes = append(goes, pinned)
	}
	want := slices.DeleteFunc(before, func(tag string) bool { return slices.Contains(goes, tag) })
	if got, _, _ := f.tags(t); !slices.Equal(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	if !slices.Contains(want, "localhost/evictd/pause:1") || !slices.Contains(want, used) {
		t.Errorf("wanted %v, without the sandbox image or the used one", want)
	}
	var sum int64
	for _, tag := range goes {
		sum += sizes[tag]
	}
	if released.Bytes != sum {
		t.Errorf("says %d bytes, want %d as the runtime has it", released.Bytes, sum)
	}
	if more := f.released(t, room, fill*10/9); more < fill {
		t.Errorf("%d bytes more are free, want the unused image's %d at least", more, fill)
	}
	if running, err := user.Running(t.Context()); err != nil || !running {
		t.Errorf("the pod with the used image runs: %v, %v", running, err)
	}
	// A new sandbox still finds its image.
	f.run(t, "another", used, sleeps)
}
