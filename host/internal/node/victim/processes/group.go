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
	// mostHeld bounds the processes held per container, each by a descriptor. The memory of the
	// others comes back when they get to run.
	mostHeld = 4096
	// mostRounds bounds the searches for processes started meanwhile.
	mostRounds = 20
	// lookAgain is the pause before searching again for processes that are not held.
	lookAgain = 5 * time.Millisecond
)

// A group is the set of processes in one cgroup.
type group struct {
	// list returns the ids of the present members. With an error the list is incomplete.
	list func() ([]int, error)
	// kill kills all members, if the kernel supports it (cgroup.kill of cgroup v2).
	kill func() error
	// most bounds the processes held.
	most int
}

// end kills all of g, including processes that they start meanwhile. It returns those that it
// holds, and how many more it killed. A killed process starts no other one: once no process is
// unheld, there will be none. The error says that some may be left.
func (g group) end(ctx context.Context) (held processes, more int, err error) {
	held = processes{}
	// To hold them takes long on a node that thrashes. Those that have ended by then count as killed.
	if first, _ := g.list(); g.kill() == nil {
		defer func() { more = max(more, len(first)-len(held)) }()
	}
	left := 0
	for round := range mostRounds {
		fresh, beyond, err := g.hold(held)
		if round > 0 && (errors.Is(err, nodefs.ErrGone) || err == nil && len(fresh)+len(beyond) == 0) {
			return held, more, nil
		}
		lived := len(beyond)
		if g.kill() == nil { // also of cgroups below that are too many to be listed
			beyond, err = nil, nil
		} else { // the file is missing, or not for this cgroup
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

// killBeyond kills processes beyond the limit of those held, and returns how many were alive.
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

// hold holds the members of g that are not among others, and returns those beyond the limit.
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

// open opens a pidfd for each process of g. A process may end at any time, and a process outside g
// may get its id. A pidfd pins the process: if the id is in g after opening it, the held process is
// in g or dead.
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
