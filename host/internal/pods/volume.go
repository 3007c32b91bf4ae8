package pods

import (
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

func volumes(pod *v1.Pod) []eviction.Volume {
	if len(pod.Spec.Volumes) == 0 {
		return nil
	}
	out := make([]eviction.Volume, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		out[i] = eviction.Volume{Name: v.Name, Kind: volumeKind(&v.VolumeSource), CountsForRanking: countsForRanking(v)}
		if v.EmptyDir != nil {
			out[i].Medium = string(v.EmptyDir.Medium)
		}
	}
	return out
}

// countsForRanking: the kubelet charges these to the pod as local storage
// (localVolumeNames of its eviction helpers). Secrets, projected volumes and the
// downward API live in memory or are tiny, claims are accounted elsewhere.
func countsForRanking(v *v1.Volume) bool {
	return v.HostPath != nil || v.GitRepo != nil || v.ConfigMap != nil ||
		v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
}

// volumeKind is the JSON name of the source that is set, "" when none is known.
func volumeKind(s *v1.VolumeSource) string {
	source := reflect.ValueOf(s).Elem()
	for f := range source.Type().Fields() {
		if !source.FieldByIndex(f.Index).IsNil() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return name
		}
	}
	return ""
}
