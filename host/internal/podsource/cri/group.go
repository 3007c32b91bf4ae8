package cri

import (
	"cmp"
	"maps"
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

// podGroup is what the runtime knows of one pod, but for containers that have exited.
type podGroup struct {
	listedPod
	*criclient.Pod

	// createdNanos is when the oldest sandbox was made, else the oldest container.
	createdNanos int64
}

// group returns the active pods in order, and who all pods are that have a sandbox or a
// container that has not exited. Only such containers are left in listed.
func group(listed []*criclient.Pod) (active []*podGroup, known map[string]listedPod) {
	active, known = make([]*podGroup, 0, len(listed)), make(map[string]listedPod, len(listed))
	for _, p := range listed {
		p.Containers = slices.DeleteFunc(p.Containers, criclient.Exited)
		g := &podGroup{Pod: p, listedPod: listedPod{identity: identity{uid: p.UID}}}
		switch {
		case len(p.Sandboxes) > 0:
			m := p.Sandboxes[0].GetMetadata()
			g.namespace, g.name = m.GetNamespace(), m.GetName()
			newest := slices.MaxFunc(p.Sandboxes, byCreation[*runtimeapi.PodSandbox])
			g.static = newest.GetAnnotations()[annotationSource] == sourceFile
		case len(p.Containers) > 0:
			labels := p.Containers[0].GetLabels()
			g.namespace, g.name = labels[criclient.LabelNamespace], labels[criclient.LabelName]
		default:
			continue
		}
		// A container that was created and not started counts only with a ready sandbox,
		// since without one it never starts and holds nothing to reclaim.
		g.active = p.Running() || len(p.Ready()) > 0
		known[p.UID] = g.listedPod
		if g.active {
			g.sort()
			active = append(active, g)
		}
	}
	slices.SortFunc(active, func(a, b *podGroup) int {
		return cmp.Or(cmp.Compare(a.createdNanos, b.createdNanos), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.name, b.name), cmp.Compare(a.uid, b.uid))
	})
	return active, known
}

func (g *podGroup) sort() {
	slices.SortFunc(g.Sandboxes, byCreation[*runtimeapi.PodSandbox])
	slices.SortFunc(g.Containers, byCreation[*runtimeapi.Container])
	if len(g.Sandboxes) > 0 {
		g.createdNanos = g.Sandboxes[0].GetCreatedAt()
	} else {
		g.createdNanos = g.Containers[0].GetCreatedAt()
	}
}

func byCreation[T interface {
	GetCreatedAt() int64
	GetId() string
}](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
}

// pod joins what runs with what it is.
func (g *podGroup) pod(m *manifest) pods.Pod {
	p := pods.Pod{SandboxIDs: g.Ready(), ContainerIDs: g.Left()}
	if m != nil {
		p.API, p.Row, p.HasManifest = withSource(m.api, g.Sandboxes), m.row, true
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
	p.Row.Running = g.Running()
	return p
}

// rowContainers gives each name the container to look at: the newest that runs,
// else the newest that is about to. They stay in the order of creation.
func (g *podGroup) rowContainers() []eviction.Container {
	newest := make(map[string]*runtimeapi.Container, len(g.Containers))
	for _, c := range g.Containers {
		name := c.GetMetadata().GetName()
		if former := newest[name]; former == nil || newer(c, former) {
			newest[name] = c
		}
	}
	out := make([]eviction.Container, 0, len(newest))
	for _, c := range g.Containers {
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

// The annotations by which the kubelet knows a static pod and its mirror.
const (
	annotationSource = "kubernetes.io/config.source"
	annotationMirror = "kubernetes.io/config.mirror"
)

// withSource returns pod with what the newest sandbox says of where the pod comes from. Who makes
// the sandbox knows: the kubelet writes the source over what the pod's author has
// written, and hands the pod's annotations to the runtime. A mirror never runs. Of
// a pod whose sandbox is gone, which its author cannot bring about, the manifest is
// believed. It changes nothing and returns pod itself if that says the same.
func withSource(pod *v1.Pod, sandboxes []*runtimeapi.PodSandbox) *v1.Pod {
	if len(sandboxes) == 0 {
		return pod
	}
	newest := sandboxes[len(sandboxes)-1]
	says, static := newest.GetAnnotations()[annotationSource]
	wrote, written := pod.Annotations[annotationSource]
	_, mirror := pod.Annotations[annotationMirror]
	if says == wrote && static == written && !mirror {
		return pod
	}
	changed := *pod
	changed.Annotations = make(map[string]string, len(pod.Annotations)+1)
	maps.Copy(changed.Annotations, pod.Annotations)
	delete(changed.Annotations, annotationMirror)
	delete(changed.Annotations, annotationSource)
	if static {
		changed.Annotations[annotationSource] = says
	}
	return &changed
}
