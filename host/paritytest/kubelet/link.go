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

// A manager is the kubelet's managerImpl, whose pass can only be reached so:
// Start runs it in an endless loop with real sleeps between.
type manager struct{ impl reflect.Value }

// managerOf returns the managerImpl in m.
func managerOf(m eviction.Manager) manager { return manager{reflect.ValueOf(m)} }

// clone returns a copy of m. A pass replaces all that a manager remembers, but
// for the list of thresholds, into which the first one writes.
func (m manager) clone() manager {
	c := manager{reflect.New(m.impl.Type().Elem())}
	c.impl.Elem().Set(m.impl.Elem())
	config := (*eviction.Config)(c.impl.Elem().FieldByName("config").Addr().UnsafePointer())
	thresholds := make([]evictionapi.Threshold, len(config.Thresholds), cap(config.Thresholds))
	copy(thresholds, config.Thresholds)
	config.Thresholds = thresholds
	return c
}

// ranking returns what sorts pods for eviction under signal, once a pass has found
// the layout.
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
	// What comes from an unexported field cannot be called, what is in its place can.
	all := reflect.NewAt(field.Type(), field.Addr().UnsafePointer()).Elem()
	rank := all.MapIndex(reflect.ValueOf(evictionapi.Signal(signal)))
	if !rank.IsValid() { // it found no layout that it works with
		return func([]*v1.Pod) {}
	}
	statsFunc := reflect.ValueOf(stats).Convert(rank.Type().In(1))
	return func(pods []*v1.Pod) { rank.Call([]reflect.Value{reflect.ValueOf(pods), statsFunc}) }
}

// synchronize is one pass.
func (m manager) synchronize(ctx context.Context, d eviction.DiskInfoProvider, pods eviction.ActivePodsFunc) ([]*v1.Pod, error) {
	return synchronize(m.impl.UnsafePointer(), ctx, d, pods)
}

// waitForPodsCleanup does as the kubelet's loop with pods that a pass returned.
func (m manager) waitForPodsCleanup(cleanedUp eviction.PodCleanedUpFunc, pods []*v1.Pod) {
	waitForPodsCleanup(m.impl.UnsafePointer(), logr.Discard(), cleanedUp, pods)
}

//go:linkname synchronize k8s.io/kubernetes/pkg/kubelet/eviction.(*managerImpl).synchronize
func synchronize(m unsafe.Pointer, ctx context.Context, d eviction.DiskInfoProvider, pods eviction.ActivePodsFunc) ([]*v1.Pod, error) //nolint:revive // the receiver comes first

//go:linkname waitForPodsCleanup k8s.io/kubernetes/pkg/kubelet/eviction.(*managerImpl).waitForPodsCleanup
func waitForPodsCleanup(m unsafe.Pointer, log klog.Logger, cleanedUp eviction.PodCleanedUpFunc, pods []*v1.Pod)
