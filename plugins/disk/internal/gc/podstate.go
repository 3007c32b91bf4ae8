package gc

import (
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// podListLag bounds the delay until the host knows a new pod. The kubelet knows its pods first;
// the host's list is a moment old, and a step may take minutes. Anything younger is never taken
// for the leftover of a pod that is gone.
const podListLag = time.Minute

// podStates decides which pods' data may be removed. It follows the host's list unless the runtime
// contradicts it: if a pod is not in the list or is listed as ended, but has something running or
// new, then it is new or running again and the host does not know yet. An evicted pod is certain.
// If a pod is listed as ended, dead containers that have run may be removed however new they are;
// else a short job would cost another pod its life.
type podStates struct {
	known    map[string]eviction.PodState
	complete bool
	since    time.Time
	// running pods have a running container or a ready sandbox; young ones have something newer
	// than since, and starting ones something newer that has not run yet.
	running, young, starting map[string]bool
	// spent are the sandboxes in which a container has exited.
	spent map[string]bool
}

// see updates the states from the runtime's listing.
func (p *podStates) see(l listing) {
	p.running, p.young, p.starting = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, c := range l.containers {
		exited := c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
		if exited {
			p.spent[c.GetPodSandboxId()] = true
		}
		p.note(l.podOf(c), c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING, exited, c.GetCreatedAt())
	}
	for _, sb := range l.sandboxes {
		p.note(sb.GetMetadata().GetUid(), sb.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY, p.spent[sb.GetId()], sb.GetCreatedAt())
	}
}

func (p *podStates) note(uid string, running, spent bool, createdNanos int64) {
	if running {
		p.running[uid] = true
	}
	if p.isYoung(createdNanos) {
		p.young[uid] = true
		p.starting[uid] = p.starting[uid] || !spent
	}
}

func (p *podStates) isYoung(createdNanos int64) bool {
	return time.Unix(0, createdNanos).After(p.since)
}

// runtimeMayGo reports whether all dead containers and sandboxes of the pod may be removed
// (ShouldPodRuntimeBeRemoved, which includes ShouldPodContentBeRemoved).
func (p *podStates) runtimeMayGo(uid string) bool {
	return p.mayGo(uid, eviction.PodTerminated, eviction.PodDeleted)
}

// contentMayGo reports whether the pod's logs may be removed (ShouldPodContentBeRemoved). Those
// of a pod that has ended are kept for its users. While something runs they are kept too: an
// open log would release nothing.
func (p *podStates) contentMayGo(uid string) bool {
	return !p.running[uid] && p.mayGo(uid, eviction.PodDeleted)
}

// mayGo reports whether a pod is gone, evicted, or over in one of these states.
func (p *podStates) mayGo(uid string, in ...eviction.PodState) bool {
	switch state, ok := p.known[uid]; {
	case !ok:
		return uid != "" && p.complete && p.over(uid) && !p.young[uid]
	case state == eviction.PodEvicted:
		return true
	default:
		return slices.Contains(in, state) && p.over(uid)
	}
}

// over reports whether nothing of the pod runs or is about to start.
func (p *podStates) over(uid string) bool { return !p.running[uid] && !p.starting[uid] }
