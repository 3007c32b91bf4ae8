package policy

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// Annotations of the eviction event.
const (
	annotationContainers      = "offending_containers"
	annotationContainersUsage = "offending_containers_usage"
	annotationPod             = "offending_pod"
	annotationPodUsage        = "offending_pod_usage"
	annotationStarved         = "starved_resource"
)

// lowOn begins a message, the resource follows, and a full stop.
const lowOn = "The node was low on resource: "

// Message returns the message for a victim of t, and the annotations of its event:
// the node's figures before reclaim, and which containers use more than they
// asked for (evictionMessage, getThresholdMetInfo). Every sentence ends with a
// space, the last one too. pod has the resources that the kubelet has allocated;
// without figures in m the message stays short. podLevelResources is the kubelet's gate:
// memory that is requested for a pod as a whole is mentioned.
func Message(podLevelResources bool, pod *v1.Pod, t Threshold, o eviction.Observation, m eviction.Measurement) (string, map[string]string) {
	var text strings.Builder
	definition := t.Definition()
	threshold, available := t.Amount(o.Capacity), Figure(o.Available, definition.Format)
	fmt.Fprintf(&text, lowOn+"%s. Threshold quantity: %s, available: %s. ", definition.Resource, &threshold, &available)
	annotations := map[string]string{}
	if m.State != eviction.Measured {
		return text.String(), annotations
	}
	name := v1.ResourceName(definition.Resource)
	if podLevelResources {
		podPart(&text, annotations, pod, name, m)
	}

	var names, usages []string
	specs := slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers)
	for _, c := range m.Containers {
		at := slices.IndexFunc(specs, func(spec v1.Container) bool { return spec.Name == c.Name })
		if at < 0 {
			continue
		}
		usage, ok := containerUsage(name, c)
		request := specs[at].Resources.Requests[name]
		if !ok || usage.Cmp(request) <= 0 {
			continue
		}
		fmt.Fprintf(&text, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name, &usage, &request, name)
		names, usages = append(names, c.Name), append(usages, usage.String())
	}
	annotations[annotationContainers] = strings.Join(names, ",")
	annotations[annotationContainersUsage] = strings.Join(usages, ",")
	annotations[annotationStarved] = definition.Resource
	return text.String(), annotations
}

// podPart tells of a pod whose memory request is set for the pod as a whole. It
// is mentioned also when the pod uses less than that.
func podPart(text *strings.Builder, annotations map[string]string, pod *v1.Pod, name v1.ResourceName, m eviction.Measurement) {
	if name != v1.ResourceMemory || pod.Spec.Resources == nil || !m.WorkingSetBytes.OK {
		return
	}
	request, ok := pod.Spec.Resources.Requests[name]
	if !ok {
		return
	}
	usage := Figure(m.WorkingSetBytes.Value, eviction.FormatBinarySI)
	fmt.Fprintf(text, "Pod %s was using %s, request is %s, has larger consumption of %s. ", pod.Name, &usage, &request, name)
	annotations[annotationPod] = pod.Name
	annotations[annotationPodUsage] = usage.String()
}

// containerUsage returns what a container uses of a resource that containers can
// ask for. Inodes and processes are none.
func containerUsage(name v1.ResourceName, c eviction.ContainerMeasurement) (resource.Quantity, bool) {
	switch name {
	case v1.ResourceMemory:
		return Figure(c.WorkingSetBytes.Value, eviction.FormatBinarySI), c.WorkingSetBytes.OK
	case v1.ResourceEphemeralStorage:
		usage := Figure(c.RootfsUsedBytes.Value, eviction.FormatBinarySI)
		usage.Add(Figure(c.LogsUsedBytes.Value, eviction.FormatBinarySI))
		return usage, c.RootfsUsedBytes.OK && c.LogsUsedBytes.OK
	default:
		return resource.Quantity{}, false
	}
}

// Figure returns an amount as it stands in messages, in the format of its signal.
func Figure(v int64, f eviction.Format) resource.Quantity {
	return *resource.NewQuantity(v, resource.Format(f))
}
