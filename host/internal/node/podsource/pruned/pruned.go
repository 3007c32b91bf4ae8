// Package pruned decodes pods within bounds, without the fields on which no decision or kill can depend.
//
// It reads no pods itself: that is for the package kubeapi and the pod sources.
package pruned

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/prune"
)

// Bounds of what is kept of a pod: its author can fill 1.5 MiB with what decides nothing. With them
// 500 pods take at most 40 MB.
const (
	// maxHeapBytes bounds the containers, volumes and hooks of a pod in memory. 30 containers with
	// requests, limits and a status take 64 KiB.
	maxHeapBytes = 70 << 10
	// maxItems bounds each list while the pod is decoded.
	maxItems = 256
	// maxOwnBytes bounds an annotation or label that evictd reads itself, maxWantedBytes one for plugins.
	maxOwnBytes, maxWantedBytes = 160, 4 << 10
	// maxNumberBytes bounds a quantity as text.
	maxNumberBytes = 64
	// maxHookBytes bounds a hook, or a field of it, while the pod is decoded.
	maxHookBytes = 32 << 10
	// maxTextBytes bounds the message of a condition, which evictd itself writes with up to as many.
	// maxEndedTextBytes bounds that of an ended pod: a node can have 12,500 of them.
	maxTextBytes, maxEndedTextBytes = 16 << 10, 1 << 10
)

// Sizes in memory, roughly.
const (
	containerBytes, statusBytes, volumeBytes = 480, 320, 530
	resourcesBytes                           = 700 // of a map with an entry
	stringBytes                              = 32
)

// AnnotationCut is set by Unmarshal on a pod of which something is dropped, and says what.
const AnnotationCut = "evictd.io/cut"

// leaf is a number or a name, nothing a message of which only the presence counts.
var (
	leaf    = prune.Field{}
	nothing = prune.Field{Message: prune.Message{}}
	hook    = prune.Field{MaxBytes: maxHookBytes, Name: "bytes of a preStop hook"}
)

func several(name string, of prune.Message) prune.Field {
	return prune.Field{Message: of, Most: maxItems, Name: name}
}

func single(of prune.Message) prune.Field { return prune.Field{Message: of} }

// quantities are the entries of a resource list that a decision needs: at pod level also hugepages,
// which make the pod's requests count.
func quantities(hugepages bool) prune.Field {
	return prune.Field{Most: 8, MaxBytes: 2 * maxNumberBytes, Keep: func(entry []byte) bool {
		switch name := keyOf(entry); v1.ResourceName(name) {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage:
			return true
		default:
			return hugepages && strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
		}
	}}
}

// keyOf returns the key of an entry of a map.
func keyOf(entry []byte) []byte {
	number, kind, n := protowire.ConsumeTag(entry)
	if n < 0 || number != 1 || kind != protowire.BytesType {
		return nil
	}
	key, _ := protowire.ConsumeBytes(entry[n:])
	return key
}

// isController returns whether a metav1.OwnerReference is that of a controller.
func isController(owner []byte) bool {
	var o metav1.OwnerReference
	return o.Unmarshal(owner) == nil && o.Controller != nil && *o.Controller
}

// isRead returns whether a condition is DisruptionTarget, which outlasts an eviction, or Ready, with
// which the kubelet reports that it has begun to terminate the pod.
func isRead(condition []byte) bool {
	name := string(keyOf(condition))
	return name == string(v1.DisruptionTarget) || name == string(v1.PodReady)
}

