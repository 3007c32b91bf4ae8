package gc

import (
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// podListLag bounds the delay until the host learns of a new pod. The kubelet knows its pods
// first; the host's list is of a moment before, and a step may take minutes. What is younger
// than that is never taken for the rest of a pod that is gone.
const podListLag = time.Minute

// podStates decides of which pods everything may go. The host's list counts, but never against
// the runtime: a pod that is not in the list, or is said to have ended, and has something
// running, or something new, is one of which the host does not know yet that it exists or runs
// again. Of an evicted pod the host knows. Of a pod that is said to have ended what has run and
// is dead may go however new it is, or a short job would cost another pod its life.
type podStates struct {
	known    map[string]eviction.PodState
	complete bool
	since    time.Time
	// running pods have a container that runs or a sandbox that is ready; young
	// ones have something newer than since, and starting ones something of that
	// which has not run yet.
	running, young, starting map[string]bool
	// spent are the sandboxes in which a container has ended.
	spent map[string]bool
}

func newPodStates(pods []eviction.PodPhase, complete bool, since time.Time) *podStates {
	p := &podStates{known: map[string]eviction.PodState{}, complete: complete, since: since, spent: map[string]bool{}}
	for _, pod := range pods {
		p.known[pod.UID] = pod.State
	}
	return p
}

// see takes in what the runtime has.
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

// runtimeMayGo: all dead containers and sandboxes of the pod may
// (ShouldPodRuntimeBeRemoved, which includes ShouldPodContentBeRemoved).
func (p *podStates) runtimeMayGo(uid string) bool {
	switch state, ok := p.known[uid]; {
	case !ok:
		return p.missing(uid)
	case state == eviction.PodEvicted:
		return true
	default:
		return (state == eviction.PodTerminated || state == eviction.PodDeleted) && p.over(uid)
	}
}

// contentMayGo: the pod's logs may (ShouldPodContentBeRemoved). Those of a pod
// that has ended are for those who ask why. As long as something runs they stay:
// an open log gives nothing back.
func (p *podStates) contentMayGo(uid string) bool {
	if p.running[uid] {
		return false
	}
	switch state, ok := p.known[uid]; {
	case !ok:
		return p.missing(uid)
	case state == eviction.PodEvicted:
		return true
	default:
		return state == eviction.PodDeleted && p.over(uid)
	}
}

func (p *podStates) missing(uid string) bool {
	return uid != "" && p.complete && p.over(uid) && !p.young[uid]
}

// over: the runtime has nothing of the pod that runs or is about to.
func (p *podStates) over(uid string) bool { return !p.running[uid] && !p.starting[uid] }
