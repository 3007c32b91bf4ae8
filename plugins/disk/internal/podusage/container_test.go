package podusage_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/plugins/disk/internal/podusage"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
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

const writer = `
apiVersion: v1
kind: Pod
metadata: {name: writer, namespace: test, uid: writer-0001}
spec:
  containers:
  - name: main
    image: localhost/evictd/writer:1
    command: [/bin/sh, -c, "echo started; sleep 1000000"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, emptyDir: {}}]
`

// A real pod writes into its writable layer, its volume and its log. The measured usage is that
// of du and the runtime, and sooner than the runtime reports it.
func TestARealPod(t *testing.T) {
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		t.Skip("needs root and real containers: run make e2e")
	}
	modern := os.Getenv("EVICTD_CONTAINERD")
	if modern == "" {
		t.Fatal("EVICTD_CONTAINERD is not set: make e2e names the directory of containerd v2 in it")
	}
	for name, programs := range map[string]string{"containerd 1.6": "", "containerd 2": modern} {
		t.Run(name, func(t *testing.T) {
			if programs == "" && os.Getenv("EVICTD_NIGHTLY") == "" {
				t.Skip("part of make nightly")
			}
			s, err := stack.Start(t.Context(), stack.Options{
				Name: "evictd-use", Filesystems: []stack.Filesystem{{Path: "disk", Type: "ext4", Bytes: 256 << 20}},
				KubeletRoot: "disk/kubelet", RuntimeRoot: "disk/containerd", PodLogs: "disk/logs", Programs: programs,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			aRealPod(t, s)
		})
	}
}

func aRealPod(t *testing.T, s *stack.Stack) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Import(ctx, stack.BusyboxImage("localhost/evictd/writer:1", nil)); err != nil {
		t.Fatal(err)
	}
	manifest, err := stack.ReadManifest([]byte(writer))
	if err != nil {
		t.Fatal(err)
	}
	pod, err := s.RunPod(ctx, manifest)
	if err != nil {
		t.Fatal(err)
	}
	client, err := cri.Dial(nodefs.FS{}, s.Socket, "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	meter := podusage.New(podusage.Options{
		Node: eviction.NodeFacts{
			RootDir: "/", CgroupRoot: s.CgroupRoot, CgroupDriver: "cgroupfs", KubeletRootDir: s.KubeletRootDir, PodLogsDir: s.PodLogsDir,
		},
		Runtime: client.Runtime, Contents: func(s eviction.Signal) (filesystem.Contents, bool) {
			return filesystem.Contents{Signal: s, Unit: eviction.UnitBytes, Parts: figures.PartsOf(s, eviction.LayoutShared)}, true
		},
	})
	defer meter.Close()
	measure := func() (m eviction.Measurement) {
		t.Helper()
		row := eviction.Pod{UID: "writer-0001", Namespace: "test", Name: "writer", QoSClass: eviction.BestEffort, Volumes: []eviction.Volume{{Name: "data", Kind: "emptyDir", CountsForRanking: true}}}
		req := eviction.MeasureRequest{Detail: eviction.DetailContainers, Signals: []eviction.Signal{eviction.NodeFsAvailable}, Pods: []eviction.Pod{row}}
		if err := meter.Measure(ctx, req, func(got eviction.Measurement) { m = got }); err != nil {
			t.Fatal(err)
		}
		if m.State != eviction.Measured || len(m.Containers) != 1 || len(m.Volumes) != 1 {
			t.Fatalf("measured %+v", m)
		}
		return m
	}
	quiet := measure()
	const each = 4 << 20
	if err := pod.Exec(ctx, "main", "mkdir -p /a/b; dd if=/dev/zero of=/a/b/f bs=1048576 count=4; ln /a/b/f /link; dd if=/dev/zero of=/data/f bs=1048576 count=4"); err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	got := measure()
	if grown := got.Containers[0].RootfsUsedBytes.Value - quiet.Containers[0].RootfsUsedBytes.Value; grown < each {
		t.Errorf("the layer grew by %d, want %d at once", grown, each)
	}
	if v := got.Volumes[0]; v.UsedBytes.Value != du(t, pod.EmptyDir("data"), "-B1") || v.InodesUsed.Value != du(t, pod.EmptyDir("data"), "--inodes") {
		t.Errorf("volume %+v, du says otherwise", v)
	}
	if log := got.Containers[0].LogsUsedBytes.Value; log != du(t, filepath.Join(pod.LogDir(), "main", "0.log"), "-B1") || log == 0 {
		t.Errorf("log %d, du says otherwise", log)
	}
	runtime := settledLayer(ctx, t, s, pod.ContainerIDs["main"], each)
	got = measure()
	t.Logf("layer measured %d bytes %d inodes, the runtime says %d and %d, %v later", got.Containers[0].RootfsUsedBytes.Value, got.Containers[0].RootfsInodesUsed.Value,
		runtime.GetUsedBytes().GetValue(), runtime.GetInodesUsed().GetValue(), time.Since(at).Round(100*time.Millisecond))
	if got.Containers[0].RootfsUsedBytes.Value != int64(runtime.GetUsedBytes().GetValue()) || got.Containers[0].RootfsInodesUsed.Value != int64(runtime.GetInodesUsed().GetValue()) {
		t.Errorf("measured %+v, the runtime says %v", got.Containers[0], runtime)
	}

	// A process holds what it deletes: in the layer, and in the volume.
	before := got
	for dir, used := range map[string]func(eviction.Measurement) int64{
		"/":     func(m eviction.Measurement) int64 { return m.Containers[0].RootfsUsedBytes.Value },
		"/data": func(m eviction.Measurement) int64 { return m.UsageFor(eviction.NodeFsAvailable) },
	} {
		script := fmt.Sprintf("cd %s; dd if=/dev/zero of=held bs=1048576 count=4; sleep 1000000 <held >/dev/null 2>&1 & sleep 0.2; rm %s/held", dir, dir)
		if err := pod.Exec(ctx, "main", script); err != nil {
			t.Fatal(err)
		}
		got = measure()
		if held := used(got) - used(before); held < each {
			t.Errorf("%s: a deleted file of %d that is open counts %d", dir, each, held)
		} else {
			t.Logf("%s: a deleted file of %d bytes that is open counts %d", dir, each, held)
		}
		before = got
	}
}

// settledLayer waits until the runtime knows that a layer has so many bytes.
func settledLayer(ctx context.Context, t *testing.T, s *stack.Stack, id string, bytes uint64) *runtimeapi.FilesystemUsage {
	t.Helper()
	for ctx.Err() == nil {
		stats, err := s.Runtime.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
		if err != nil {
			t.Fatal(err)
		}
		if layer := stats.GetStats().GetWritableLayer(); layer.GetUsedBytes().GetValue() >= bytes {
			return layer
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	t.Fatal("the runtime never looked at the layer")
	return nil
}

func du(t *testing.T, name, unit string) int64 {
	t.Helper()
	out, err := exec.Command("du", "-s", unit, name).Output()
	if err != nil {
		t.Fatal(err)
	}
	amount, err := strconv.ParseInt(strings.Fields(string(out))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return amount
}
