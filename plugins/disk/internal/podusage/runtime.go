package podusage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/eviction"
)

// The labels that the kubelet puts on containers.
const (
	labelPodUID        = "io.kubernetes.pod.uid"
	labelContainerName = "io.kubernetes.container.name"
)

// mostRefusals limits the failed requests for single containers, each of which takes half a
// second if the runtime hangs.
const mostRefusals = 8

// mostStores is the maximum number of snapshotters' directories that are looked at.
const mostStores = 16

// known holds the runtime's answers. It is immutable once it is complete.
type known struct {
	// err: the runtime has never listed the running containers. old: its list is not new. layersErr:
	// it failed to report some of their writable layers; deaf: it reported none.
	err, old, layersErr error
	deaf                bool
	// running are the running containers by pod UID, in the order of their creation. has are
	// the pods that have any container.
	running map[string][]container
	has     map[string]bool
	// ended are the other containers, in no order.
	ended map[string][]container
	// sandboxes are the IDs of the containers' sandboxes.
	sandboxes map[string]bool
}

// A store is the filesystem on which a snapshotter keeps layers: its device, 0 if not known, and sizes.
type store struct {
	device        uint64
	bytes, inodes int64
}

// A container is one that exists.
type container struct {
	id, name  string
	createdAt int64
	layer     use
	store     store
	// at is the time at which the layer was measured, zero if it was not.
	at time.Time
	// refused: the runtime failed to report the layer. impossible is why its figure cannot be.
	refused    bool
	impossible error
}

// ask asks the runtime for the containers of the node and their writable layers. It asks each
// time; the figures have the time at which the runtime measured them, which for containerd is
// every ten seconds and cannot be forced.
//
// With soon it does not wait long: a check of limits that takes long is repeated after a longer pause,
// and an answer that comes later counts then.
func (m *Meter) ask(ctx context.Context, pods []eviction.Pod, soon bool) known {
	if len(pods) == 0 {
		return known{}
	}
	ctx, cancel := mostOf(ctx) // the rest is for answers that do not depend on the runtime
	defer cancel()
	list, stats := m.lists.get(ctx, soon)
	k := known{running: make(map[string][]container), ended: make(map[string][]container), has: make(map[string]bool), sandboxes: make(map[string]bool), old: list.Err}
	if !list.Known() {
		k.err = list.Err
		return k
	}
	var layers []*runtimeapi.ContainerStats
	if stats.Err == nil {
		layers = stats.Value
	}
	k.join(list.Value, layers, stats.Err != nil || k.old != nil, m.storeOf(ctx))
	if k.layersErr = stats.Err; k.layersErr != nil {
		k.deaf = !m.askEach(ctx, k, pods, stats)
	}
	return k
}

// mostOf returns a context for three quarters of the remaining time.
func mostOf(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(deadline)*3/4)
	}
	return context.WithCancel(ctx)
}

// askEach asks for each missing layer of the pods' containers and reports whether any answer
// came: a runtime refuses all of them because of one bad container. One that is late is not asked. A
// layer without an answer keeps its last figure for two minutes.
func (m *Meter) askEach(ctx context.Context, k known, pods []eviction.Pod, last answers.Answer[[]*runtimeapi.ContainerStats]) (answered bool) {
	failures := 0
	if errors.Is(last.Err, answers.ErrLate) {
		failures = mostRefusals
	}
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
				c.takeLast(last.Value)
			}
		}
	}
	return answered
}

// askAbout asks for the layer of one container and reports whether the runtime answered.
func (m *Meter) askAbout(ctx context.Context, c *container) bool {
	ctx, cancel := context.WithTimeout(ctx, hangsAfter/2)
	defer cancel()
	reply, err := m.lists.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{Id: c.id}})
	for _, s := range reply.GetStats() {
		c.take(s.GetWritableLayer())
	}
	c.refused = err != nil
	return err == nil
}

