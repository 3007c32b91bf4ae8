package kubelet

import (
	"context"
	"reflect"
	"slices"
	"unsafe"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
)

// A manager is the kubelet's managerImpl, accessed by reflection because its Start runs passes in
// an endless loop with real sleeps.
type manager struct{ impl reflect.Value }

// managerOf returns the managerImpl in m.
func managerOf(m eviction.Manager) manager { return manager{reflect.ValueOf(m)} }

// clone returns a copy of m. A pass replaces all state of a manager, except for the list of
// thresholds, into which the first one writes.
func (m manager) clone() manager {
	c := manager{reflect.New(m.impl.Type().Elem())}
	c.impl.Elem().Set(m.impl.Elem())
	config := (*eviction.Config)(c.impl.Elem().FieldByName("config").Addr().UnsafePointer())
	thresholds := make([]evictionapi.Threshold, len(config.Thresholds), cap(config.Thresholds))
	copy(thresholds, config.Thresholds)
	config.Thresholds = thresholds
	return c
}

// ranking returns the kubelet's sort function for evictions under signal, once a pass has found the
// layout.
func (m manager) ranking(signal string, summary *statsapi.Summary) func([]*v1.Pod) {
	stats := func(pod *v1.Pod) (statsapi.PodStats, bool) {
		for i := range slices.Backward(summary.Pods) {
			if summary.Pods[i].PodRef.UID == string(pod.UID) {
				return summary.Pods[i], true
			}
		}
		return statsapi.PodStats{}, false
	}
	field := m.impl.Elem().FieldByName("signalToRankFunc")
	// A value from an unexported field cannot be called, one created at its address can.
	all := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
	rank := all.MapIndex(reflect.ValueOf(evictionapi.Signal(signal)))
	if !rank.IsValid() { // it found no supported layout
		return func([]*v1.Pod) {}
	}
	statsFunc := reflect.ValueOf(stats).Convert(rank.Type().In(1))
	return func(pods []*v1.Pod) { rank.Call([]reflect.Value{reflect.ValueOf(pods), statsFunc}) }
}

// synchronize makes one pass.
func (m manager) synchronize(ctx context.Context, d eviction.DiskInfoProvider, pods eviction.ActivePodsFunc) ([]*v1.Pod, error) {
	return synchronize(m.impl.UnsafePointer(), ctx, d, pods)
}

// waitForPodsCleanup waits for pods that a pass returned, like the kubelet's loop.
func (m manager) waitForPodsCleanup(cleanedUp eviction.PodCleanedUpFunc, pods []*v1.Pod) {
	waitForPodsCleanup(m.impl.UnsafePointer(), logr.Discard(), cleanedUp, pods)
}

//go:linkname synchronize k8s.io/kubernetes/pkg/kubelet/eviction.(*managerImpl).synchronize
func synchronize(m unsafe.Pointer, ctx context.Context, d eviction.DiskInfoProvider, pods eviction.ActivePodsFunc) ([]*v1.Pod, error) //nolint:revive // the receiver comes first

//go:linkname waitForPodsCleanup k8s.io/kubernetes/pkg/kubelet/eviction.(*managerImpl).waitForPodsCleanup
func waitForPodsCleanup(m unsafe.Pointer, log klog.Logger, cleanedUp eviction.PodCleanedUpFunc, pods []*v1.Pod)