// The fields of v1.Pod on which a decision or a kill can depend, by their numbers in the API's
// generated.proto. A node has hundreds of pods, each of tens of kilobytes, most of which are never used.
var (
	containerTable = prune.Message{
		1: leaf, 24: leaf, // name, restartPolicy
		8: single(prune.Message{1: quantities(false), 2: quantities(false)}),
		6: several("", prune.Message{1: leaf, 3: leaf, 4: leaf}), // ports: name, containerPort, protocol
		12: single(prune.Message{2: single(prune.Message{ // preStop
			1: hook, 2: hook, 3: hook, 4: leaf, // exec, httpGet, tcpSocket, sleep
		})}),
	}
	statusTable = prune.Message{
		1: leaf, 10: quantities(false), // name, allocatedResources
		2: single(prune.Message{1: nothing, 2: {Message: prune.Message{1: leaf}}}), // waiting, running
	}
	specTable = prune.Message{
		1:  several("volumes", prune.Message{1: leaf, 2: single(volumeTable)}),
		20: several("init containers", containerTable), 2: several("containers", containerTable),
		3: leaf, 4: leaf, 10: leaf, 24: leaf, 25: leaf, // restartPolicy, terminationGracePeriodSeconds, nodeName, priorityClassName, priority
		32: quantities(true), 40: single(prune.Message{1: quantities(true), 2: quantities(true)}), // overhead, resources
	}
	// volumeTable has the kinds of volumes.
	volumeTable = func() prune.Message {
		const kinds = 30
		table := prune.Message{2: single(prune.Message{1: leaf, 2: {MaxBytes: 2 * maxNumberBytes}})} // emptyDir: medium, sizeLimit
		for kind := range protowire.Number(kinds) {
			if _, known := table[kind+1]; !known {
				table[kind+1] = nothing
			}
		}
		return table
	}()
	podStatusTable = prune.Message{
		1: leaf, 3: {Cut: true}, 4: leaf, 6: leaf, 7: leaf, 9: leaf, // phase, message, reason, podIP, startTime, qosClass
		2: {Message: prune.Message{
			1: leaf, 2: leaf, 3: leaf, 4: leaf, 5: leaf, 7: leaf, 6: {MaxBytes: maxTextBytes, Cut: true},
		}, Most: 4, Keep: isRead},
		10: several("init container statuses", statusTable), 8: several("container statuses", statusTable), 19: quantities(true),
	}
)

// podTable returns the fields of a v1.Pod with the labels and annotations that are wanted.
func podTable(w *pods.Wanted) prune.Message {
	wanted := prune.Field{Most: maxItems, MaxBytes: 2 * maxWantedBytes, Keep: func(entry []byte) bool {
		switch key := string(keyOf(entry)); key {
		case AnnotationCut:
			return false
		case metav1.InitialEventsAnnotationKey: // of a bookmark
			return len(entry) <= maxOwnBytes
		default:
			kept, own := w.Keeps(key)
			return kept && (len(entry) <= maxOwnBytes || !own && len(entry) <= maxWantedBytes)
		}
	}}
	return prune.Message{
		1: single(prune.Message{
			1: leaf, 3: leaf, 5: leaf, 6: leaf, 7: leaf, 8: leaf, 9: leaf, 10: leaf, // name, namespace, uid, resourceVersion, generation, times
			11: wanted, 12: wanted,
			13: {Message: prune.Message{5: leaf, 1: leaf, 3: leaf, 4: leaf, 6: leaf}, Keep: isController},
		}),
		2: single(specTable), 3: single(podStatusTable),
	}
}

// Unmarshal decodes a v1.Pod from protobuf. A pod that exceeds the bounds has AnnotationCut. Unmarshal
// needs scratch for the bytes to decode, and returns it for the next pod.
func Unmarshal(w *pods.Wanted, pod *v1.Pod, raw, scratch []byte) ([]byte, error) {
	scratch, drops, err := prune.Append(scratch[:0], podTable(w), raw)
	if err == nil {
		err = pod.Unmarshal(scratch)
	}
	if err != nil {
		return scratch, fmt.Errorf("decode pod: %w", err)
	}
	bound(pod, drops)
	return scratch, nil
}

// bound shortens the lists of a pod to what fits into memory.
func bound(pod *v1.Pod, drops []prune.Drop) {
	for i := range pod.Spec.InitContainers {
		shortenHook(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		shortenHook(&pod.Spec.Containers[i])
	}
	if hasEnded(pod) {
		boundEnded(pod)
		return
	}
	b := budget{left: maxHeapBytes, drops: drops}
	pod.Spec.Containers = fitting(&b, "containers", pod.Spec.Containers, sizeOfContainer)
	pod.Status.ContainerStatuses = fitting(&b, "container statuses", pod.Status.ContainerStatuses, sizeOfStatus)
	pod.Spec.InitContainers = fitting(&b, "init containers", pod.Spec.InitContainers, sizeOfContainer)
	pod.Status.InitContainerStatuses = fitting(&b, "init container statuses", pod.Status.InitContainerStatuses, sizeOfStatus)
	pod.Spec.Volumes = fitting(&b, "volumes", pod.Spec.Volumes, func(*v1.Volume) int { return volumeBytes })
	if text := b.text(); text != "" {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[AnnotationCut] = text
	}
}

// hasEnded returns whether a pod has ended and its status has no running container.
func hasEnded(pod *v1.Pod) bool {
	runs := func(s v1.ContainerStatus) bool { return s.State.Running != nil }
	return (pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded) &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, runs) && !slices.ContainsFunc(pod.Status.InitContainerStatuses, runs)
}

