package policy

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// What a violation of a pod's own limits counts as: the values of eviction_signal in the kubelet's metric.
const (
	LabelEmptyDirLimit         = "emptydirfs.limit"
	LabelPodStorageLimit       = "ephemeralpodfs.limit"
	LabelContainerStorageLimit = "ephemeralcontainerfs.limit"
)

// LocalGraceSeconds is the grace period of a pod that is over a limit of its own.
const LocalGraceSeconds = HardGraceSeconds

// LocalViolation is a limit of its own on local storage that a pod is over.
type LocalViolation struct {
	// Label is one of LabelEmptyDirLimit, LabelPodStorageLimit and LabelContainerStorageLimit.
	Label string
	// Message for the pod's status and event. It ends with a space.
	Message string
	// Why says how much of the limit is used, and what would have spared the pod.
	Why string
}

// why says that of a use of what, and which limit would do. Both amounts are rounded up to 1 Mi.
func why(limit *resource.Quantity, used int64, what, key string) string {
	enough := Figure((used+1<<20-1)>>20<<20, eviction.FormatBinarySI)
	return fmt.Sprintf("uses %s of %s in %s; %s of %s would have spared it then", &enough, limit, what, key, &enough)
}

// LocalStorage is the threshold whose shortage the victim of a limit of its own relieves.
var LocalStorage = Threshold{Signal: eviction.NodeFsAvailable}

// LocalRules are the rules for limits on local storage that depend on the kubelet's version.
type LocalRules struct {
	Sidecars      bool // have limits of their own, not only a part in the pod's: from 1.37 on
	MemoryVolumes bool // have no limit but their tmpfs: InPlacePodVerticalScalingMemoryBackedVolumes
}

// HasLocalLimits reports whether pod could ever be evicted for its use of local storage. Others need not be measured for it.
func HasLocalLimits(pod *v1.Pod) bool {
	if !Evictable(pod) {
		return false
	}
	for i := range pod.Spec.Volumes {
		if emptyDirLimit(&pod.Spec.Volumes[i], LocalRules{}) != nil {
			return true
		}
	}
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if _, limited := containers[i].Resources.Limits[v1.ResourceEphemeralStorage]; limited {
				return true
			}
		}
	}
	return false
}

// CheckLocalLimits returns the limit on local storage that pod is over, false if there is none:
// first those of its emptyDir volumes, then the pod's, then those of its containers
// (localStorageEviction). m has containers, volumes and the pod's ephemeral storage. A pod that is
// not measured is over none, and a critical pod never is.
func CheckLocalLimits(pod *v1.Pod, m eviction.Measurement, layout eviction.Layout, rules LocalRules) (LocalViolation, bool) {
	if !Evictable(pod) || m.State != eviction.Measured {
		return LocalViolation{}, false
	}
	if v, ok := emptyDirViolation(pod, m.Volumes, rules); ok {
		return v, true
	}
	if v, ok := podStorageViolation(pod, m.EphemeralStorageUsedBytes); ok {
		return v, true
	}
	return containerStorageViolation(pod, m.Containers, layout, rules)
}

// emptyDirViolation returns the first volume of the spec that is over its limit. Of several figures
// for a volume the last one counts. A volume without a figure, which makes the kubelet panic, is
// not over any limit.
func emptyDirViolation(pod *v1.Pod, volumes []eviction.VolumeMeasurement, rules LocalRules) (LocalViolation, bool) {
	used := make(map[string]int64, len(volumes))
	for _, v := range volumes {
		if v.UsedBytes.OK {
			used[v.Name] = v.UsedBytes.Value
		}
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		limit := emptyDirLimit(volume, rules)
		if usedBytes, ok := used[volume.Name]; ok && limit != nil && limit.CmpInt64(usedBytes) < 0 {
			message := fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", volume.Name, limit)
			return LocalViolation{LabelEmptyDirLimit, message, why(limit, usedBytes, "emptyDir "+volume.Name, "a sizeLimit")}, true
		}
	}
	return LocalViolation{}, false
}

// emptyDirLimit returns nil if volume is no emptyDir or may grow without limit,
// which is also what a limit of 0 means.
func emptyDirLimit(volume *v1.Volume, rules LocalRules) *resource.Quantity {
	e := volume.EmptyDir
	if e == nil || e.SizeLimit == nil || e.SizeLimit.Sign() <= 0 || rules.MemoryVolumes && e.Medium == v1.StorageMediumMemory {
		return nil
	}
	return e.SizeLimit
}

// podStorageViolation compares all that the pod uses with the limits of those
// containers that have one, overhead included: a container without a limit lives on the
// others'. A limit of 0 counts here: with it the pod may use nothing. Limits at pod level
// do not exist for storage.
func podStorageViolation(pod *v1.Pod, used eviction.Figure) (LocalViolation, bool) {
	limit := limitOf(helpers.PodLimits(pod, helpers.PodResourcesOptions{}))
	if limit == nil || !used.OK || limit.CmpInt64(used.Value) >= 0 {
		return LocalViolation{}, false
	}
	return LocalViolation{LabelPodStorageLimit, fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit), why(limit, used.Value, "the pod", "limits.ephemeral-storage of its containers")}, true
}

// containerStorageViolation returns the first container of the figures that is over its limit. Init
// containers have none, but for sidecars by rules, and 0 is no limit. Writable layers count if
// images are not on a separate filesystem: as in the kubelet they do not where only images are,
// although they share the disk with the logs then.
func containerStorageViolation(pod *v1.Pod, containers []eviction.ContainerMeasurement, layout eviction.Layout, rules LocalRules) (LocalViolation, bool) {
	limits := make(map[string]*resource.Quantity, len(pod.Spec.Containers))
	for i, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		own := i < len(pod.Spec.Containers) || rules.Sidecars && c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
		if limit := limitOf(c.Resources.Limits); own && limit != nil && !limit.IsZero() {
			limits[c.Name] = limit
		}
	}
	for _, c := range containers {
		used := Figure(c.LogsUsedBytes.Value, eviction.FormatBinarySI)
		if layout == eviction.LayoutShared {
			used.Add(Figure(c.RootfsUsedBytes.Value, eviction.FormatBinarySI))
		}
		if limit, ok := limits[c.Name]; ok && limit.Cmp(used) < 0 {
			return LocalViolation{LabelContainerStorageLimit, fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit), why(limit, used.Value(), "container "+c.Name, "a limits.ephemeral-storage")}, true
		}
	}
	return LocalViolation{}, false
}

// limitOf returns nil if there is no limit. There may be one of 0.
func limitOf(limits v1.ResourceList) *resource.Quantity {
	if limit, ok := limits[v1.ResourceEphemeralStorage]; ok {
		return &limit
	}
	return nil
}
