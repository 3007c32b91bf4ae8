package cri

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
)

// podGroup is what the runtime knows of one pod.
type podGroup struct {
	uid, namespace, name string
	// createdNanos is when the oldest sandbox was made, else the oldest container.
	createdNanos int64
	sandboxes    []*runtimeapi.PodSandbox
	containers   []*runtimeapi.Container
}

// group returns the active pods in order, and who all pods are.
func group(l criclient.Listing) ([]*podGroup, map[string]listedPod) {
	byUID := make(map[string]*podGroup, len(l.Sandboxes))
	uidOfSandbox := make(map[string]string, len(l.Sandboxes))
	of := func(uid, namespace, name string) *podGroup {
		g := byUID[uid]
		if g == nil {
			g = &podGroup{uid: uid, namespace: namespace, name: name}
			byUID[uid] = g
		}
		return g
	}
	for _, s := range l.Sandboxes {
		uid := criclient.SandboxUID(s)
		if uid == "" {
			continue
		}
		uidOfSandbox[s.GetId()] = uid
		g := of(uid, s.GetMetadata().GetNamespace(), s.GetMetadata().GetName())
		g.sandboxes = append(g.sandboxes, s)
	}
	for _, c := range l.Containers {
		uid := criclient.ContainerUID(c, uidOfSandbox)
		if uid == "" || criclient.Exited(c) {
			continue
		}
		g := of(uid, c.GetLabels()[criclient.LabelNamespace], c.GetLabels()[criclient.LabelName])
		g.containers = append(g.containers, c)
	}
	active := make([]*podGroup, 0, len(byUID))
	listed := make(map[string]listedPod, len(byUID))
	for uid, g := range byUID {
		listed[uid] = listedPod{identity{uid, g.namespace, g.name}, g.active()}
		if listed[uid].active {
			g.sort()
			active = append(active, g)
		}
	}
	slices.SortFunc(active, func(a, b *podGroup) int {
		return cmp.Or(cmp.Compare(a.createdNanos, b.createdNanos), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.name, b.name), cmp.Compare(a.uid, b.uid))
	})
	return active, listed
}

// active: a container that was created and not started counts only with a ready
// sandbox, since without one it never starts and holds nothing to reclaim.
func (g *podGroup) active() bool {
	return slices.ContainsFunc(g.sandboxes, criclient.Ready) || slices.ContainsFunc(g.containers, criclient.Running)
}

func (g *podGroup) sort() {
	slices.SortFunc(g.sandboxes, func(a, b *runtimeapi.PodSandbox) int {
		return cmp.Or(cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
	})
	slices.SortFunc(g.containers, func(a, b *runtimeapi.Container) int {
		return cmp.Or(cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
	})
	if len(g.sandboxes) > 0 {
		g.createdNanos = g.sandboxes[0].GetCreatedAt()
	} else {
		g.createdNanos = g.containers[0].GetCreatedAt()
	}
}

// newest returns the sandbox that was made last, nil if there is none.
func (g *podGroup) newest() *runtimeapi.PodSandbox {
	if len(g.sandboxes) == 0 {
		return nil
	}
	return g.sandboxes[len(g.sandboxes)-1]
}

// pod joins what runs with what it is.
func (g *podGroup) pod(m *manifest) pods.Pod {
	p := pods.Pod{ContainerIDs: make([]string, 0, len(g.containers))}
	for _, s := range g.sandboxes {
		if criclient.Ready(s) {
			p.SandboxIDs = append(p.SandboxIDs, s.GetId())
		}
	}
	for _, c := range g.containers {
		p.ContainerIDs = append(p.ContainerIDs, c.GetId())
	}
	if m != nil {
		p.API, p.Row, p.HasManifest = withSource(m.api, g.newest()), m.row, true
		p.Row.Annotations = p.API.Annotations
	} else {
		p.API = &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(g.uid), Namespace: g.namespace, Name: g.name}}
		p.Row = eviction.Pod{UID: g.uid, Namespace: g.namespace, Name: g.name}
	}
	if p.Row.Namespace == "" {
		p.Row.Namespace = g.namespace
	}
	// Nobody writes a status into a manifest. The kubelet's start time is when it
	// took on the pod, just before it makes the sandbox.
	if p.Row.StartTime.IsZero() && g.createdNanos > 0 {
		p.Row.StartTime = time.Unix(0, g.createdNanos)
	}
	p.Row.Containers = g.rowContainers()
	p.Row.Running = slices.ContainsFunc(g.containers, criclient.Running)
	return p
}

// rowContainers gives each name the container to look at: the newest that runs,
// else the newest that is about to. They stay in the order of creation.
func (g *podGroup) rowContainers() []eviction.Container {
	newest := make(map[string]*runtimeapi.Container, len(g.containers))
	for _, c := range g.containers {
		name := c.GetMetadata().GetName()
		if former := newest[name]; former == nil || newer(c, former) {
			newest[name] = c
		}
	}
	out := make([]eviction.Container, 0, len(newest))
	for _, c := range g.containers {
		if name := c.GetMetadata().GetName(); newest[name] == c {
			out = append(out, eviction.Container{Name: name, ID: c.GetId()})
		}
	}
	return out
}

func newer(a, b *runtimeapi.Container) bool {
	if criclient.Running(a) != criclient.Running(b) {
		return criclient.Running(a)
	}
	return cmp.Or(cmp.Compare(a.GetMetadata().GetAttempt(), b.GetMetadata().GetAttempt()), cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt())) > 0
}
