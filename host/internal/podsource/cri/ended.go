package cri

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
)

// ended returns the pods that have a manifest, or had one and have something left
// in the runtime, and are not active; also whether some pod has never had one: it
// may be somebody else's. A manifest that is not used as it should be may be that
// of any pod.
func (c *Source) ended(l criclient.Listing, active []*podGroup, manifests map[string]*manifest, allUsed bool) (out []pods.Ended, unknown bool) {
	runs := make(map[string]bool, len(active))
	for _, g := range active {
		runs[g.uid] = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	seen, left := make(map[string]bool, len(manifests)), map[string]bool{}
	note := func(uid string) {
		if uid == "" || left[uid] {
			return
		}
		left[uid] = true
		m := manifests[uid]
		if m == nil && !c.seen[uid] {
			unknown = true
			return
		}
		seen[uid] = true
		if !runs[uid] {
			out = append(out, pods.Ended{UID: uid, State: stateOf(m, allUsed)})
		}
	}
	uidOfSandbox := make(map[string]string, len(l.Sandboxes))
	for _, s := range l.Sandboxes {
		uidOfSandbox[s.GetId()] = criclient.SandboxUID(s)
		note(criclient.SandboxUID(s))
	}
	for _, container := range l.Containers {
		note(criclient.ContainerUID(container, uidOfSandbox))
	}
	// A runtime that wipes its containers at boot has nothing of a pod until it is
	// started again, however often it may run.
	for _, uid := range slices.Sorted(maps.Keys(manifests)) {
		seen[uid] = true
		if uid != "" && !left[uid] {
			out = append(out, pods.Ended{UID: uid, State: eviction.PodActive})
		}
	}
	c.seen = seen
	return out, unknown
}

func stateOf(m *manifest, allUsed bool) eviction.PodState {
	switch {
	case m == nil && allUsed:
		return eviction.PodDeleted
	case m != nil && m.api.Spec.RestartPolicy == v1.RestartPolicyNever:
		return eviction.PodTerminated
	default:
		return eviction.PodActive
	}
}

// allUsed reports whether each manifest counts.
func allUsed(problems []pods.Problem) bool {
	return !slices.ContainsFunc(problems, func(p pods.Problem) bool { return !p.Used })
}

// allKnown reports whether there are pods and each has its manifest. A node on
// which something runs that has none is shared with somebody whose pods are not
// known here.
func allKnown(active []pods.Pod) bool {
	return len(active) > 0 && !slices.ContainsFunc(active, func(p pods.Pod) bool { return !p.HasManifest })
}
