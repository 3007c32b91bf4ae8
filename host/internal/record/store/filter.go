package store

import (
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
)

// A Filter selects records. Empty fields match all. What names a pod or a record, and with Loose a
// controller (kind/namespace/name) or the beginning of a name.
type Filter struct {
	What, Signal, Namespace string
	Loose                   bool
	// Kind selects decisions of a kind, Plugin those whose order the ranker of that name made.
	Kind, Plugin string
	Since        time.Duration
	// From and Until bound the time.
	From, Until time.Time
	// All includes decisions not to evict, and so does Kind.
	All bool
	// IDs are those of the records, nil for any.
	IDs map[string]bool
}

// Whole reports whether decisions not to evict are selected, too.
func (f *Filter) Whole() bool { return f.All || f.Kind != "" }

// takes reports whether the filter selects the record of h, but for its plugin.
func (f *Filter) takes(h *decision.Head, now time.Time) bool {
	return (f.Whole() || h.UID != "") &&
		(f.What == "" || h.Named(f.What) || f.Loose && (h.OwnedBy(f.What) || begins(h, f.What))) &&
		!h.Time.Before(f.From) && (f.Until.IsZero() || !h.Time.After(f.Until)) &&
		(f.Since == 0 || now.Sub(h.Time) <= f.Since) &&
		(f.Signal == "" || h.Signal == f.Signal) &&
		(f.Kind == "" || h.Kind == f.Kind) &&
		(f.IDs == nil || f.IDs[h.ID]) &&
		(f.Namespace == "" || strings.HasPrefix(h.Pod, f.Namespace+"/"))
}

// takesName is like takes, for a head from a file name. It may select records that takes does not.
func (f *Filter) takesName(h *decision.Head, now time.Time) bool {
	byName := Filter{Namespace: part(f.Namespace), Since: f.Since, All: f.Whole(), From: f.From, Until: f.Until}
	_, name, _ := strings.Cut(h.Pod, "/")
	if !byName.takes(h, now) {
		return false
	}
	return f.What == "" || slices.Contains([]string{h.ID, h.UID, name, part(h.Pod)}, part(f.What)) || f.Loose && (begins(h, f.What) || ownedPerhaps(h, f.What))
}

// begins reports whether the id of a record, or the name of its pod, begins with what.
func begins(h *decision.Head, what string) bool {
	_, name, _ := strings.Cut(h.Pod, "/")
	return slices.ContainsFunc([]string{h.ID, h.Pod, name}, func(s string) bool { return strings.HasPrefix(s, what) })
}

// ownedPerhaps reports whether the name of a pod may be one that a controller made: it begins with the controller's.
func ownedPerhaps(h *decision.Head, what string) bool {
	_, owner, ok := strings.Cut(what, "/")
	namespace, name, qualified := strings.Cut(owner, "/")
	if !qualified {
		namespace, name = h.Pod[:max(0, strings.IndexByte(h.Pod, '/'))], owner
	}
	return ok && strings.HasPrefix(h.Pod, part(namespace)+"/"+strings.TrimSuffix(part(name), changed))
}
