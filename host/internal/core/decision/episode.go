package decision

import (
	"cmp"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// Quiet is the time without a decision for a condition after which its episode is over.
	Quiet = 10 * time.Minute
	// episodeID is the layout of an episode's name: the time of its first decision.
	episodeID = "e20060102T150405"
)

// EpisodeTime returns the time of the first decision of an episode, zero for another text.
func EpisodeTime(id string) time.Time {
	at, _ := time.Parse(episodeID, id) // zero on error
	return at
}

// Episodes sets which episode each head belongs to, and how many pods of its owner were evicted up to
// it within Quiet, without dry runs and kernel kills. An episode is the decisions for a condition, each within Quiet of the one before.
// The heads are in the order of their times.
func Episodes(heads []Head) {
	type group struct {
		id   string
		last time.Time
	}
	groups, owners := map[string]*group{}, map[string][]time.Time{}
	for i := range heads {
		h := &heads[i]
		key := h.Condition()
		g := groups[key]
		if g == nil || h.Time.Sub(g.last) > Quiet {
			g = &group{id: h.Time.UTC().Format(episodeID)}
			groups[key] = g
		}
		g.last, h.Episode = h.Time, g.id
		if h.Owner == "" || h.UID == "" || h.DryRun || h.Kind == KindKernel {
			continue
		}
		namespace, _, _ := strings.Cut(h.Pod, "/")
		owner := namespace + "/" + h.Owner
		for len(owners[owner]) > 0 && h.Time.Sub(owners[owner][0]) > Quiet {
			owners[owner] = owners[owner][1:]
		}
		owners[owner] = append(owners[owner], h.Time)
		h.Again = len(owners[owner])
	}
}

// Condition returns the condition of the signal, else the signal, else who evicted the pod. Kernel kills are by themselves: most
// are at limits of the pods' own.
func (h *Head) Condition() string {
	if h.Kind == KindKernel {
		return h.By
	}
	b, _ := eviction.Builtin(eviction.Signal(h.Signal))
	return cmp.Or(string(b.Condition), h.Signal, h.By)
}

// OwnedBy reports whether the pod belongs to what, a controller as kind/namespace/name such as
// deployment/shop/report, or kind/name in any namespace. A Deployment has its pods by ReplicaSets whose names add a hash.
func (h *Head) OwnedBy(what string) bool {
	kind, owner, _ := strings.Cut(what, "/")
	namespace, name, qualified := strings.Cut(owner, "/")
	if !qualified {
		namespace, name = h.Pod[:max(0, strings.IndexByte(h.Pod, '/'))], owner
	}
	ownerKind, ownerName, _ := strings.Cut(h.Owner, "/")
	if strings.EqualFold(kind, "Deployment") && ownerKind == "ReplicaSet" {
		ownerKind, ownerName = "Deployment", ownerName[:max(0, strings.LastIndexByte(ownerName, '-'))]
	}
	return name != "" && strings.EqualFold(kind, ownerKind) && name == ownerName && strings.HasPrefix(h.Pod, namespace+"/")
}

// OwnerName returns the owner of the pod as kind/namespace/name, empty without one.
func (h *Head) OwnerName() string {
	namespace, _, _ := strings.Cut(h.Pod, "/")
	kind, name, ok := strings.Cut(h.Owner, "/")
	if !ok {
		return ""
	}
	return kind + "/" + namespace + "/" + name
}
