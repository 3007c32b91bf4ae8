package world

import (
	"context"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/paritytest/kubelet"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const mib = 1 << 20

// A Kubelet runs the kubelet's manager like its loop: each 10 s, and at once when the last victim
// is cleaned up, for which it polls each second for half a minute.
type Kubelet struct {
	manager *kubelet.Live
	next    time.Duration
	victims []string // not cleaned up yet
}

// NewKubelet returns the kubelet of a node, with its first pass at the given time.
func NewKubelet(k *kubelet.Kubelet, first time.Duration) (*Kubelet, error) {
	live, err := kubelet.NewLive(k, replay.Config{
		LocalStorageCapacityIsolation:    true,
		EvictionHard:                     map[string]string{"memory.available": "1Gi"},
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: 5 * time.Minute},
	}, start)
	return &Kubelet{manager: live, next: first}, err
}

// Look implements Manager.
func (k *Kubelet) Look(n *Node) error {
	if n.Now < k.next {
		return nil
	}
	if len(k.victims) > 0 {
		k.next = n.Now + time.Second
		return nil
	}
	summary := &statsapi.Summary{}
	at, uint := metav1.NewTime(start.Add(n.Now)), func(mibs float64) *uint64 { return new(uint64(max(0, mibs) * mib)) }
	available := n.Available()
	summary.Node.Memory = &statsapi.MemoryStats{Time: at, AvailableBytes: uint(available), WorkingSetBytes: uint(capacity - available)}
	var pods []*v1.Pod
	for _, p := range n.Pods {
		requests := v1.ResourceList{}
		if p.request > 0 {
			requests[v1.ResourceMemory] = *resource.NewQuantity(bytes(p.request), resource.BinarySI)
		}
		pods = append(pods, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: p.UID, Namespace: "default", UID: types.UID(p.UID)},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: requests}}}},
		})
		stats := statsapi.PodStats{PodRef: statsapi.PodReference{UID: p.UID}, Memory: &statsapi.MemoryStats{Time: at, WorkingSetBytes: uint(p.Uses(n.Now))}}
		if p.exceeds > 0 {
			used := uint64(1)
			if p.Exceeds(n.Now) {
				used = 3
			}
			stats.VolumeStats = []statsapi.VolumeStats{{Name: "v", FsStats: statsapi.FsStats{UsedBytes: &used}}}
			limit := resource.NewQuantity(2, resource.BinarySI)
			pods[len(pods)-1].Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: limit}}}}
		}
		summary.Pods = append(summary.Pods, stats)
	}
	evicted, err := k.manager.Pass(context.Background(), at.Time, summary, pods)
	if k.next = n.Now + 10*time.Second; len(evicted) > 0 {
		k.next = n.Now
	}
	for _, p := range evicted {
		k.victims = append(k.victims, string(p.UID))
		// The kill returns at the pod's end, and the first poll is a second later.
		k.next = max(k.next, n.Evict(string(p.UID), -1)+time.Second)
	}
	return err
}

// Taint implements Manager.
func (k *Kubelet) Taint() string {
	if k.manager.MemoryPressure() {
		return kubeletTaint
	}
	return ""
}

// CleanedUp implements Manager.
func (k *Kubelet) CleanedUp(_ *Node, uid string, _ bool) {
	k.victims = slices.DeleteFunc(k.victims, func(victim string) bool { return victim == uid })
}
