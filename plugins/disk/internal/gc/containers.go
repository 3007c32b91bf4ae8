package gc

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	labelPodUID     = "io.kubernetes.pod.uid"
	annotationGrace = "io.kubernetes.pod.terminationGracePeriod"
	// A container in an unknown state is stopped with the pod's grace period in seconds, limited
	// to this range: the kubelet's minimum, and a maximum that keeps the call short.
	leastGrace = 2
	mostGrace  = 20
)

// containerGC is one run.
type containerGC struct {
	*step
	settings   Settings
	podLogsDir string
	now        time.Time
	pods       *podStates

	containers, sandboxes, logDirs, links int
	// layers is the size of the removed writable layers by the runtime's figures, logs that of log
	// files; unknown is the number of layers without figures.
	layers, logs eviction.Reclaimed
	unknown      int
}

// run runs the parts in the kubelet's order (GarbageCollect). If one fails, it continues with
// the next.
func (g *containerGC) run(ctx context.Context) {
	g.rooms = g.measureRooms(ctx)
	if l, err := g.look(ctx); err != nil {
		g.fail(err)
	} else {
		g.removeContainers(ctx, l)
		if g.containers > 0 {
			l, err = g.look(ctx)
		}
		if err != nil {
			g.fail(err)
		} else {
			g.removeSandboxes(ctx, l)
			g.removeLogDirs(ctx)
		}
	}
	g.removeLinks(ctx)
	if g.layers.Bytes > 0 {
		want := g.layers
		if device, _, err := g.freeOn(g.podLogsDir); err == nil && slices.ContainsFunc(g.rooms, func(r room) bool { return r.device == device }) {
			want = sum(want, g.logs)
		}
		g.awaitRoom(ctx, want, roomWait, func() bool { return false })
	}
}

func (g *containerGC) result(ctx context.Context) (eviction.Reclaimed, error) {
	g.note(g.containers, "container", "containers")
	g.note(g.sandboxes, "sandbox", "sandboxes")
	g.note(g.logDirs, "log directory", "log directories")
	g.note(g.links, "dead log link", "dead log links")
	if len(g.notes) == 0 {
		g.notes = append(g.notes, "removed nothing")
		return g.reported(), g.problems(ctx)
	}
	g.notes[0] = "removed " + g.notes[0]
	g.notes = append(g.notes, "writable layers "+amounts(g.layers), "logs "+amounts(g.logs))
	g.note(g.unknown, "writable layer of unknown size", "writable layers of unknown size")
	g.noteRooms()
	return g.reported(), g.problems(ctx)
}

// listing holds all containers and sandboxes of the runtime.
type listing struct {
	containers []*runtimeapi.Container
	sandboxes  []*runtimeapi.PodSandbox
	uidOf      map[string]string // by sandbox
}

// podOf returns the UID of a container's pod, "" if no kubelet made the container.
func (l listing) podOf(c *runtimeapi.Container) string {
	if uid := c.GetLabels()[labelPodUID]; uid != "" {
		return uid
	}
	return l.uidOf[c.GetPodSandboxId()]
}

// look lists containers before sandboxes, so that each container of a new pod is seen together
// with its sandbox.
func (g *containerGC) look(ctx context.Context) (listing, error) {
	containers, err := ask(ctx, g.step, g.client.Runtime.ListContainers, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return listing{}, fmt.Errorf("list containers: %w", err)
	}
	sandboxes, err := ask(ctx, g.step, g.client.Runtime.ListPodSandbox, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return listing{}, fmt.Errorf("list sandboxes: %w", err)
	}
	l := listing{containers: containers.GetContainers(), sandboxes: sandboxes.GetItems(), uidOf: map[string]string{}}
	for _, sb := range l.sandboxes {
		l.uidOf[sb.GetId()] = sb.GetMetadata().GetUid()
	}
	g.pods.see(l)
	return l, nil
}

func (g *containerGC) removeContainers(ctx context.Context, l listing) {
	oldEnough := g.now.Add(-time.Duration(*g.settings.MinAge))
	var all []dead
	for _, c := range l.containers {
		uid := l.podOf(c)
		if uid == "" || g.lives(c.GetState(), c.GetCreatedAt()) || time.Unix(0, c.GetCreatedAt()).After(oldEnough) {
			continue
		}
		all = append(all, dead{
			unit: unit{uid, c.GetMetadata().GetName()}, id: c.GetId(), createdNanos: c.GetCreatedAt(),
			lost: c.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN,
		})
	}
	// Without a complete list only the limits count, as in the kubelet.
	mayGo := func(uid string) bool { return g.pods.complete && g.pods.runtimeMayGo(uid) }
	for _, d := range choose(all, mayGo, *g.settings.MaxPerPodContainer, *g.settings.MaxContainers) {
		if g.over(ctx) {
			return
		}
		if err := g.removeContainer(ctx, d); err != nil {
			g.fail(fmt.Errorf("remove container %s (%s of pod %s): %w", d.id, d.name, d.uid, err))
		}
	}
}

