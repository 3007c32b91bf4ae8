package gc

import (
	"cmp"
	"maps"
	"slices"
)

// unit identifies all instances of one container of a pod.
type unit struct{ uid, name string }

// dead is a container that is not running.
type dead struct {
	unit
	id           string
	createdNanos int64
	// lost: the runtime does not know the container's state, so it may be running.
	lost bool
}

// choose returns the dead containers to remove, in order. If mayGo is true for a pod, all of its
// dead containers are removed. Of the others the newest are kept: at most perContainer of each
// container and total altogether; a negative number means no limit. To get down to total, each
// container first keeps an equal share, at least one (kuberuntime_gc.go:evictContainers).
func choose(all []dead, mayGo func(uid string) bool, perContainer, total int) []dead {
	units := map[unit][]dead{}
	for _, d := range all {
		units[d.unit] = append(units[d.unit], d)
	}
	order := slices.SortedFunc(maps.Keys(units), func(a, b unit) int {
		return cmp.Or(cmp.Compare(a.uid, b.uid), cmp.Compare(a.name, b.name))
	})
	var out []dead
	left := 0
	leave := func(u unit, n int) {
		if n = max(n, 0); len(units[u]) > n {
			out = append(out, oldestFirst(units[u][n:])...)
			left -= len(units[u]) - n
			units[u] = units[u][:n]
		}
	}
	for _, u := range order {
		newestFirst(units[u])
		left += len(units[u])
		if mayGo(u.uid) {
			leave(u, 0)
			delete(units, u)
		}
	}
	limit := func(n int) {
		for _, u := range order {
			leave(u, n)
		}
	}
	if perContainer >= 0 {
		limit(perContainer)
	}
	if total < 0 || left <= total {
		return out
	}
	limit(max(1, total/len(units)))
	if left <= total {
		return out
	}
	rest := slices.Concat(slices.Collect(maps.Values(units))...)
	newestFirst(rest)
	return append(out, oldestFirst(rest[total:])...)
}

func newestFirst(all []dead) {
	slices.SortFunc(all, func(a, b dead) int {
		return cmp.Or(cmp.Compare(b.createdNanos, a.createdNanos), cmp.Compare(a.id, b.id))
	})
}

// oldestFirst returns a reversed copy of all, which is sorted newest first.
func oldestFirst(all []dead) []dead {
	out := slices.Clone(all)
	slices.Reverse(out)
	return out
}
