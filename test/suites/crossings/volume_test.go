package crossings_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
)

const (
	volumeMiB   = 200
	innocents   = 5
	innocentMiB = 10
	// The memory of a volume outlives its pod for so long.
	heldFor = 6 * time.Second
	// lookedAt exceeds the time from one look of evictd to the next.
	lookedAt = 3 * time.Second
)

// A pod has its memory in a memory-backed emptyDir, which the kubelet removes seconds after
// the containers have ended, or which something else keeps beyond that. No other pod goes.
func TestAVolumeInMemoryCostsOnePod(t *testing.T) {
	rounds(t, 20)
	f := newField(t, scope{signal: ofPods.signal, distanceMiB: volumeMiB / 2, beyondMiB: volumeMiB/2 + 100}, nil)
	var stations []hog.Station
	for i := range innocents {
		_, station := f.run(t, fmt.Sprintf("innocent-%d", i), innocentMiB, 400, nil)
		must(t, station.Release(t.Context()))
		_, err := station.WaitStamp(t.Context(), "full")
		must(t, err)
		stations = append(stations, station)
	}
	for _, keeper := range []string{"kubelet", "another"} {
		t.Run(keeper, func(t *testing.T) {
			name := "kept-by-" + keeper
			f.pods++
			pod, shm := runWithVolume(t, f.stack, name, fmt.Sprintf("6d9e1c6e-0000-4000-8000-%012d", f.pods))
			// It may be ended while it writes.
			_ = pod.Exec(t.Context(), "main", fmt.Sprintf("dd if=/dev/zero of=/memory/data bs=1048576 count=%d 2>/dev/null", volumeMiB))
			_, err := f.agent.Await(t.Context(), func(r evictd.Record) bool { return r.Msg == "pod killed" && r.String("pod") == pod.Key() })
			must(t, err)
			volumes := filepath.Dir(filepath.Dir(pod.EmptyDir("memory")))
			if keeper == "another" {
				must(t, os.RemoveAll(volumes))
			}
			time.Sleep(heldFor)
			must(t, errors.Join(os.RemoveAll(shm), os.RemoveAll(volumes)))
			time.Sleep(lookedAt) // who would go goes within it
			evicted := f.agent.Records("evicting pod")
			if f.victims++; len(evicted) != f.victims {
				t.Errorf("evicted %d pods in all, want %s alone in this round: %v", len(evicted), pod.Key(), evicted)
			}
		})
	}
	for i, s := range stations {
		if at, err := s.Stamps(); err != nil || at["term"] != 0 {
			t.Errorf("innocent-%d: SIGTERM at %d (%v), want it untouched", i, at["term"], err)
		}
	}
	f.bystanderLives(t)
}

// runWithVolume starts a pod with an emptyDir in memory at /memory. shm has its files.
func runWithVolume(t *testing.T, s *stack.Stack, name, uid string) (pod *stack.Pod, shm string) {
	t.Helper()
	shm, err := os.MkdirTemp("/dev/shm", "evictd-crossings-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(shm) })
	// A mount of this process would not be seen in containerd's mount namespace.
	volumes := filepath.Join(s.KubeletRootDir, "pods", uid, "volumes/kubernetes.io~empty-dir")
	must(t, os.MkdirAll(volumes, 0o755))
	must(t, os.Symlink(shm, filepath.Join(volumes, "memory")))
	pod, err = s.RunPod(t.Context(), &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "crossings", Name: name, UID: types.UID(uid)},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}},
			Containers: []v1.Container{{
				Name: "main", Image: hog.Image, Command: []string{"/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done"},
				VolumeMounts: []v1.VolumeMount{{Name: "memory", MountPath: "/memory"}},
			}},
		},
	})
	must(t, err)
	return pod, shm
}
