package podusage

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
)

// The labels that the kubelet puts on containers.
const (
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// fewPods bounds the pods that the runtime is asked for one by one. It takes long over the
// figures of every container of a node.
const fewPods = 4

// mostRefusals ends the asking for one container after the other, which takes half a
// second each where the runtime hangs.
const mostRefusals = 8

// known holds the runtime's answers. It is not changed once it is complete.
type known struct {
	// err: it has not said which containers run. layersErr: nor what some of them have
	// written; deaf: of none.
	err, layersErr error
	deaf           bool
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
	// at is the time at which the layer was looked at, zero if it was not.
	at time.Time
	// refused: the runtime has failed to say what the layer takes.
	refused bool
}

// ask asks the runtime for the containers of pods and their writable layers. The
// figures are asked for each time, and carry the time at which the runtime
// took them: containerd does that every ten seconds and cannot be made to hurry.
func (m *Meter) ask(ctx context.Context, pods []eviction.Pod) known {
	if len(pods) == 0 {
		return known{}
	}
	ctx, cancel := mostOf(ctx) // pods whose answer does not depend on it must still get theirs
	defer cancel()
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
	errs, statsErrs := make([]error, len(filters)), make([]error, len(filters))
	var wait hang.Group
	for i, labels := range filters {
		wait.Go(func() {
			reply, err := m.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
			lists[i], errs[i] = reply.GetContainers(), err
		})
		wait.Go(func() {
			ctx, cancel := mostOf(ctx) // the rest is for asking for one container after the other
			defer cancel()
			reply, err := m.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{LabelSelector: labels}})
			stats[i], statsErrs[i] = reply.GetStats(), err
		})
	}
	wait.Wait()
	if k.err = errors.Join(distinct(errs)...); k.err != nil {
		return k
	}
	err := errors.Join(distinct(statsErrs)...)
	layers := slices.Concat(stats...)
	k.join(slices.Concat(lists...), layers, err != nil)
	if err != nil {
		k.deaf = !m.askEach(ctx, k, pods) && len(layers) == 0
		k.layersErr = err
	} else if len(pods) > fewPods {
		m.lastKnown.Store(&k)
	}
	return k
}

// mostOf returns a context for three quarters of the time that is left.
func mostOf(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)*3/4)
	}
	return context.WithCancel(ctx)
}

// askEach asks for the layers of pods' containers that are missing, and reports whether
// there was an answer: a runtime refuses all of them because one container is bad. Without
// one the last figure stands for two minutes.
func (m *Meter) askEach(ctx context.Context, k known, pods []eviction.Pod) (answered bool) {
	last, failures := m.lastKnown.Load(), 0
	for i := range pods {
		running := k.running[pods[i].UID]
		for n := range running {
			c := &running[n]
			switch {
			case !c.refused:
			case failures < mostRefusals && m.askAbout(ctx, c):
				answered = true
			default:
				failures++
				c.takeLast(last.running[pods[i].UID])
			}
		}
	}
	return answered
}

// askAbout asks for the layer of one container.
func (m *Meter) askAbout(ctx context.Context, c *container) bool {
	ctx, cancel := context.WithTimeout(ctx, hangsAfter/2)
	defer cancel()
	reply, err := m.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{Id: c.id}})
	for _, s := range reply.GetStats() {
		c.take(s.GetWritableLayer())
	}
	c.refused = err != nil
	return err == nil
}

// join brings together which containers run and what their layers take. Those that
// do not run are not counted, as in the kubelet: what is left of them is for the
// reclaim to free.
func (k *known) join(list []*runtimeapi.Container, stats []*runtimeapi.ContainerStats, refused bool) {
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
		layer, ok := layers[c.GetId()]
		running := container{
			id: c.GetId(), createdAt: c.GetCreatedAt(), refused: refused && !ok,
			name: cmp.Or(c.GetLabels()[labelContainerName], c.GetMetadata().GetName()),
		}
		running.take(layer)
		k.running[uid] = append(k.running[uid], running)
	}
	for _, containers := range k.running {
		slices.SortFunc(containers, func(a, b container) int {
			return cmp.Or(cmp.Compare(a.createdAt, b.createdAt), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
		})
	}
}

// take takes the runtime's figure over.
func (c *container) take(layer *runtimeapi.FilesystemUsage) {
	// Without a time containerd has not looked yet: its 0 is no figure.
	if layer.GetTimestamp() != 0 || layer.GetUsedBytes().GetValue() != 0 {
		c.layer = summary.Use{UsedBytes: amount(layer.GetUsedBytes()), InodesUsed: amount(layer.GetInodesUsed())}
		c.at = time.Unix(0, layer.GetTimestamp())
	}
}

// takeLast takes over the figure from before.
func (c *container) takeLast(before []container) {
	i := slices.IndexFunc(before, func(last container) bool { return last.id == c.id && time.Since(last.at) < forgetAfter })
	if i >= 0 {
		*c = before[i]
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
