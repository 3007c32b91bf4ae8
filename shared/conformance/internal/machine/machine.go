// Package machine checks figures against this machine.
package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/observe"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// BallastBytes and ballastThreads are the memory and the threads taken from the machine for
	// a moment to make its figures move.
	BallastBytes   = 64 << 20
	ballastThreads = 16
)

// Group compares the plugin's figures for the kubelet's signals with this machine.
var Group = check.Group{Name: "machine", RPC: "Observe", Needs: eviction.CanObserve, Unless: Elsewhere, Checks: []check.Check{
	{
		Name: "machine-figures", Input: "those of memory.available and pid.available that are offered for it",
		Expect: "figures where the machine has them, with a capacity that is the machine's within a tenth", Run: observe.Each(ofThisMachine),
	},
	{
		Name: "machine-follows", Input: fmt.Sprintf("memory.available and pid.available, while %d MiB and %d threads come and go", BallastBytes>>20, ballastThreads),
		Expect: "figures that change: less is available of what is taken, and never 0 in between", Run: observedFollows,
	},
}}

// capacities returns the machine's capacities by the kubelet's formulas, for memory and tasks:
// only the vendor knows which disk a signal is about. It omits what cannot be read, and what
// a cgroup limits closer than the machine does, since a plugin may ignore that limit.
func capacities(node eviction.NodeFacts) map[eviction.Signal]int64 {
	all := map[eviction.Signal]int64{}
	fs := nodefs.FS{Root: "/"}
	if m, err := fs.ReadNodeMemory(nodefs.MemoryRules{MemAvailable: true}); err == nil && m.LimitOf == "" {
		all[eviction.MemoryAvailable] = m.CapacityBytes
	}
	if naming, err := fs.Naming(node.CgroupRoot, node.CgroupDriver); err == nil {
		if p, err := fs.ReadPIDs(naming); err == nil && !p.PodsFirst() {
			all[eviction.PIDAvailable] = p.Max()
		}
	}
	return all
}

// Elsewhere returns the reason to skip if the plugin is configured for another node's tree.
func Elsewhere(t *check.Target) string {
	if t.Node.RootDir != "/" {
		return "it is told of a node that is not this machine"
	}
	return ""
}

func ofThisMachine(t *check.Target, o *eviction.Observation) error {
	want, known := capacities(t.Node)[o.Signal]
	switch {
	case !known:
	case o.State == eviction.Absent:
		return fmt.Errorf("%s: absent, the machine has %d", o.Signal, want)
	case o.State == eviction.Observed && max(o.Capacity-want, want-o.Capacity) > want/10:
		return fmt.Errorf("%s: capacity %d, the machine's is %d", o.Signal, o.Capacity, want)
	}
	return nil
}

// rounds is the number of times that ballast is taken. In a single round other processes on the machine may
// hide its effect or seem to reverse it.
const rounds = 3

func observedFollows(ctx context.Context, t *check.Target) error {
	seen := map[eviction.Signal][]eviction.Observation{}
	for range rounds {
		if err := lookAtMachine(ctx, t, seen); err != nil {
			return err
		}
		release, err := TakeBallast(BallastBytes, ballastThreads)
		if err != nil {
			return check.NotApplicable(err.Error())
		}
		err = lookAtMachine(ctx, t, seen)
		release()
		if err != nil {
			return err
		}
	}
	if len(seen) == 0 {
		return check.NotApplicable("it observes neither of them here")
	}
	var bad []error
	for _, looks := range seen {
		bad = append(bad, follows(looks))
	}
	return errors.Join(bad...)
}

// lookAtMachine adds one observation of each of the kernel's signals to seen.
func lookAtMachine(ctx context.Context, t *check.Target, seen map[eviction.Signal][]eviction.Observation) error {
	list, err := observe.All(ctx, t)
	machine := capacities(t.Node)
	for _, o := range list {
		if _, known := machine[o.Signal]; known && o.State == eviction.Observed {
			seen[o.Signal] = append(seen[o.Signal], o)
		}
	}
	return err
}

// follows judges the observations of a signal, which alternate: before and after taking ballast.
func follows(looks []eviction.Observation) error {
	byAvailable := func(a, b eviction.Observation) int { return cmp.Compare(a.Available, b.Available) }
	least, most := slices.MinFunc(looks, byAvailable), slices.MaxFunc(looks, byAvailable)
	switch {
	case least.Available == most.Available:
		return fmt.Errorf("%s: %d all the time: a figure that was kept", least.Signal, least.Available)
	case least.Available <= 0 && most.Available > most.Capacity/10:
		return fmt.Errorf("%s: %d and %d within moments", least.Signal, least.Available, most.Available)
	case backwards(looks):
		return fmt.Errorf("%s: more available whenever some was taken, from %d to %d: what is used is not what is available", least.Signal, looks[0].Available, looks[1].Available)
	}
	return nil
}

// backwards reports whether in every round about as much as was taken was added to the available
// amount. In a single round other processes may have released something.
func backwards(looks []eviction.Observation) bool {
	taken := map[eviction.Signal]int64{eviction.MemoryAvailable: BallastBytes, eviction.PIDAvailable: ballastThreads}[looks[0].Signal]
	for pair := range slices.Chunk(looks, 2) {
		if len(pair) < 2 || pair[1].Available-pair[0].Available < taken/2 {
			return false
		}
	}
	return len(looks) == 2*rounds
}

// TakeBallast takes memory and threads from the machine until release is called.
func TakeBallast(bytes, threads int) (release func(), err error) {
	memory, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("take memory: %w", err)
	}
	done := make(chan struct{})
	var ready, ended sync.WaitGroup
	for range threads {
		ready.Add(1)
		ended.Go(func() {
			runtime.LockOSThread() // and not unlocked: the thread ends with the goroutine
			ready.Done()
			<-done
		})
	}
	ready.Wait()
	return func() {
		close(done)
		ended.Wait()
		_ = unix.Munmap(memory)
	}, nil
}
