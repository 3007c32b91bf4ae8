package stack_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
)

const childEnv = "EVICTD_STACK_TEST_CHILD"

// guarded is the value of childEnv with which the owner has a guard.
const guarded = "guarded"

// With childEnv the test binary is an owner that starts a pod, says where, and
// waits to be killed.
func TestMain(m *testing.M) {
	stack.SweepIfGuard()
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	err := stack.PrivateMounts()
	if err == nil && os.Getenv(childEnv) == guarded {
		err = stack.Guard()
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	s, err := stack.Start(context.Background(), stack.Options{
		Name:        "evictd-test",
		Filesystems: []stack.Filesystem{{Path: "disk", Type: "ext4", Bytes: 64 << 20}},
		RuntimeRoot: "disk/containerd", KubeletRoot: "disk/kubelet",
	})
	if err == nil {
		_, err = runSleeper(context.Background(), s)
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(s.Dir)
	select {}
}

const sleeper = `
apiVersion: v1
kind: Pod
metadata: {name: sleeper, namespace: test, uid: 0b5ec5f3-90a3-4fb0-a3ab-4f1a9ee4e1f1, labels: {app: sleeper}}
spec:
  volumes: [{name: out, emptyDir: {}}]
  containers:
  - name: main
    image: localhost/evictd/hog:1
    command: [/bin/hog, --stamp, /out/stamps]
    resources: {requests: {memory: 16Mi}}
    volumeMounts: [{name: out, mountPath: /out}]
`

func runSleeper(ctx context.Context, s *stack.Stack) (*stack.Pod, error) {
	if _, err := hog.Install(ctx, s); err != nil {
		return nil, err
	}
	manifest, err := stack.ReadManifest([]byte(sleeper))
	if err != nil {
		return nil, err
	}
	return s.RunPod(ctx, manifest)
}

func requireRoot(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
}

// A pod starts, sits in the cgroup that the kubelet would give it, ends, and
// the stack leaves nothing: Close itself checks the machine for leftovers.
func TestPodLivesAndLeavesNothing(t *testing.T) {
	requireRoot(t)
	s, err := stack.Start(t.Context(), stack.Options{Name: "evictd-test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	pod, err := runSleeper(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if want := s.CgroupRoot + "/kubepods/burstable/pod" + string(pod.UID); pod.CgroupParent != want {
		t.Errorf("cgroup %s, want %s", pod.CgroupParent, want)
	}
	if running, err := pod.Running(t.Context()); err != nil || !running {
		t.Errorf("Running() = %v, %v, want true", running, err)
	}
	if n := len(pod.ContainerProcesses("main")); n != 1 {
		t.Errorf("container has %d processes in its cgroup, want 1", n)
	}
	if _, err := os.Stat(pod.Manifest); err != nil {
		t.Error(err)
	}
	if err := pod.Remove(t.Context()); err != nil {
		t.Error(err)
	}
	if stray, _ := filepath.Glob("/sys/fs/cgroup/*" + pod.CgroupParent); len(stray) > 0 {
		t.Errorf("the pod's cgroup is still there: %v", stray)
	}
}

// An owner that is SIGKILLed cannot clean up: its containers run on, on its
// filesystem, until a later run sweeps them away. A living owner's stack is left
// alone.
func TestALaterRunRemovesWhatAKilledOneLeft(t *testing.T) {
	requireRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	owner, dir := startOwner(ctx, t, "alone")
	if err := stack.Sweep(ctx); err != nil {
		t.Error(err)
	}
	if devices(t, dir) != 1 {
		t.Errorf("%d loop devices in use, want the owner's one", devices(t, dir))
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the stack of a living owner was swept away: %v", err)
	}
	_ = owner.Process.Kill()
	_ = owner.Wait() // "signal: killed"
	if err := stack.Sweep(ctx); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("directory of a killed owner: %v, want it gone", err)
	}
	noTrace(t, dir)
}

// noTrace fails the test if there is something left of the stack.
func noTrace(t *testing.T, dir string) {
	t.Helper()
	if stray, _ := filepath.Glob(dir + "*"); len(stray) > 0 || devices(t, dir) > 0 {
		t.Errorf("files %v, loop devices %d of a killed owner are still there", stray, devices(t, dir))
	}
	if stray, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(dir)); len(stray) > 0 {
		t.Errorf("cgroups of a killed owner are still there: %v", stray)
	}
}

// The guard of an owner that is SIGKILLed does not wait for a later run.
func TestAGuardRemovesWhatItsKilledOwnerLeft(t *testing.T) {
	requireRoot(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	owner, dir := startOwner(ctx, t, guarded)
	_ = owner.Process.Kill()
	_ = owner.Wait() // "signal: killed"
	record := filepath.Join("/run/evictd-stack", filepath.Base(dir)+".json")
	for {
		if _, err := os.Stat(record); os.IsNotExist(err) {
			break // the last thing that goes
		}
		if err := stack.Pause(ctx, 5*time.Millisecond); err != nil {
			t.Fatalf("the guard has not removed %s: %v", dir, err)
		}
	}
	noTrace(t, dir)
}

// startOwner starts this test binary as an owner, and returns the directory of its stack.
func startOwner(ctx context.Context, t *testing.T, kind string) (owner *exec.Cmd, dir string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	owner = exec.CommandContext(ctx, self)
	owner.Env = append(os.Environ(), childEnv+"="+kind)
	stdout, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	dir, err = bufio.NewReader(stdout).ReadString('\n')
	if dir = strings.TrimSpace(dir); err != nil || !filepath.IsAbs(dir) {
		t.Fatalf("the owner said %q, %v; want the stack's directory", dir, err)
	}
	return owner, dir
}

// devices counts the loop devices with files in dir.
func devices(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if backing, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(backing), dir+"/") {
			n++
		}
	}
	return n
}
