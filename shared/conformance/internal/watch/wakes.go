package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/machine"
	"github.com/evictd/evictd/shared/conformance/internal/observe"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// wakeTime limits the delay of a wake. A later one is useless: under pressure the host looks
	// at least that often itself.
	wakeTime = 3 * time.Second
	// wakeAttempts limits the attempts to cross a threshold while other processes undo it.
	wakeAttempts = 8
	// RoomBytes must be available for a check to take memory from the machine.
	RoomBytes = 2 << 30
)

// errUndone means that an attempt proves nothing: the memory taken did not cross the threshold.
var errUndone = check.NotApplicable("others took memory, or gave it back, at the same time")

// watchWakes crosses a threshold of memory.available, again if other processes undo it.
func watchWakes(ctx context.Context, t *check.Target) error {
	err := error(errUndone)
	for range wakeAttempts {
		if err = crossedOnce(ctx, t); !errors.Is(err, errUndone) {
			break
		}
	}
	return err
}

func crossedOnce(ctx context.Context, t *check.Target) error {
	if why := machine.Elsewhere(t); why != "" {
		return check.NotApplicable(why)
	}
	if !slices.Contains(t.Offering(eviction.CanWatch), eviction.MemoryAvailable) {
		return check.NotApplicable("it does not watch memory.available")
	}
	before, err := memoryAvailable(ctx, t)
	if err != nil {
		return err
	}
	if before < RoomBytes {
		return check.NotApplicable("the machine has too little memory left to take some")
	}
	at := before - machine.BallastBytes
	woken := make(chan struct{}, 1)
	request := Request([]eviction.Signal{eviction.MemoryAvailable}, eviction.Threshold{Amount: at})
	ended, stop := Open(ctx, t, request, func(eviction.Wake) {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	defer stop()
	if err := passed(ctx, t); err != nil {
		return err
	}
	select {
	case <-woken: // woken at once, before the threshold was crossed
	default:
	}
	// If other processes have crossed the threshold meanwhile, it cannot be crossed any more.
	now, err := memoryAvailable(ctx, t)
	if err != nil {
		return err
	}
	if now < at {
		return errUndone
	}
	release, err := machine.TakeBallast(3*machine.BallastBytes, 0)
	if err != nil {
		return check.NotApplicable(err.Error())
	}
	defer release()
	late := time.NewTimer(t.Patient(wakeTime))
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
	return check.Slow(fmt.Sprintf("no wake within %s: memory.available went from %d to %d, the threshold is %d", wakeTime, before, after, at))
}

// memoryAvailable returns memory.available in bytes as the plugin observes it, or as read from
// this machine if the plugin does not observe.
func memoryAvailable(ctx context.Context, t *check.Target) (int64, error) {
	m, err := nodefs.FS{Root: "/"}.ReadNodeMemory(nodefs.MemoryRules{MemAvailable: true})
	if err != nil {
		return 0, check.NotApplicable("memory cannot be read here: " + err.Error())
	}
	if t.Plugin.Observer == nil {
		return m.AvailableBytes, nil
	}
	reply, err := observe.Call(ctx, t, eviction.ViewBefore, eviction.MemoryAvailable)
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