// boundEnded keeps the identity and the state of a pod that has ended: a node can have 12,500 of them.
// The priority still protects a pod that the runtime runs all the same.
func boundEnded(pod *v1.Pod) {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		c.Message = strings.Clone(c.Message[:min(len(c.Message), maxEndedTextBytes)])
		if pod.Status.Message == c.Message { // is kept once
			pod.Status.Message = c.Message
		}
	}
	if pod.Status.Reason != victim.ReasonEvicted {
		pod.Status.Message = ""
	}
	pod.Spec = v1.PodSpec{
		Priority: pod.Spec.Priority, PriorityClassName: pod.Spec.PriorityClassName, NodeName: pod.Spec.NodeName,
		RestartPolicy: pod.Spec.RestartPolicy, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
	}
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.AllocatedResources = nil, nil, nil
	pod.Labels, pod.Annotations = (*pods.Wanted)(nil).Kept(pod.Labels), (*pods.Wanted)(nil).Kept(pod.Annotations)
}

// shortenHook keeps the port that a hook names, and no other.
func shortenHook(c *v1.Container) {
	all := c.Ports
	c.Ports = nil
	if c.Lifecycle == nil || c.Lifecycle.PreStop == nil || *c.Lifecycle.PreStop == (v1.LifecycleHandler{}) {
		c.Lifecycle = nil
		return
	}
	if get := c.Lifecycle.PreStop.HTTPGet; get != nil && get.Port.Type == intstr.String {
		if i := slices.IndexFunc(all, func(p v1.ContainerPort) bool { return p.Name == get.Port.StrVal }); i >= 0 {
			c.Ports = slices.Clone(all[i : i+1])
		}
	}
}

func sizeOfContainer(c *v1.Container) int {
	size := containerBytes
	for _, m := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
		size += min(len(m), 1) * resourcesBytes
	}
	if c.Lifecycle != nil {
		size += stringBytes + c.Lifecycle.PreStop.Size()
		if exec := c.Lifecycle.PreStop.Exec; exec != nil {
			size += stringBytes * len(exec.Command)
		}
		if get := c.Lifecycle.PreStop.HTTPGet; get != nil {
			size += 2 * stringBytes * len(get.HTTPHeaders)
		}
	}
	return size
}

func sizeOfStatus(s *v1.ContainerStatus) int {
	return statusBytes + min(len(s.AllocatedResources), 1)*resourcesBytes
}

// A budget is what is left for the lists of a pod.
type budget struct {
	left  int
	drops []prune.Drop
}

// fitting returns the first items that fit into the budget.
func fitting[T any](b *budget, name string, all []T, size func(*T) int) []T {
	for i := range all {
		if b.left -= size(&all[i]); b.left < 0 {
			b.drop(prune.Drop{Name: name, Had: len(all), Kept: i})
			return slices.Clone(all[:i])
		}
	}
	return all
}

// drop records what is kept of a list. One that was longer on the wire had more.
func (b *budget) drop(d prune.Drop) {
	if i := slices.IndexFunc(b.drops, func(former prune.Drop) bool { return former.Name == d.Name }); i >= 0 {
		b.drops[i].Kept = d.Kept
		return
	}
	b.drops = append(b.drops, d)
}

func (b *budget) text() string {
	parts := make([]string, 0, len(b.drops))
	for _, d := range b.drops {
		if part := fmt.Sprintf("has %d %s, the first %d count", d.Had, d.Name, d.Kept); len(parts) < 8 && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}
