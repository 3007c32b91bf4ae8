package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// ballastBytes and ballastThreads are what is taken of the machine for a moment, for
	// its figures to move.
	ballastBytes   = 64 << 20
	ballastThreads = 16
	// wakeTime bounds the delay of a wake: later than the host would look by itself under
	// pressure, it is of no use.
	wakeTime = 3 * time.Second
	// wakeAttempts to cross a threshold are made on a machine whose others undo it.
	wakeAttempts = 8
	// roomBytes must be available for memory to be taken from the machine.
	roomBytes = 2 << 30
)

// machineChecks compare what is said of the kubelet's signals with this machine.
var machineGroup = group{name: "machine", rpc: "Observe", needs: eviction.CanObserve, unless: elsewhere, checks: []check{
	{
		name: "machine-figures", input: "those of memory.available and pid.available that are offered for it",
		expect: "figures where the machine has them, with a capacity that is the machine's within a tenth", run: observedOfThisMachine,
	},
	{
		name: "machine-follows", input: fmt.Sprintf("memory.available and pid.available, while %d MiB and %d threads come and go", ballastBytes>>20, ballastThreads),
		expect: "figures that change", run: observedFollows,
	},
}}

// capacities are the machine's own, by the kubelet's formulas, of what the kernel
// tells: which disk a signal is about is the vendor's to say. What cannot be read is not
// there, nor are tasks where the limit of all pods, which a plugin may leave out, is closer.
func capacities(node eviction.NodeFacts) map[eviction.Signal]int64 {
	all := map[eviction.Signal]int64{}
	fs := nodefs.FS{Root: "/"}
	if m, err := fs.ReadNodeMemory(); err == nil && m.Limited {
		all[eviction.MemoryAvailable] = m.CapacityBytes
	}
	if naming, err := fs.Naming(node.CgroupRoot, node.CgroupDriver); err == nil {
		if p, err := fs.ReadPIDs(naming); err == nil && !p.PodsFirst() {
			all[eviction.PIDAvailable] = p.Max()
		}
	}
	return all
}

// elsewhere: the plugin is configured with another tree than this machine.
func elsewhere(t *target) error {
	if t.run.node.RootDir != "/" || t.run.node.SummarySocket != "" {
		return notApplicable("it is told of a node that is not this machine")
	}
	return nil
}

func observedOfThisMachine(ctx context.Context, t *target) error {
	list, err := t.observeAll(ctx)
	if err != nil {
		return err
	}
	machine := capacities(t.run.node)
	var bad []error
	for _, o := range list {
		want, known := machine[o.Signal]
		switch {
		case !known:
		case o.State == eviction.Absent:
			bad = append(bad, fmt.Errorf("%s: absent, the machine has %d", o.Signal, want))
		case o.State == eviction.Observed && max(o.Capacity-want, want-o.Capacity) > want/10:
			bad = append(bad, fmt.Errorf("%s: capacity %d, the machine's is %d", o.Signal, o.Capacity, want))
		}
	}
	return errors.Join(bad...)
}

func observedFollows(ctx context.Context, t *target) error {
	seen := map[eviction.Signal]map[int64]bool{}
	for range 3 {
		if err := lookAtMachine(ctx, t, seen); err != nil {
			return err
		}
		release, err := takeBallast(ballastBytes, ballastThreads)
		if err != nil {
			return notApplicable(err.Error())
		}
		err = lookAtMachine(ctx, t, seen)
		release()
		if err != nil {
			return err
		}
	}
	if len(seen) == 0 {
		return notApplicable("it observes neither of them here")
	}
	var bad []error
	for signal, figures := range seen {
		if len(figures) == 1 {
			bad = append(bad, fmt.Errorf("%s: %d all the time: a figure that was kept", signal, slices.Collect(maps.Keys(figures))[0]))
		}
	}
	return errors.Join(bad...)
}

// lookAtMachine adds to the figures that were seen of the kernel's signals.
func lookAtMachine(ctx context.Context, t *target, seen map[eviction.Signal]map[int64]bool) error {
	list, err := t.observeAll(ctx)
	machine := capacities(t.run.node)
	for _, o := range list {
		if _, known := machine[o.Signal]; o.State != eviction.Observed || !known {
			continue
		}
		if seen[o.Signal] == nil {
			seen[o.Signal] = map[int64]bool{}
		}
		seen[o.Signal][o.Available] = true
	}
	return err
}

// takeBallast takes memory and threads of the machine until release.
func takeBallast(bytes, threads int) (release func(), err error) {
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

// errUndone is an attempt that says nothing: the threshold was not crossed by what was taken.
var errUndone = notApplicable("others took memory, or gave it back, at the same time")

// watchWakes crosses a threshold of memory.available, again if others on the machine
// have undone it.
func watchWakes(ctx context.Context, t *target) error {
	err := error(errUndone)
	for range wakeAttempts {
		if err = crossedOnce(ctx, t); !errors.Is(err, errUndone) {
			break
		}
	}
	return err
}

func crossedOnce(ctx context.Context, t *target) error {
	if err := elsewhere(t); err != nil {
		return err
	}
	if !slices.Contains(t.offering(eviction.CanWatch), eviction.MemoryAvailable) {
		return notApplicable("it does not watch memory.available")
	}
	before, err := memoryAvailable(ctx, t)
	if err != nil {
		return err
	}
	if before < roomBytes {
		return notApplicable("the machine has too little memory left to take some")
	}
	at := before - ballastBytes
	woken := make(chan struct{}, 1)
	request := watchRequest([]eviction.Signal{eviction.MemoryAvailable}, eviction.Threshold{Amount: at})
	ended, stop := t.watching(ctx, request, func(eviction.Wake) {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	defer stop()
	if err := t.passed(ctx); err != nil {
		return err
	}
	select {
	case <-woken: // at once, which is no answer to what comes
	default:
	}
	// Where others have crossed it meanwhile there is nothing left to cross.
	now, err := memoryAvailable(ctx, t)
	if err != nil {
		return err
	}
	if now < at {
		return errUndone
	}
	release, err := takeBallast(3*ballastBytes, 0)
	if err != nil {
		return notApplicable(err.Error())
	}
	defer release()
	late := time.NewTimer(t.run.options.patient(wakeTime))
	defer late.Stop()
	select {
	case <-woken:
		return nil
	case err := <-ended:
		return fmt.Errorf("the stream ended with %v", err) //nolint:errorlint // it may be nil
	case <-late.C:
	}
	after, err := memoryAvailable(ctx, t)
	if err != nil {
		return err
	}
	if after >= at {
		return errUndone
	}
	return slow{fmt.Errorf("no wake within %s: memory.available went from %d to %d, the threshold is %d", wakeTime, before, after, at)}
}

// memoryAvailable returns memory.available in bytes as the plugin observes it, or as this
// machine has it if the plugin does not observe.
func memoryAvailable(ctx context.Context, t *target) (int64, error) {
	m, err := nodefs.FS{Root: "/"}.ReadNodeMemory()
	if err != nil {
		return 0, notApplicable("memory cannot be read here: " + err.Error())
	}
	if t.plugin.Observer == nil {
		return m.AvailableBytes, nil
	}
	reply, err := t.observe(ctx, eviction.ViewBefore, eviction.MemoryAvailable)
	if err != nil {
		return 0, err
	}
	for _, o := range reply.Observations {
		if o.Signal == eviction.MemoryAvailable && o.State == eviction.Observed {
			return o.Available, nil
		}
	}
	return 0, errors.New("memory.available is not observed")
}
