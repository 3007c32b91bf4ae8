package nodefs

import (
	"errors"
	"fmt"
	"path"

	"github.com/evictd/evictd/shared/eviction"
)

// limits are the limits on one resource of a cgroup and of its ancestors, the closest first. The
// kubelet sees that of the cgroup only. But a cgroup cannot have what an ancestor does not have.
type limits[T any] []limit[T]

type limit[T any] struct {
	cgroup string
	max    *File // nil for a root without a limit
	use    podCgroup[T]
}

// A bound is the limit that leaves the least, with the use of its cgroup.
type bound[T any] struct {
	use     T
	limited bool
	max     int64
	left    int64 // negative while more is used
	// of is the cgroup with the limit if that is an ancestor or "/".
	of string
}

// openLimits opens the limits of a cgroup and its ancestors, up to the "/" that this process sees. It
// omits ancestors without a limit file. The error wraps ErrGone if the cgroup itself has none.
func openLimits[T any](h Hierarchy, cgroup, file string, open func(cgroup string) (podCgroup[T], error)) (all limits[T], err error) {
	for at := cgroup; ; at = path.Dir(at) {
		limitFile, err := h.open(at, file)
		if err == nil {
			var use podCgroup[T]
			if use, err = open(at); err == nil {
				all = append(all, limit[T]{at, limitFile, use})
			} else {
				limitFile.Close()
			}
		}
		if err != nil && (at == cgroup || !errors.Is(err, ErrGone)) {
			all.close()
			return nil, err
		}
		if at == "/" {
			return all, nil
		}
	}
}

// closest returns own or, if it leaves less, one of the limits. own has the use of the first cgroup. An
// ancestor's limit counts below whole, which is the machine's.
// used returns how much of a limit is used, or an error if that cannot be a part of whole.
func (all limits[T]) closest(b *Buffer, own bound[T], whole eviction.Whole, used func(T, eviction.Whole) (int64, error)) (bound[T], error) {
	least := own
	for i, l := range all {
		next := bound[T]{use: own.use}
		var err error
		if next.max, next.limited, err = l.read(b); err != nil {
			return own, err
		}
		if i > 0 || l.cgroup == "/" {
			next.of = l.cgroup
		}
		if !next.limited || next.of != "" && whole.Size > 0 && next.max >= whole.Size {
			continue
		}
		if i > 0 {
			if next.use, err = l.use.Read(b); err != nil {
				return own, err
			}
		}
		use, err := used(next.use, whole)
		if err != nil {
			return own, fmt.Errorf("cgroup %s: %w", l.cgroup, err)
		}
		if next.left = next.max - use; !least.limited || next.left < least.left {
			least = next
		}
	}
	return least, nil
}

func (l limit[T]) read(b *Buffer) (limit int64, limited bool, err error) {
	if l.max == nil {
		return 0, false, nil
	}
	content, err := l.max.Read(b)
	if err != nil {
		return 0, false, err
	}
	if limit, limited, err = parseLimit(content); err != nil {
		err = fmt.Errorf("parse %s: %w", l.max.Path(), err)
	}
	return limit, limited, err
}

func (all limits[T]) close() {
	for _, l := range all {
		l.use.Close()
		l.max.Close()
	}
}