// lives reports whether a container runs or is about to start: a removal would destroy it while
// it is being started.
func (g *containerGC) lives(state runtimeapi.ContainerState, createdNanos int64) bool {
	return state == runtimeapi.ContainerState_CONTAINER_RUNNING ||
		state == runtimeapi.ContainerState_CONTAINER_CREATED && g.pods.isYoung(createdNanos)
}

// removeContainer removes a container, after its logs like the kubelet. It checks the state
// again first, since CRI would also remove a running container.
func (g *containerGC) removeContainer(ctx context.Context, d dead) error {
	reply, err := ask(ctx, g.step, g.client.Runtime.ContainerStatus, &runtimeapi.ContainerStatusRequest{ContainerId: d.id})
	if gone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for its status: %w", err)
	}
	c := reply.GetStatus()
	if g.lives(c.GetState(), c.GetCreatedAt()) {
		return nil // it was started meanwhile
	}
	if d.lost {
		req := &runtimeapi.StopContainerRequest{ContainerId: d.id, Timeout: grace(c)}
		if err := remove(ctx, g.step, g.client.Runtime.StopContainer, req); err != nil {
			return fmt.Errorf("stop it, its state is unknown: %w", err)
		}
	}
	layer, known := g.layerOf(ctx, d.id)
	logs, err := g.removeLogs(c.GetLogPath(), d.uid)
	g.logs = sum(g.logs, logs)
	g.free(logs.Bytes, logs.Inodes)
	if err != nil {
		return fmt.Errorf("remove its logs: %w", err)
	}
	err = remove(ctx, g.step, g.client.Runtime.RemoveContainer, &runtimeapi.RemoveContainerRequest{ContainerId: d.id})
	if err != nil && !gone(err) {
		return err
	}
	g.containers++
	if !known {
		g.unknown++
	}
	g.layers = sum(g.layers, layer)
	g.free(layer.Bytes, layer.Inodes)
	return nil
}

// layerOf returns the size of a container's writable layer. It uses the list, since containerd's
// ContainerStats fails for a dead container. With a time of zero containerd has not measured yet.
func (g *containerGC) layerOf(ctx context.Context, id string) (eviction.Reclaimed, bool) {
	reply, err := ask(ctx, g.step, g.client.Runtime.ListContainerStats, &runtimeapi.ListContainerStatsRequest{Filter: &runtimeapi.ContainerStatsFilter{Id: id}})
	if err != nil {
		return eviction.Reclaimed{}, false // only the report is incomplete
	}
	for _, s := range reply.GetStats() {
		if layer := s.GetWritableLayer(); s.GetAttributes().GetId() == id && layer.GetTimestamp() != 0 {
			return eviction.Reclaimed{Bytes: clamp(layer.GetUsedBytes().GetValue()), Inodes: clamp(layer.GetInodesUsed().GetValue())}, true
		}
	}
	return eviction.Reclaimed{}, false
}

// grace returns the grace period to stop a container with, in seconds.
func grace(c *runtimeapi.ContainerStatus) int64 {
	seconds, err := strconv.ParseInt(c.GetAnnotations()[annotationGrace], 10, 64)
	if err != nil {
		return leastGrace
	}
	return min(max(seconds, leastGrace), mostGrace)
}

// removeSandboxes removes sandboxes that are not ready and have no containers: all of a pod if
// runtimeMayGo allows it, else all but the pod's newest sandbox (kuberuntime_gc.go:evictSandboxes).
func (g *containerGC) removeSandboxes(ctx context.Context, l listing) {
	occupied := map[string]bool{}
	for _, c := range l.containers {
		occupied[c.GetPodSandboxId()] = true
	}
	byPod := map[string][]*runtimeapi.PodSandbox{}
	for _, sb := range l.sandboxes {
		if uid := sb.GetMetadata().GetUid(); uid != "" {
			byPod[uid] = append(byPod[uid], sb)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(byPod)) {
		of := byPod[uid]
		slices.SortFunc(of, func(a, b *runtimeapi.PodSandbox) int { // oldest first
			return cmp.Or(cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
		})
		if !g.pods.runtimeMayGo(uid) {
			of = of[:len(of)-1]
		}
		for _, sb := range of {
			if g.over(ctx) {
				return
			}
			if occupied[sb.GetId()] || sb.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
				continue
			}
			if err := g.removeSandbox(ctx, sb.GetId()); err != nil {
				g.fail(fmt.Errorf("remove sandbox %s of pod %s/%s: %w", sb.GetId(), sb.GetMetadata().GetNamespace(), sb.GetMetadata().GetName(), err))
			}
		}
	}
}

// removeSandbox stops the sandbox first, like the kubelet, in case its network still exists.
func (g *containerGC) removeSandbox(ctx context.Context, id string) error {
	err := remove(ctx, g.step, g.client.Runtime.StopPodSandbox, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err != nil && !gone(err) {
		return fmt.Errorf("stop it: %w", err)
	}
	err = remove(ctx, g.step, g.client.Runtime.RemovePodSandbox, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	if err != nil && !gone(err) {
		return err
	}
	g.sandboxes++
	g.free(0, 0)
	return nil
}
