package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// waitCrossing shows the signal until the sampler sees it below the threshold.
func (s *story) waitCrossing(ctx context.Context) (crossing.Sample, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, crossDeadline, errors.New("memory.available never fell below the threshold"))
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return crossing.Sample{}, context.Cause(ctx)
		case sample, ok := <-s.watch.Samples():
			switch {
			case !ok:
				return crossing.Sample{}, errors.New("the sampler died")
			case !sample.Crossed:
				s.show.signalLine(sample, s.threshold)
			default:
				s.show.lineAt(sample.At, "signal", "memory.available %6d MiB: CROSSED (%.1f ms after the sample before)", sample.AvailableBytes/mib, ms(int64(sample.Gap)))
				at, err := s.stations[hogName].Stamps()
				if err == nil && (at["go"] == 0 || sample.At < at["go"]) {
					err = fmt.Errorf("something else on this machine took %d MiB before the hog did: try again on a quieter machine", distanceMiB)
				}
				return sample, err
			}
		}
	}
}

// waitVictim waits for the first SIGTERM in any pod.
func (s *story) waitVictim(ctx context.Context) (name string, term int64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, goneDeadline, fmt.Errorf("no pod got SIGTERM within %v after the crossing", goneDeadline))
	defer cancel()
	for {
		s.drain()
		for _, name := range s.names {
			at, err := s.stations[name].Stamps()
			if err != nil || at["term"] != 0 {
				return name, at["term"], err
			}
		}
		if sleep(ctx, 2*time.Millisecond) != nil {
			return "", 0, context.Cause(ctx)
		}
	}
}

// waitGone waits until the victim's container is gone and evictd knows it.
func (s *story) waitGone(ctx context.Context, victim string) error {
	ctx, cancel := context.WithTimeout(ctx, goneDeadline)
	defer cancel()
	if err := s.pods[victim].WaitGone(ctx); err != nil {
		return err
	}
	s.show.line("pod", "%s: no process left", s.pods[victim].Key())
	return nil
}

// drain takes the samples that nobody waits for, so that the sampler never blocks.
func (s *story) drain() {
	for {
		select {
		case _, ok := <-s.watch.Samples():
			if !ok {
				return
			}
		default:
			return
		}
	}
}
