package gc

import (
	"cmp"
	"maps"
	"slices"
)

// unit is a container of a pod in all its instances.
type unit struct{ uid, name string }

// dead is a container that does not run.
type dead struct {
	unit
	id           string
	createdNanos int64
	// lost: the runtime does not know the state, so it may run after all.
	lost bool
}

// choose returns the dead containers that are to go, in order. All of a pod whose
// runtime may go do; of others perContainer of each container and total of all
// stay, the newest; a negative number is no limit. To get down to total, first
// each container is left an equal share, at least one
// (kuberuntime_gc.go:evictContainers).
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

// oldestFirst returns what is sorted newest first the other way round.
func oldestFirst(all []dead) []dead {
	out := slices.Clone(all)
	slices.Reverse(out)
	return out
}
