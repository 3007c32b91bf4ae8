package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/harness/stack"
)

// idle is a container that does nothing until SIGTERM.
const idle = `trap 'exit 0' TERM; while :; do sleep 3600 & wait; done`

// A sketch describes a pod as far as the tests go by it.
type sketch struct {
	name string
	// image of the containers, stack.PodImage if it is empty.
	image    string
	priority int32
	// request and limits are of ephemeral storage; limits are by container.
	request string
	limits  map[string]string
	// containers run scripts by name; without any there is "main", which idles.
	containers map[string]string
	// emptyDirs are size limits by volume, "" for none. Each is mounted at /NAME.
	emptyDirs map[string]string
	// hostDirs are directories of the node by volume, mounted in the same way.
	hostDirs map[string]string
}

// pods counts those of all nodes.
var pods atomic.Int64

// run starts the pod of a sketch.
func run(t *testing.T, n *stack.Stack, s sketch) *stack.Pod {
	t.Helper()
	return runPod(t, n, s.manifest())
}

func runPod(t *testing.T, n *stack.Stack, manifest *v1.Pod) *stack.Pod {
	t.Helper()
	pod, err := n.RunPod(t.Context(), manifest)
	must(t, err)
	return pod
}

// wantRunning wants pods to be as they were.
func wantRunning(t *testing.T, pods ...*stack.Pod) {
	t.Helper()
	for _, p := range pods {
		if running, err := p.Running(t.Context()); err != nil || !running {
			t.Errorf("%s: running %v (%v), want it untouched", p.Key(), running, err)
		}
	}
}

// removePods ends all pods and removes what they had.
func removePods(ctx context.Context, n *stack.Stack) error {
	sandboxes, err := n.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	for _, p := range sandboxes.GetItems() {
		if _, err := n.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: p.GetId()}); err != nil {
			return err
		}
		if _, err := n.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: p.GetId()}); err != nil {
			return err
		}
	}
	for _, dir := range []string{filepath.Join(n.KubeletRootDir, "pods"), n.PodLogsDir, n.ManifestDir} {
		entries, err := filepath.Glob(filepath.Join(dir, "*"))
		for _, e := range entries {
			err = errors.Join(err, os.RemoveAll(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s sketch) manifest() *v1.Pod {
	if len(s.containers) == 0 {
		s.containers = map[string]string{"main": idle}
	}
	pod := &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "e2e", Name: s.name, UID: types.UID(fmt.Sprintf("e2e00000-0000-4000-8000-%012d", pods.Add(1))),
		},
		Spec: v1.PodSpec{Priority: &s.priority},
	}
	var mounts []v1.VolumeMount
	for _, name := range sorted(s.emptyDirs) {
		source := &v1.EmptyDirVolumeSource{}
		if limit := s.emptyDirs[name]; limit != "" {
			q := resource.MustParse(limit)
			source.SizeLimit = &q
		}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: source}})
		mounts = append(mounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	for _, name := range sorted(s.hostDirs) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: s.hostDirs[name]}}})
		mounts = append(mounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	for i, name := range sorted(s.containers) {
		c := v1.Container{Name: name, Image: cmp.Or(s.image, stack.PodImage), Command: []string{"/bin/sh", "-c", s.containers[name]}, VolumeMounts: mounts}
		if s.request != "" && i == 0 {
			c.Resources.Requests = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(s.request)}
		}
		if limit := s.limits[name]; limit != "" {
			c.Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(limit)}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	return pod
}

// Scripts that take room. Each does so in the place given and ends.

// bytesIn writes a file of so many bytes.
func bytesIn(file string, bytes int64) string {
	return fmt.Sprintf("mkdir -p %[3]s; dd if=/dev/zero of=%[1]s bs=65536 count=%[2]d 2>/dev/null; ", file, bytes/65536, filepath.Dir(file))
}

// filesIn makes so many empty files.
func filesIn(dir string, files int64) string {
	return fmt.Sprintf("mkdir -p %[1]s; i=0; while [ $i -lt %[2]d ]; do : >%[1]s/$i; i=$((i+1)); done; ", dir, files)
}

// linesToLog writes so many bytes to the container's standard output.
func linesToLog(bytes int64) string {
	return fmt.Sprintf("yes 'a line of a log that somebody wanted to read once, and that has no end' | head -c %d >/proc/1/fd/1; ", bytes)
}