// storeOf returns a function that finds the filesystem of a layer, which may have a snapshotter of its
// own. It is not known while it does not answer.
func (m *Meter) storeOf(ctx context.Context) func(*runtimeapi.FilesystemUsage) store {
	stores := map[string]store{}
	return func(layer *runtimeapi.FilesystemUsage) store {
		dir := layer.GetFsId().GetMountpoint()
		found, known := stores[dir]
		if !known && dir != "" && len(stores) < mostStores {
			found, _ = bounded(ctx, func() (s store) {
				s.device, _ = m.places.fs.Device(dir)
				room, _ := m.places.fs.Statfs(dir)
				s.bytes, s.inodes = cmp.Or(room.CapacityBytes, eviction.AnyNode.Size), cmp.Or(room.Inodes, eviction.AnyNode.Size)
				return s
			}, func() {})
			stores[dir] = found
		}
		return found
	}
}

// join combines the containers with the figures of their layers. The kubelet does not count containers
// that do not run.
func (k *known) join(list []*runtimeapi.Container, stats []*runtimeapi.ContainerStats, refused bool, storeOf func(*runtimeapi.FilesystemUsage) store) {
	layers := make(map[string]*runtimeapi.FilesystemUsage, len(stats))
	for _, s := range stats {
		layers[s.GetAttributes().GetId()] = s.GetWritableLayer()
	}
	seen := make(map[string]bool, len(list))
	for _, c := range list {
		uid := c.GetLabels()[labelPodUID]
		if uid == "" || c.GetId() == "" || seen[c.GetId()] {
			continue
		}
		seen[c.GetId()] = true
		k.has[uid] = true
		k.sandboxes[c.GetPodSandboxId()] = true
		layer, ok := layers[c.GetId()]
		found := container{
			id: c.GetId(), createdAt: c.GetCreatedAt(), refused: refused && !ok, store: storeOf(layer),
			name: cmp.Or(c.GetLabels()[labelContainerName], c.GetMetadata().GetName()),
		}
		found.take(layer)
		of := k.ended
		if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			of = k.running
		}
		of[uid] = append(of[uid], found)
	}
	for _, containers := range k.running {
		slices.SortFunc(containers, func(a, b container) int {
			return cmp.Or(cmp.Compare(a.createdAt, b.createdAt), cmp.Compare(a.name, b.name), cmp.Compare(a.id, b.id))
		})
	}
}

// take copies the runtime's figure. One that cannot be a part of the filesystem is no figure.
func (c *container) take(layer *runtimeapi.FilesystemUsage) {
	// Without a time containerd has not measured yet: its 0 is no figure.
	if layer.GetTimestamp() != 0 || layer.GetUsedBytes().GetValue() != 0 {
		c.impossible = nil
		c.layer = use{c.amount(layer.GetUsedBytes(), c.store.bytes), c.amount(layer.GetInodesUsed(), c.store.inodes)}
		c.at = time.Unix(0, layer.GetTimestamp())
	}
}

// takeLast copies the container's previous figure, unless it is older than forgetAfter.
func (c *container) takeLast(last []*runtimeapi.ContainerStats) {
	i := slices.IndexFunc(last, func(s *runtimeapi.ContainerStats) bool { return s.GetAttributes().GetId() == c.id })
	if i < 0 {
		return
	}
	if layer := last[i].GetWritableLayer(); time.Since(time.Unix(0, layer.GetTimestamp())) < forgetAfter {
		c.take(layer)
		c.refused = false
	}
}

// amount returns a figure of a layer on a filesystem of a size, which is 0 if it is not known.
func (c *container) amount(v *runtimeapi.UInt64Value, size int64) eviction.Figure {
	if v == nil {
		return eviction.Figure{}
	}
	n := int64(v.GetValue()) // negative beyond int64
	whole := eviction.Whole{Name: "the filesystem of the layer", Size: cmp.Or(size, eviction.AnyNode.Size)}
	if err := whole.Check(n); err != nil {
		c.impossible = fmt.Errorf("layer of container %s: %w", c.name, err)
		return eviction.Figure{}
	}
	return eviction.Some(n)
}
