package stack_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/test/hog"
	"github.com/evictd/evictd/test/stack"
)

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

// A pod starts, sits in the cgroup that the kubelet would give it, ends, and
// the stack leaves nothing: Close itself checks the machine for leftovers.
func TestPodLivesAndLeavesNothing(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	s, err := stack.Start(t.Context(), stack.Options{Name: "evictd-test"})
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = s.Close()
		}
	}()
	if _, err := hog.Install(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	manifest, err := stack.ReadManifest([]byte(sleeper))
	if err != nil {
		t.Fatal(err)
	}
	pod, err := s.RunPod(t.Context(), manifest)
	if err != nil {
		t.Fatal(err)
	}
	if want := s.CgroupRoot + "/kubepods/burstable/pod" + string(manifest.UID); pod.CgroupParent != want {
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
	began := time.Now()
	closed = true
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Logf("closed in %v", time.Since(began))
}
