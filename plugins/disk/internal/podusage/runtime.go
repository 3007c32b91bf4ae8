package podusage

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// The labels that the kubelet puts on containers.
const (
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// fewPods is how many pods the runtime is asked for one by one. It takes long over
// the figures of every container of a node.
const fewPods = 4

// known is what the runtime says. It is not changed once it is complete.
type known struct {
	err error
	// running are the containers that run, by the uid of their pod, in the order
	// in which they were made. has are the pods of which there is any container.
	running map[string][]container
	has     map[string]bool
}

// A container is one that runs.
type container struct {
	id, name  string
	createdAt int64
	layer     summary.Use
	// at is when the layer was looked at, zero if it was not.
	at time.Time
}

// ask asks the runtime for the containers of pods and their writable layers. The
// figures are asked for anew each time, and carry the time at which the runtime
// took them: containerd does that every ten seconds and cannot be made to hurry.
func (m *Meter) ask(ctx context.Context, pods []eviction.Pod) known {
	if len(pods) == 0 {
		return known{}
	}
	if deadline, ok := ctx.Deadline(); ok {
		// Pods whose answer does not depend on it must still get theirs.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)*3/4)
		defer cancel()
	}
	filters := []map[string]string{nil}
	if len(pods) <= fewPods {
		filters = nil
		for i := range pods {
			filters = append(filters, map[string]string{labelPodUID: pods[i].UID})
		}
	}
	k := known{running: make(map[string][]container), has: make(map[string]bool)}
	lists := make([][]*runtimeapi.Container, len(filters))
	stats := make([][]*runtimeapi.ContainerStats, len(filters))
	errs := make([]error, 2*len(filters))
	var wait sync.WaitGroup
	for i, labels := range filters {
		wait.Go(func() {
			reply, err := m.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
			lists[i], errs[2*i] = reply.GetContainers(), err
		})
		wait.Go(func() {
			reply, err := m.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: labels}})
			stats[i], errs[2*i+1] = reply.GetStats(), err
		})
	}
	wait.Wait()
	k.err = errors.Join(distinct(errs)...)
	if k.err == nil {
		k.join(slices.Concat(lists...), slices.Concat(stats...))
	}
	return k
}

// join brings together which containers run and what their layers take. Those that
// do not run are not counted, as in the kubelet: what is left of them is for the
// reclaim to free.
func (k *known) join(list []*runtimeapi.Container, stats []*runtimeapi.ContainerStats) {
	layers := make(map[string]*runtimeapi.FilesystemUsage, len(stats))
	for _, s := range stats {
		layers[s.GetAttributes().GetId()] = s.GetWritableLayer()
	}
	for _, c := range list {
		uid := c.GetLabels()[labelPodUID]
		if uid == "" {
			continue
		}
		k.has[uid] = true
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		running := container{
			id: c.GetId(), createdAt: c.GetCreatedAt(),
			name: cmp.Or(c.GetLabels()[labelContainerName], c.GetMetadata().GetName()),
		}
		// Without a time containerd has not looked yet: its 0 is no figure.
		if layer := layers[c.GetId()]; layer.GetTimestamp() != 0 || layer.GetUsedBytes().GetValue() != 0 {
			running.layer = summary.Use{UsedBytes: amount(layer.GetUsedBytes()), InodesUsed: amount(layer.GetInodesUsed())}
			running.at = time.Unix(0, layer.GetTimestamp())
		}
		k.running[uid] = append(k.running[uid], running)
	}
	for _, containers := range k.running {
		slices.SortFunc(containers, func(a, b container) int {
			return cmp.Or(cmp.Compare(a.createdAt, b.createdAt), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
		})
	}
}

func amount(v *runtimeapi.UInt64Value) eviction.Figure {
	if v == nil {
		return eviction.Figure{}
	}
	return eviction.Some(int64(min(v.GetValue(), math.MaxInt64)))
}

// distinct leaves out what says the same again: a runtime that is down says so to
// each call.
func distinct(errs []error) []error {
	var out []error
	for _, err := range errs {
		if err != nil && !slices.ContainsFunc(out, func(o error) bool { return o.Error() == err.Error() }) {
			out = append(out, err)
		}
	}
	return out
}
