package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// An Ended is a pod that does not run and of which something may be left: dead
// containers, a dead sandbox, logs.
type Ended struct {
	UID string
	// State is PodDeleted when its manifest is gone, PodTerminated when it never
	// runs again, and PodActive when somebody may start it anew.
	State eviction.PodState
}

// ended returns what the runtime has left of pods that are not active. A pod whose
// manifest was never seen is not in it: it may be somebody else's.
func (c *CRI) ended(l Listing, active []*podGroup, manifests map[string]*manifest) []Ended {
	runs := make(map[string]bool, len(active))
	for _, g := range active {
		runs[g.uid] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Ended
	seen, left := make(map[string]bool, len(manifests)), map[string]bool{}
	for uid := range manifests {
		seen[uid] = true
	}
	note := func(uid string) {
		if uid == "" || left[uid] {
			return
		}
		left[uid] = true
		m := manifests[uid]
		if m == nil && !c.seen[uid] {
			return
		}
		seen[uid] = true
		if !runs[uid] {
			out = append(out, Ended{uid, stateOf(m)})
		}
	}
	uidOfSandbox := make(map[string]string, len(l.Sandboxes))
	for _, s := range l.Sandboxes {
		uidOfSandbox[s.GetId()] = SandboxUID(s)
		note(SandboxUID(s))
	}
	for _, container := range l.Containers {
		note(ContainerUID(container, uidOfSandbox))
	}
	c.seen = seen
	return out
}

func stateOf(m *manifest) eviction.PodState {
	switch {
	case m == nil:
		return eviction.PodDeleted
	case m.api.Spec.RestartPolicy == v1.RestartPolicyNever:
		return eviction.PodTerminated
	default:
		return eviction.PodActive
	}
}

// complete: the manifests are of this node's pods and of all of them, as far as
// one can tell. A node on which something runs that has none is shared with
// somebody whose pods are not known here.
func complete(active []Pod, problems []Problem) bool {
	for _, p := range problems {
		if !p.Used {
			return false
		}
	}
	for _, p := range active {
		if !p.HasManifest {
			return false
		}
	}
	return len(active) > 0
}
