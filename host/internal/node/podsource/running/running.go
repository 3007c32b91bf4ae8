// Package running extracts the running pods from the container runtime, and joins them with specs
// of a pod source.
package running

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/shared/eviction"
)

// A Pod holds the runtime's state of one pod, without exited containers.
type Pod struct {
	*criclient.Pod
	Namespace, Name string
	// Active: it has a ready sandbox or a running container.
	Active bool

	// createdNanos is the creation time of the oldest sandbox, or else of the oldest container.
	createdNanos int64
}

// Of returns the pods with a sandbox or a container that has not exited, ordered by creation time,
// namespace and name. It removes exited containers from listed.
func Of(listed []*criclient.Pod) []*Pod {
	all := make([]*Pod, 0, len(listed))
	for _, l := range listed {
		l.Containers = slices.DeleteFunc(l.Containers, criclient.Exited)
		p := &Pod{Pod: l}
		switch {
		case len(l.Sandboxes) > 0:
			m := l.Sandboxes[0].GetMetadata()
			p.Namespace, p.Name = m.GetNamespace(), m.GetName()
		case len(l.Containers) > 0:
			for _, c := range l.Containers { // one that only its cgroup shows has no labels
				p.Namespace = cmp.Or(p.Namespace, c.GetLabels()[criclient.LabelNamespace])
				p.Name = cmp.Or(p.Name, c.GetLabels()[criclient.LabelName])
			}
		default:
			continue
		}
		// A container that was created but not started counts only with a ready sandbox, since
		// without one it never starts and holds nothing to reclaim.
		p.Active = l.Running() || len(l.Ready()) > 0
		p.sort()
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(a.createdNanos, b.createdNanos), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return all
}

func (p *Pod) sort() {
	slices.SortFunc(p.Sandboxes, byCreation[*runtimeapi.PodSandbox])
	slices.SortFunc(p.Containers, byCreation[*runtimeapi.Container])
	if len(p.Sandboxes) > 0 {
		p.createdNanos = p.Sandboxes[0].GetCreatedAt()
	}
	for _, c := range p.Containers {
		if p.createdNanos == 0 {
			p.createdNanos = c.GetCreatedAt()
		}
	}
}

func byCreation[T interface {
	GetCreatedAt() int64
	GetId() string
}](a, b T) int {
	return cmp.Or(cmp.Compare(a.GetCreatedAt(), b.GetCreatedAt()), cmp.Compare(a.GetId(), b.GetId()))
}

// Known joins p with its spec. row was made from api by the pod rules.
func (p *Pod) Known(api *v1.Pod, row eviction.Pod) pods.Pod {
	known := pods.Pod{API: withSource(api, p.Sandboxes), Row: row, HasManifest: true}
	known.Row.Annotations = known.API.Annotations
	return p.complete(known)
}

// Unknown returns a pod that only the runtime knows.
func (p *Pod) Unknown() pods.Pod {
	return p.complete(pods.Pod{
		API: withSource(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(p.UID), Namespace: p.Namespace, Name: cmp.Or(p.Name, p.UID)}}, p.Sandboxes),
		Row: eviction.Pod{UID: p.UID, Namespace: p.Namespace, Name: cmp.Or(p.Name, p.UID)},
	})
}

func (p *Pod) complete(out pods.Pod) pods.Pod {
	out.SandboxIDs, out.ContainerIDs = p.Ready(), p.Left()
	if out.Row.Namespace == "" {
		out.Row.Namespace = p.Namespace
	}
	// A manifest has no status. The kubelet sets the start time when it accepts the pod, just
	// before it creates the sandbox.
	if out.Row.StartTime.IsZero() && p.createdNanos > 0 {
		out.Row.StartTime = time.Unix(0, p.createdNanos)
	}
	out.Row.Containers = p.rowContainers()
	out.Row.Running = p.Running()
	return out
}

// rowContainers returns one container per name: the newest running one, or else the newest one
// about to run, in the order of creation.
func (p *Pod) rowContainers() []eviction.Container {
	newest := make(map[string]*runtimeapi.Container, len(p.Containers))
	for _, c := range p.Containers {
		name := c.GetMetadata().GetName()
		if former := newest[name]; former == nil || newer(c, former) {
			newest[name] = c
		}
	}
	out := make([]eviction.Container, 0, len(newest))
	for _, c := range p.Containers {
		if name := c.GetMetadata().GetName(); name != "" && newest[name] == c {
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

// The annotations with which the kubelet marks a static pod and its mirror.
const (
	// AnnotationSource holds the origin of a pod.
	AnnotationSource = "kubernetes.io/config.source"
	// AnnotationMirror, on a mirror pod in the API server, holds the uid under which the kubelet
	// runs the static pod.
	AnnotationMirror = "kubernetes.io/config.mirror"
)

// Static reports whether the kubelet created the sandboxes of p for a static pod.
func Static(p *criclient.Pod) bool {
	if len(p.Sandboxes) == 0 {
		return false
	}
	source, said := p.Sandboxes[len(p.Sandboxes)-1].GetAnnotations()[AnnotationSource]
	return said && source != SourceAPI
}

// SourceAPI is the source annotation of a pod from the API server.
const SourceAPI = "api"

// withSource returns pod with the source annotation of its newest sandbox. That one is reliable:
// the kubelet overwrites the source given by the pod's author, and passes the annotations to the
// runtime. A mirror never runs. If the sandbox is gone, which the author cannot cause, the
// manifest's value stays. It returns pod itself if nothing changes, and a copy otherwise.
func withSource(pod *v1.Pod, sandboxes []*runtimeapi.PodSandbox) *v1.Pod {
	if len(sandboxes) == 0 {
		return pod
	}
	newest := sandboxes[len(sandboxes)-1]
	says, static := newest.GetAnnotations()[AnnotationSource]
	wrote, written := pod.Annotations[AnnotationSource]
	_, mirror := pod.Annotations[AnnotationMirror]
	if says == wrote && static == written && !mirror {
		return pod
	}
	changed := FromAPI(pod)
	if static {
		changed.Annotations[AnnotationSource] = says
	}
	return changed
}

// FromAPI returns a copy of pod without the marks of a static pod, which its author can write.
func FromAPI(pod *v1.Pod) *v1.Pod {
	changed := *pod
	changed.Annotations = make(map[string]string, len(pod.Annotations)+1)
	maps.Copy(changed.Annotations, pod.Annotations)
	delete(changed.Annotations, AnnotationMirror)
	delete(changed.Annotations, AnnotationSource)
	return &changed
}
