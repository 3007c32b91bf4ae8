package crossings_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

const (
	// deadWithin is the time from the crossing to the end of the hog, besides its grace period.
	deadWithin = 2 * time.Second
	// aheadMiB: containerd is stopped so far above the threshold.
	aheadMiB = 50
)

// The moments of a round at which containerd is stopped.
const (
	beforeTheHog  = "before the hog"
	aheadOfIt     = "50 MiB ahead"
	atTheCrossing = "at the crossing"
	// neverListed: evictd sleeps until the hog's pod runs and containerd is stopped.
	neverListed = "never listed"
)

// A runtime that was stopped left the hog alive: its lists and its stops hang. Then containerd goes
// on, and the pod finishes.
func TestAStoppedRuntimeKeepsNoHog(t *testing.T) {
	n := rounds(t, 4)
	of := ofPods
	of.programs = os.Getenv("EVICTD_CONTAINERD")
	f := stopping{newField(t, of, nil)}
	moments := []string{beforeTheHog, atTheCrossing, neverListed, aheadOfIt}
	var alive []float64
	for i := range n {
		when, rate := moments[i%len(moments)], rateOf(i, n)
		r, err := f.round(t, fmt.Sprintf("hog-%d", i+1), rate, when)
		t.Logf("%3d  %4d MiB/s  containerd stopped %-15s  crossed -> chosen %6.1f ms  dead %6.1f ms (grace %d s, SIGTERM %t)  finished %6.1f ms after SIGCONT  not new: %s",
			i+1, rate, when, r.chosen, r.dead, r.grace, r.termed, r.finished, r.notNew)
		if err != nil {
			t.Fatalf("round %d: %v", i+1, err)
		}
		alive = append(alive, r.dead)
	}
	f.bystanderLives(t)
	slices.Sort(alive)
	t.Logf("%d of %d hogs died without containerd; crossed -> dead median %.1f ms, maximum %.1f ms", n, n, alive[n/2], alive[n-1])
}

// A stoppedResult has milliseconds since the crossing, and since SIGCONT.
type stoppedResult struct {
	chosen, dead, finished float64
	grace                  int64
	termed                 bool
	notNew                 string
}

// A stopping is a field whose containerd is stopped.
type stopping struct{ *field }

func (f stopping) stop(ctx context.Context) error {
	return f.stack.SignalContainerd(ctx, syscall.SIGSTOP)
}

func (f stopping) goOn(ctx context.Context) error {
	return f.stack.SignalContainerd(ctx, syscall.SIGCONT)
}

// round is a round in which containerd is stopped from some moment until the hog is dead
// and evictd has looked again.
func (f stopping) round(t *testing.T, name string, rateMiB int, when string) (r stoppedResult, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), roundDeadline)
	defer cancel()
	room, err := f.waitRoom(ctx)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.goOn(ctx)) }()
	slept := crossing.Now()
	if when == neverListed {
		must(t, f.agent.Signal(syscall.SIGSTOP))
		defer func() { _ = f.agent.Signal(syscall.SIGCONT) }() // if it has not been sent below
	}
	pod, station := f.run(t, name, int(room/mib)+f.beyondMiB, rateMiB, nil)
	crossed, err := f.cross(ctx, t, station, when)
	if err != nil {
		return r, err
	}
	goneErr := pod.WaitGone(ctx)
	r.dead = ms(crossing.Now() - crossed.At)
	chosen, err := f.agent.Await(ctx, func(l evictd.Record) bool { return l.Msg == "evicting pod" && l.String("pod") == pod.Key() })
	if err := errors.Join(goneErr, err); err != nil {
		return r, err
	}
	at, stampErr := station.Stamps()
	r.chosen, r.termed, r.notNew = ms(chosen.At-crossed.At), at["term"] != 0, chosen.String("notNew")
	if r.grace, err = strconv.ParseInt(chosen.String("graceSeconds"), 10, 64); err != nil || stampErr != nil {
		return r, errors.Join(err, stampErr)
	}
	if limit := time.Duration(r.grace)*time.Second + deadWithin; r.dead > ms(int64(limit)) {
		return r, fmt.Errorf("the hog was alive for %.1f ms, want at most %v", r.dead, limit)
	}
	if asked := chosen.At - oldest(chosen); when == neverListed && asked > slept {
		return r, fmt.Errorf("the lists are of %.1f ms after evictd slept, want older ones", ms(asked-slept))
	}
	time.Sleep(lookedAt) // no other pod goes
	went := crossing.Now()
	if err := errors.Join(f.goOn(ctx), f.conclude(ctx, pod)); err != nil {
		return r, err
	}
	finished := f.agent.Records("pod finished")
	r.finished = ms(finished[len(finished)-1].At - went)
	return r, nil
}

// cross stops containerd when it is to be stopped, and has the hog cross.
func (f stopping) cross(ctx context.Context, t *testing.T, station hog.Station, when string) (crossing.Sample, error) {
	t.Helper()
	if when == beforeTheHog || when == neverListed {
		must(t, f.stop(ctx))
	}
	if when == neverListed {
		must(t, f.agent.Signal(syscall.SIGCONT))
	}
	threshold := f.threshold
	if when == aheadOfIt {
		threshold += aheadMiB * mib
	}
	must(t, errors.Join(f.watch.Arm(threshold), station.Release(ctx)))
	crossed, err := f.waitCrossing(ctx)
	if err == nil && when == aheadOfIt {
		must(t, errors.Join(f.stop(ctx), f.watch.Arm(f.threshold)))
		return f.waitCrossing(ctx)
	}
	if err == nil && when == atTheCrossing {
		err = f.stop(ctx)
	}
	return crossed, err
}

// oldest returns the age of the oldest list that a choice was made with, in nanoseconds.
func oldest(chosen evictd.Record) (age int64) {
	lists, _ := chosen.Attrs["notNew"].([]any)
	for _, l := range lists {
		seconds, _ := l.(map[string]any)["ageSeconds"].(float64)
		age = max(age, int64(seconds*1e9))
	}
	return age
}
