package kubernetes

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
)

// stripped copies the fields of a pod on which a decision or a kill can depend. A node has
// hundreds of pods, each of tens of kilobytes, most of which are never used.
func stripped(pod *v1.Pod, wanted *pods.Wanted) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Generation: pod.Generation,
			CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
			Labels: wanted.Kept(pod.Labels), Annotations: wanted.Kept(pod.Annotations), OwnerReferences: pod.OwnerReferences,
		},
		Spec: v1.PodSpec{
			Priority: pod.Spec.Priority, PriorityClassName: pod.Spec.PriorityClassName,
			RestartPolicy: pod.Spec.RestartPolicy, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
			Overhead: pod.Spec.Overhead, Resources: pod.Spec.Resources, NodeName: pod.Spec.NodeName,
			InitContainers: containers(pod.Spec.InitContainers), Containers: containers(pod.Spec.Containers),
			Volumes: volumes(pod.Spec.Volumes),
		},
		Status: v1.PodStatus{
			Phase: pod.Status.Phase, Reason: pod.Status.Reason, Message: pod.Status.Message,
			StartTime: pod.Status.StartTime, QOSClass: pod.Status.QOSClass, PodIP: pod.Status.PodIP, Conditions: conditions(pod.Status.Conditions),
			InitContainerStatuses: statuses(pod.Status.InitContainerStatuses), ContainerStatuses: statuses(pod.Status.ContainerStatuses),
			AllocatedResources: pod.Status.AllocatedResources,
		},
	}
}

func containers(all []v1.Container) []v1.Container {
	out := make([]v1.Container, len(all))
	for i := range all {
		out[i] = v1.Container{Name: all[i].Name, Resources: all[i].Resources, RestartPolicy: all[i].RestartPolicy}
		if hooks := all[i].Lifecycle; hooks != nil && hooks.PreStop != nil {
			out[i].Lifecycle, out[i].Ports = &v1.Lifecycle{PreStop: hooks.PreStop}, all[i].Ports
		}
	}
	return out
}

// conditions keeps DisruptionTarget, which outlasts an eviction, and Ready, with which the kubelet
// reports that it has begun to terminate the pod.
func conditions(all []v1.PodCondition) (out []v1.PodCondition) {
	for _, c := range all {
		if c.Type == v1.DisruptionTarget || c.Type == v1.PodReady {
			out = append(out, c)
		}
	}
	return out
}

// volumes keeps what affects decisions, but not the projected keys and items.
func volumes(all []v1.Volume) []v1.Volume {
	out := make([]v1.Volume, len(all))
	for i := range all {
		out[i] = v1.Volume{Name: all[i].Name, VolumeSource: all[i].VolumeSource}
		s := &out[i].VolumeSource
		switch {
		case s.Projected != nil:
			s.Projected = &v1.ProjectedVolumeSource{}
		case s.ConfigMap != nil:
			s.ConfigMap = &v1.ConfigMapVolumeSource{}
		case s.Secret != nil:
			s.Secret = &v1.SecretVolumeSource{}
		case s.DownwardAPI != nil:
			s.DownwardAPI = &v1.DownwardAPIVolumeSource{}
		}
	}
	return out
}

func statuses(all []v1.ContainerStatus) []v1.ContainerStatus {
	out := make([]v1.ContainerStatus, len(all))
	for i := range all {
		out[i] = v1.ContainerStatus{Name: all[i].Name, State: v1.ContainerState{Running: all[i].State.Running}, AllocatedResources: all[i].AllocatedResources}
		if all[i].State.Waiting != nil {
			out[i].State.Waiting = &v1.ContainerStateWaiting{}
		}
	}
	return out
}

// allocated replaces the requests of a stripped pod by the resources allocated by the kubelet: a
// pod that is being resized has these and no others.
func allocated(pod *v1.Pod) *v1.Pod {
	of := func(containers []v1.Container, statuses []v1.ContainerStatus) {
		for i := range containers {
			for j := range statuses {
				if statuses[j].Name == containers[i].Name && len(statuses[j].AllocatedResources) > 0 {
					containers[i].Resources.Requests = over(containers[i].Resources.Requests, statuses[j].AllocatedResources)
				}
			}
		}
	}
	of(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	of(pod.Spec.Containers, pod.Status.ContainerStatuses)
	if pod.Spec.Resources != nil && len(pod.Status.AllocatedResources) > 0 {
		own := *pod.Spec.Resources
		own.Requests = maps.Clone(own.Requests)
		for name := range own.Requests {
			if all, ok := pod.Status.AllocatedResources[name]; ok { // includes the pod's overhead and the requests of its containers
				all = all.DeepCopy()
				all.Sub(pod.Spec.Overhead[name])
				own.Requests[name] = all
			}
		}
		pod.Spec.Resources = &own
	}
	return pod
}

// over returns requests, replaced by allocated resources where there are any.
func over(requests, allocated v1.ResourceList) v1.ResourceList {
	out := make(v1.ResourceList, len(requests)+len(allocated))
	maps.Copy(out, requests)
	maps.Copy(out, allocated)
	return out
}
