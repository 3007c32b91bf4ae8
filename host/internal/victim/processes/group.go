package processes

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// mostHeld is how many processes of one container are held, a descriptor for each. What
	// is beyond them ends with the container's first process, or by the runtime.
	mostHeld = 4096
	// mostRounds is how often those are looked for that were begun meanwhile.
	mostRounds = 20
)

// A group is the processes of one cgroup.
type group struct {
	// list returns the ids of those that are in it now.
	list func() ([]int, error)
	// kill kills all that are in it, if the kernel does that (cgroup version 2).
	kill func() error
}

// end kills all of g, and those that they begin meanwhile, and returns them. A process that
// was killed begins no other one: when there is none that is not held, there will be none.
func (g group) end(ctx context.Context) (held processes, err error) {
	held = processes{}
	for round := range mostRounds {
		fresh, err := g.hold(held)
		if round > 0 && (errors.Is(err, nodefs.ErrGone) || err == nil && len(fresh) == 0) {
			return held, nil
		}
		if g.kill() != nil { // not there, or not for this cgroup
			err = errors.Join(err, fresh.kill())
		}
		held.add(fresh)
		if err != nil || ctx.Err() != nil {
			return held, err
		}
	}
	return held, nil
}

// hold returns those that are in g and not among others. A process may end at any time, and
// another one that is none of g may get its id. Once it is held by a descriptor
// that cannot change any more: if the id is still one of g then, so is what is held, or it is dead.
func (g group) hold(others processes) (processes, error) {
	listed, err := g.list()
	if err != nil {
		return nil, err
	}
	fresh := processes{}
	for _, pid := range listed {
		if _, known := others[pid]; known && !others.ended(pid) {
			continue
		}
		if _, twice := fresh[pid]; twice || len(others)+len(fresh) >= mostHeld {
			continue
		}
		fd, err := unix.PidfdOpen(pid, 0)
		switch {
		case errors.Is(err, unix.ESRCH):
			continue // it has ended
		case err != nil:
			fresh.close()
			return nil, fmt.Errorf("hold process %d: %w", pid, err)
		}
		fresh[pid] = fd
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	still, err := g.list()
	if err != nil {
		fresh.close()
		return nil, err
	}
	fresh.keep(still)
	return fresh, nil
}
