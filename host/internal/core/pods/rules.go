package pods

import (
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// Rules holds the kubelet's feature gates that affect requests and classes of pods.
type Rules struct {
	// PodLevelResources: pod-level requests count instead of those of the containers. Without it
	// the kubelet still prefers pod-level requests to the sum of the containers', but per resource,
	// and ignores them for the class.
	PodLevelResources bool
	// EmptyPodLevel: empty pod-level resources do not determine the class
	// (PodLevelResourcesFixKubeletQOSClass).
	EmptyPodLevel bool
	// Wanted holds the labels and annotations that a pod source keeps.
	Wanted *Wanted
}

// QoSClass returns the pod's recorded class, else the computed one (ComputePodQOS of the kubelet).
// Pod-level resources, if any, decide alone; otherwise a pod is BestEffort only if all its
// containers are, including init containers, and Guaranteed only if each has cpu and memory limits
// and the total requests equal the total limits.
func (r Rules) QoSClass(pod *v1.Pod) eviction.QoSClass {
	if pod.Status.QOSClass != "" {
		return eviction.QoSClass(pod.Status.QOSClass)
	}
	if r.PodLevelResources && pod.Spec.Resources != nil && (!r.EmptyPodLevel || resource.IsPodLevelResourcesSet(pod)) {
		return classOf(pod.Spec.Resources)
	}
	all := make([]*v1.ResourceRequirements, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			all = append(all, &containers[i].Resources)
		}
	}
	return classOf(all...)
}

// classOf returns the class of a set of resource requirements. Only cpu and memory above zero
// count.
func classOf(all ...*v1.ResourceRequirements) eviction.QoSClass {
	nothing, guaranteed := true, len(all) > 0
	for _, name := range [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		var requested, limit quantity.Quantity
		for _, r := range all {
			request := r.Requests[name]
			if request.Sign() > 0 {
				requested.Add(request)
			}
			most := r.Limits[name]
			if most.Sign() > 0 {
				limit.Add(most)
			} else {
				guaranteed = false
			}
		}
		nothing = nothing && requested.IsZero() && limit.IsZero()
		guaranteed = guaranteed && requested.Cmp(limit) == 0
	}
	switch {
	case nothing:
		return eviction.BestEffort
	case guaranteed:
		return eviction.Guaranteed
	default:
		return eviction.Burstable
	}
}

// Request returns the pod's request of a resource by the kubelet's rule for eviction
// (pkg/api/v1/resource GetResourceRequestQuantity): the sum of its containers and sidecars, at
// least the request of each init container. If the pod has any pod-level resource only the pod
// level counts, so that such a pod requests no ephemeral storage. Overhead is added to nonzero
// requests.
//
// Only the spec counts, not the status: for a pod that is being resized the pod source puts the
// allocated resources into the spec.
func (r Rules) Request(pod *v1.Pod, name v1.ResourceName) int64 {
	q := withOverhead(pod, name, r.withoutOverhead(pod)[name])
	return q.Value()
}

// Requests returns all requests of the pod, by the rule of Request and in the kubelet's units for
// admission: cpu in millicores, everything else in whole units (GetResourceRequest).
func (r Rules) Requests(pod *v1.Pod) map[v1.ResourceName]int64 {
	requests := r.withoutOverhead(pod)
	all := make(map[v1.ResourceName]int64, len(requests))
	for name, q := range requests {
		q = withOverhead(pod, name, q)
		if name == v1.ResourceCPU {
			all[name] = q.MilliValue()
		} else {
			all[name] = q.Value()
		}
	}
	return all
}

func (r Rules) withoutOverhead(pod *v1.Pod) v1.ResourceList {
	return resource.PodRequests(pod, resource.PodResourcesOptions{
		SkipContainerLevelResources: r.PodLevelResources && resource.IsPodLevelResourcesSet(pod),
		ExcludeOverhead:             true,
	})
}

func withOverhead(pod *v1.Pod, name v1.ResourceName, q quantity.Quantity) quantity.Quantity {
	if overhead, ok := pod.Spec.Overhead[name]; ok && !q.IsZero() {
		q = q.DeepCopy()
		q.Add(overhead)
	}
	return q
}

// Row returns the compact row of pod. It has all labels and annotations; plugins receive those they
// ask for. It shares containers and the pod's maps, and modifies nothing.
func (r Rules) Row(pod *v1.Pod, containers []eviction.Container) eviction.Pod {
	row := eviction.Pod{
		UID:                          string(pod.UID),
		Namespace:                    pod.Namespace,
		Name:                         pod.Name,
		Labels:                       pod.Labels,
		Annotations:                  pod.Annotations,
		QoSClass:                     r.QoSClass(pod),
		MemoryRequestBytes:           r.Request(pod, v1.ResourceMemory),
		EphemeralStorageRequestBytes: r.Request(pod, v1.ResourceEphemeralStorage),
		Volumes:                      volumes(pod),
		Containers:                   containers,
		Running:                      slices.ContainsFunc(pod.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.State.Running != nil }),
	}
	if pod.Spec.Priority != nil {
		row.Priority = *pod.Spec.Priority
	}
	if pod.Status.StartTime != nil {
		row.StartTime = pod.Status.StartTime.Time
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		row.OwnerKind = owner.Kind
	}
	return row
}

// OwnerOf returns the controller of a pod as Kind/name, empty without one.
func OwnerOf(pod *v1.Pod) string {
	if pod != nil {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			return owner.Kind + "/" + owner.Name
		}
	}
	return ""
}

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

// countsForRanking reports whether the kubelet counts a volume as local storage of the pod
// (localVolumeNames of its eviction helpers). Secrets, projected volumes and the downward API are
// in memory or tiny, claims are accounted elsewhere.
func countsForRanking(v *v1.Volume) bool {
	return v.HostPath != nil || v.GitRepo != nil || v.ConfigMap != nil ||
		v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
}

// volumeKind returns the JSON name of the volume source, "" if unknown.
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

// SetDefaults applies the API server's defaults that affect decisions
// (pkg/apis/core/v1/defaults.go:SetDefaults_Pod). Every reader of pods that are not from the API server
// calls it: they may be written by hand.
func SetDefaults(pod *v1.Pod) {
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace == nil {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(v1.DefaultTerminationGracePeriodSeconds))
	} else if *grace < 0 {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			// A resource with a limit and no request gets the limit as request.
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				request(r, name, limit)
			}
		}
	}
	defaultPodRequests(pod)
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.VolumeSource == (v1.VolumeSource{}) {
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
	}
}

// defaultPodRequests completes the requests of a pod with limits at pod level: from its containers'
// requests if any, else from the limit.
func defaultPodRequests(pod *v1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return
	}
	ofContainers := resource.AggregateContainerRequests(pod, resource.PodResourcesOptions{})
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := ofContainers[name]; ok {
			request(r, name, q)
		}
	}
	for name, limit := range r.Limits {
		request(r, name, limit)
	}
}

// request sets the request of r for a resource that has none.
func request(r *v1.ResourceRequirements, name v1.ResourceName, q quantity.Quantity) {
	if _, ok := r.Requests[name]; ok {
		return
	}
	if r.Requests == nil {
		r.Requests = v1.ResourceList{}
	}
	r.Requests[name] = q.DeepCopy()
}
