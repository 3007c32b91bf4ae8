package crossings_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
)

// run starts a pod whose only process is a hog. With resources it is Guaranteed
// and starts on its own, without it is BestEffort and waits for its release.
func (f *field) run(t *testing.T, name string, mib, rateMiB int, resources map[string]string) (*stack.Pod, hog.Station) {
	t.Helper()
	station, err := hog.NewStation(filepath.Join(f.stack.Dir, "stations", name))
	if err != nil {
		t.Fatal(err)
	}
	command := []string{"/bin/hog", "--mib", strconv.Itoa(mib), "--rate-mib-per-s", strconv.Itoa(rateMiB), "--term-delay-ms", strconv.Itoa(termDelayMS), "--stamp", "/station/stamps"}
	limits := v1.ResourceList{}
	for resourceName, quantity := range resources {
		limits[v1.ResourceName(resourceName)] = resource.MustParse(quantity)
	}
	if len(resources) == 0 {
		command = append(command, "--go", "/station/go")
	}
	f.pods++
	uid := fmt.Sprintf("6d9e1c6e-0000-4000-8000-%012d", f.pods)
	pod, err := f.stack.RunPod(t.Context(), &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "crossings", Name: name, UID: types.UID(uid)},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{{Name: "station", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: station.Dir}}}},
			Containers: []v1.Container{{
				Name: "main", Image: hog.Image, Command: command,
				Resources:    v1.ResourceRequirements{Requests: limits, Limits: limits},
				VolumeMounts: []v1.VolumeMount{{Name: "station", MountPath: "/station"}},
			}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return pod, station
}
