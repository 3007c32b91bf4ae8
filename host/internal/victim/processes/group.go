package processes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// Of one container mostHeld processes are held at most, a descriptor for each. The
	// memory of those beyond them comes back when they get to run.
	mostHeld = 4096
	// mostRounds bounds the searches for processes that were begun meanwhile.
	mostRounds = 20
	// Those that are not held are looked for again after lookAgain, when they may have ended.
	lookAgain = 5 * time.Millisecond
)

// A group is the processes of one cgroup.
type group struct {
	// list returns the ids of those that are in it now. With an error they are not all.
	list func() ([]int, error)
	// kill kills all that are in it, if the kernel does that (cgroup version 2).
	kill func() error
	// At most so many are held.
	most int
}

// end kills all of g, and those that they begin meanwhile. It returns those that it holds, and how many
// more it killed. A process that was killed begins no other one: when there is none that is not held,
// there will be none. The error says if some may be left.
func (g group) end(ctx context.Context) (held processes, more int, err error) {
	held = processes{}
	left := 0
	for round := range mostRounds {
		fresh, beyond, err := g.hold(held)
		if round > 0 && (errors.Is(err, nodefs.ErrGone) || err == nil && len(fresh)+len(beyond) == 0) {
			return held, more, nil
		}
		lived := len(beyond)
		if g.kill() == nil {
			beyond = nil
		} else { // it is not there, or not for this cgroup
			var unkilled error
			lived, unkilled = g.killBeyond(beyond)
			err = errors.Join(err, fresh.kill(), unkilled)
		}
		held.add(fresh)
		more, left = max(more, lived), len(fresh)+min(lived, len(beyond))
		if err != nil || ctx.Err() != nil || round > 0 && left == 0 {
			return held, more, err
		}
		if len(beyond) > 0 {
			<-time.After(lookAgain)
		}
	}
	return held, more, fmt.Errorf("%d processes were found in round %d of killing all, others may be left", left, mostRounds)
}

// killBeyond kills those that are too many to be held for long, and returns how many of them lived.
func (g group) killBeyond(pids []int) (lived int, err error) {
	var errs []error
	for some := range slices.Chunk(pids, g.most) {
		held, err := g.open(some)
		errs = append(errs, err, held.kill())
		lived += len(held)
		held.close()
	}
	return lived, errors.Join(errs...)
}

// hold holds those that are in g and not among others, and returns those beyond as many as are held.
func (g group) hold(others processes) (fresh processes, beyond []int, err error) {
	listed, missed := g.list()
	if len(listed) == 0 && missed != nil {
		return nil, nil, missed
	}
	slices.Sort(listed)
	unknown := slices.DeleteFunc(slices.Compact(listed), func(pid int) bool {
		_, known := others[pid]
		return known && !others.ended(pid)
	})
	room := max(0, min(len(unknown), g.most-len(others)))
	fresh, err = g.open(unknown[:room])
	return fresh, unknown[room:], errors.Join(missed, err)
}

// open holds processes of g. One may end at any time, and another one that is none of g may get its id.
// Once it is held by a descriptor that cannot change any more: if the id is still one of g then, so is
// what is held, or it is dead.
func (g group) open(pids []int) (processes, error) {
	held := processes{}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case errors.Is(err, unix.ESRCH):
			continue // it has ended
		case err != nil:
			held.close()
			return nil, fmt.Errorf("hold process %d: %w", pid, err)
		}
		held[pid] = fd
	}
	if len(held) == 0 {
		return nil, nil
	}
	still, err := g.list()
	if len(still) == 0 && err != nil {
		held.close()
		return nil, err
	}
	held.keep(still)
	return held, nil
}
