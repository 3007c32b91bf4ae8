package crossings_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// errDisturbed: by the sampler's word, not evictd's, somebody else on this
// machine took the memory or gave it back, so that evictd was right to act at
// another time.
var errDisturbed = errors.New("something else on this machine took or gave memory")

type result struct{ latency, gap, gone float64 } // milliseconds

// round lets one new hog cross the threshold and waits until nothing of it is left.
// beside begins what is to happen around the crossing, and returns its end.
func (f *field) round(t *testing.T, name string, rateMiB int, beside func() (end func())) (result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	room, err := f.waitRoom(ctx)
	if err != nil {
		return result{}, err
	}
	pod, station := f.run(t, name, int(room/mib)+f.beyondMiB, rateMiB, nil)
	if err := f.checkVictims("before the hog started", ""); err != nil {
		return result{}, err
	}
	end := beside()
	r, err := f.cross(ctx, pod, station)
	end()
	if err != nil {
		return result{}, err
	}
	return r, f.conclude(ctx, pod)
}

// cross starts the hog and waits until it is gone.
func (f *field) cross(ctx context.Context, pod *stack.Pod, station hog.Station) (result, error) {
	if err := errors.Join(f.watch.Arm(f.threshold), station.Release(ctx)); err != nil {
		return result{}, err
	}
	crossed, err := f.waitCrossing(ctx)
	if err != nil {
		return result{}, err
	}
	if at, err := station.Stamps(); err != nil || at["go"] == 0 || crossed.At < at["go"] {
		return result{}, errors.Join(fmt.Errorf("%w: %d MiB were available before the hog started", errDisturbed, crossed.AvailableBytes/mib), err)
	}
	term, err := station.WaitStamp(ctx, "term")
	if err != nil {
		return result{}, err
	}
	if err := f.checkLate(crossed.At, term); err != nil {
		return result{}, err
	}
	if err := pod.WaitGone(ctx); err != nil {
		return result{}, err
	}
	gone := crossing.Now()
	return result{latency: ms(term - crossed.At), gap: ms(int64(crossed.Gap)), gone: ms(gone - crossed.At)}, nil
}

// conclude waits until evictd is through with the pod, its only victim of this round.
func (f *field) conclude(ctx context.Context, pod *stack.Pod) error {
	// From here to the next hog's start nothing of ours is under the threshold.
	if err := f.watch.Arm(f.threshold); err != nil {
		return err
	}
	finished := func(r evictd.Record) bool { return r.Msg == "pod finished" && r.String("pod") == pod.Key() }
	if _, err := f.agent.Await(ctx, finished); err != nil {
		return fmt.Errorf("evictd did not report %s as finished: %w", pod.Key(), err)
	}
	f.victims++
	if err := f.checkVictims("after the hog was gone", pod.Key()); err != nil {
		return err
	}
	return pod.Remove(ctx)
}

// checkLate judges a SIGTERM that came long after the crossing: a hog gives nothing
// back, so if there was enough between the two, others did.
func (f *field) checkLate(crossed, term int64) error {
	late := time.Duration(term - crossed)
	if late <= missedAfter {
		return nil
	}
	for _, sample := range f.taken() {
		if crossed < sample.At && sample.At < term && sample.AvailableBytes >= f.threshold {
			return fmt.Errorf("%w: %d MiB were available again before the SIGTERM", errDisturbed, sample.AvailableBytes/mib)
		}
	}
	return fmt.Errorf("SIGTERM %v after the crossing: the notification was missed", late)
}

// checkVictims compares evictd's decisions with the rounds played: one each,
// the last on the pod named.
func (f *field) checkVictims(when, last string) error {
	var decided []string
	for _, r := range f.agent.Records("evicting pod") {
		decided = append(decided, r.String("pod"))
	}
	if len(decided) == f.victims && (last == "" || decided[len(decided)-1] == last) {
		return nil
	}
	for _, sample := range f.taken() {
		f.note(sample)
	}
	if f.short.Crossed {
		return fmt.Errorf("%w: %d MiB were available with no hog there", errDisturbed, f.short.AvailableBytes/mib)
	}
	return fmt.Errorf("%s evictd had decided on %v, want %d evictions, the last on %q", when, decided, f.victims, last)
}

// note remembers a crossing with no hog there.
func (f *field) note(sample crossing.Sample) {
	if sample.Crossed {
		f.short = sample
	}
}

// taken takes the samples that are there.
func (f *field) taken() (out []crossing.Sample) {
	for {
		select {
		case sample, ok := <-f.watch.Samples():
			if !ok {
				return out
			}
			out = append(out, sample)
		default:
			return out
		}
	}
}

// waitRoom waits until most of the distance is there again and returns it in bytes.
func (f *field) waitRoom(ctx context.Context) (int64, error) {
	var room int64
	want := int64(f.distanceMiB) * mib * 3 / 4
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %d MiB are left to the threshold, want %d", errDisturbed, room/mib, want/mib)
		case sample, ok := <-f.watch.Samples():
			if !ok {
				return 0, errors.New("the sampler died")
			}
			f.note(sample)
			if room = sample.AvailableBytes - f.threshold; room > want && crossing.Now()-sample.At < int64(200*time.Millisecond) {
				return room, nil
			}
		}
	}
}

func (f *field) waitCrossing(ctx context.Context) (crossing.Sample, error) {
	for {
		select {
		case <-ctx.Done():
			return crossing.Sample{}, fmt.Errorf("%s never fell below the threshold", f.signal)
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
