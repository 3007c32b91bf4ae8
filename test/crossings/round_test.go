package crossings_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/test/evictd"
	"github.com/evictd/evictd/test/stack/crossing"
)

// errDisturbed: by the sampler's word, not evictd's, somebody else on this
// machine took the memory, so that evictd was right to act at another time.
var errDisturbed = errors.New("something else on this machine took memory")

type result struct{ latency, gap, gone float64 } // milliseconds

// round lets one new hog cross the threshold and waits until nothing of it is left.
func (f *field) round(t *testing.T, name string, rateMiB int) (result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	room, err := f.waitRoom(ctx)
	if err != nil {
		return result{}, err
	}
	pod, station := f.run(t, name, int(room/mib)+beyondMiB, rateMiB, nil)
	if err := f.checkVictims("before the hog started", ""); err != nil {
		return result{}, err
	}
	if err := errors.Join(f.watch.Arm(f.threshold), station.Release(ctx)); err != nil {
		return result{}, err
	}
	crossed, err := f.waitCrossing(ctx)
	if err != nil {
		return result{}, err
	}
	if at, err := station.Stamps(); err != nil || at["go"] == 0 || crossed.At < at["go"] {
		return result{}, errors.Join(errDisturbed, err)
	}
	term, err := station.WaitStamp(ctx, "term")
	if err != nil {
		return result{}, err
	}
	if late := time.Duration(term - crossed.At); late > missedAfter {
		return result{}, fmt.Errorf("SIGTERM %v after the crossing: the notification was missed", late)
	}
	if err := pod.WaitGone(ctx); err != nil {
		return result{}, err
	}
	gone := crossing.Now()
	// From here to the next hog's start nothing of ours is under the threshold.
	if err := f.watch.Arm(f.threshold); err != nil {
		return result{}, err
	}
	finished := func(r evictd.Record) bool { return r.Msg == "pod finished" && r.String("pod") == pod.Key() }
	if _, err := f.agent.Await(ctx, finished); err != nil {
		return result{}, fmt.Errorf("evictd did not report %s as finished: %w", pod.Key(), err)
	}
	f.victims++
	if err := f.checkVictims("after the hog was gone", pod.Key()); err != nil {
		return result{}, err
	}
	return result{latency: ms(term - crossed.At), gap: ms(int64(crossed.Gap)), gone: ms(gone - crossed.At)}, pod.Remove(ctx)
}

// checkVictims compares evictd's decisions with the rounds played: one each,
// the last on the pod named.
func (f *field) checkVictims(when, last string) error {
	decisions := f.agent.Records("evicting pod")
	if len(decisions) == f.victims && (last == "" || decisions[len(decisions)-1].String("pod") == last) {
		return nil
	}
	for f.take() {
		continue
	}
	if f.short {
		return errDisturbed
	}
	return fmt.Errorf("%s evictd had decided %d evictions, the last on %s; want %d", when, len(decisions), decisions[len(decisions)-1].String("pod"), f.victims)
}

// take takes a sample that is there, and reports whether there was one.
func (f *field) take() bool {
	select {
	case sample, ok := <-f.watch.Samples():
		f.short = f.short || sample.Crossed
		return ok
	default:
		return false
	}
}

// waitRoom waits until most of the distance is there again and returns it in bytes.
func (f *field) waitRoom(ctx context.Context) (int64, error) {
	for {
		select {
		case <-ctx.Done():
			return 0, errDisturbed
		case sample, ok := <-f.watch.Samples():
			if !ok {
				return 0, errors.New("the sampler died")
			}
			f.short = f.short || sample.Crossed
			if room := sample.AvailableBytes - f.threshold; room > distanceMiB*mib*3/4 && crossing.Now()-sample.At < int64(200*time.Millisecond) {
				return room, nil
			}
		}
	}
}

func (f *field) waitCrossing(ctx context.Context) (crossing.Sample, error) {
	for {
		select {
		case <-ctx.Done():
			return crossing.Sample{}, errors.New("memory.available never fell below the threshold")
		case sample, ok := <-f.watch.Samples():
			if !ok {
				return crossing.Sample{}, errors.New("the sampler died")
			}
			if sample.Crossed {
				return sample, nil
			}
		}
	}
}
