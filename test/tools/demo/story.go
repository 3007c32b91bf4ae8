package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/hog"
	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/harness/stack/agent"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

const (
	crossDeadline = 30 * time.Second
	goneDeadline  = 20 * time.Second
	// measured is the time for which the available memory is sampled to choose the threshold;
	// unmetBytes is the threshold until then.
	measured   = 2 * time.Second
	unmetBytes = "1"
	// quiet is the time after the victim's end in which no other pod may be evicted.
	quiet = 2 * time.Second
)

// A story is one run of the demo on a stack.
type story struct {
	options
	stack *stack.Stack
	show  *screen

	pods      map[string]*stack.Pod
	stations  map[string]hog.Station
	names     []string // of the pods, in the order of their start
	agent     *evictd.Process
	watch     *crossing.Watch
	threshold int64
}

// play runs the story and returns the demo's last line.
func (s *story) play(ctx context.Context) (string, error) {
	program, err := hog.Install(ctx, s.stack)
	if err != nil {
		return "", err
	}
	s.show.line("stage", "touching %d MiB once, so that the machine's memory is really there", hogMiB+64)
	if err := hog.WarmUp(ctx, s.stack, program, hogMiB+64); err != nil {
		return "", err
	}
	if err := s.startPods(ctx); err != nil {
		return "", err
	}
	if s.watch, err = crossing.Start(ctx, s.stack, crossing.Node); err != nil {
		return "", err
	}
	verdict, err := s.evict(ctx)
	if err != nil && ctx.Err() == nil && s.agent != nil {
		s.show.line("evictd", "the end of its log:\n%s", s.agent.LogTail())
	}
	return verdict, errors.Join(err, s.finish(ctx))
}

// startEvictd starts evictd with a threshold that is never met.
func (s *story) startEvictd(ctx context.Context) error {
	plugins, err := s.pluginConfig()
	if err != nil {
		return err
	}
	s.show.line("stage", "starting evictd")
	s.agent, err = agent.Start(ctx, s.stack, agent.Options{
		Binary:  s.evictd,
		Plugins: s.pluginFiles(),
		Config: map[string]any{
			"evictionHard":       map[string]string{"memory.available": unmetBytes},
			"monitoringInterval": "10s",
			"plugins":            plugins,
		},
		OnRecord: func(r evictd.Record) { s.show.record(r, s.verbose) },
	})
	return err
}

// stay leaves evictd and the pods running for the user until the context ends.
func (s *story) stay(ctx context.Context) error {
	configs, err := filepath.Glob(filepath.Join(s.stack.Dir, "evictd-*", "evictd.yaml"))
	if err != nil || len(configs) != 1 {
		return fmt.Errorf("find evictd's configuration: %q, %w", configs, err)
	}
	s.show.line("keep", "configuration  %s (kill -HUP %d has it read again)", configs[0], s.agent.PID())
	s.show.line("keep", "plugins        %s", filepath.Join(filepath.Dir(configs[0]), "plugins"))
	s.show.line("keep", "status         evictctl observe --config %s", configs[0])
	s.show.line("keep", "containerd     %s", s.stack.Socket)
	s.show.line("keep", "Ctrl-C ends and removes all of it")
	<-ctx.Done()
	return ctx.Err()
}

// setThreshold sets the threshold below the lowest memory.available of the next measured, while
// evictd, its plugins and the other pods run.
func (s *story) setThreshold(ctx context.Context) error {
	for _, name := range s.names {
		if name == hogName {
			continue
		}
		if _, err := s.stations[name].WaitStamp(ctx, "full"); err != nil {
			return err
		}
	}
	available, err := s.watch.Lowest(ctx, measured)
	if err != nil {
		return fmt.Errorf("read memory.available: %w", err)
	}
	s.threshold = (available/mib - distanceMiB) * mib
	text := fmt.Sprintf("%dMi", s.threshold/mib)
	s.show.line("stage", "setting memory.available<%s; %s are available", text, amount(available))
	if err := agent.Reload(s.stack, s.agent, map[string]any{"evictionHard": map[string]string{"memory.available": text}}); err != nil {
		return err
	}
	_, err = s.agent.Await(ctx, func(r evictd.Record) bool { return r.Msg == "new configuration in force" })
	return err
}

// evict runs the part from the start of evictd to the verdict.
func (s *story) evict(ctx context.Context) (string, error) {
	if err := s.startEvictd(ctx); err != nil {
		return "", err
	}
	if s.keep {
		return "", s.stay(ctx)
	}
	if err := s.setThreshold(ctx); err != nil {
		return "", err
	}
	s.drain() // samples from before
	if err := s.watch.Arm(s.threshold); err != nil {
		return "", err
	}
	s.show.line("stage", "the hog may start")
	if err := s.stations[hogName].Release(ctx); err != nil {
		return "", err
	}
	crossed, err := s.waitCrossing(ctx)
	if err != nil {
		return "", err
	}
	victim, term, err := s.waitVictim(ctx)
	if err != nil {
		return "", err
	}
	s.show.lineAt(term, "pod", "%s got SIGTERM %.1f ms after the crossing; it takes %d ms to leave", s.pods[victim].Key(), ms(term-crossed.At), termDelayMS)
	if victim != hogName {
		// The hog is not the victim, so the pressure must end in another way.
		s.show.line("stage", "the hog lets go, since %s was not the cause of the pressure", s.pods[victim].Key())
		if err := s.letGo(); err != nil {
			return "", err
		}
	}
	if err := s.waitGone(ctx, victim); err != nil {
		return "", err
	}
	return s.judge(ctx, victim, ms(term-crossed.At))
}

// waitCrossing shows the signal until the sampler reports the crossing.
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
				s.show.lineAt(sample.At, "signal", "memory.available %10s: CROSSED (%.1f ms after the sample before)", amount(sample.AvailableBytes), ms(int64(sample.Gap)))
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
		if stack.Pause(ctx, 2*time.Millisecond) != nil {
			return "", 0, context.Cause(ctx)
		}
	}
}

// waitGone waits until no process of the victim's container is left.
func (s *story) waitGone(ctx context.Context, victim string) error {
	ctx, cancel := context.WithTimeout(ctx, goneDeadline)
	defer cancel()
	if err := s.pods[victim].WaitGone(ctx); err != nil {
		return err
	}
	s.show.line("pod", "%s: no process left", s.pods[victim].Key())
	return nil
}

// drain discards samples that are not needed, so that the sampler never blocks.
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

// finish stops evictd, which must leave no processes, and the sampler.
func (s *story) finish(ctx context.Context) error {
	var errs []error
	if s.agent != nil {
		s.show.line("stage", "stopping evictd")
		errs = append(errs, s.agent.Stop())
	}
	if err := s.watch.Stop(); err != nil && ctx.Err() == nil {
		errs = append(errs, fmt.Errorf("sampler: %w", err))
	}
	if left := s.stack.Processes(); len(left) > 0 && ctx.Err() == nil {
		errs = append(errs, fmt.Errorf("evictd left the processes %v behind", left))
	}
	return errors.Join(errs...)
}

func ms(ns int64) float64 { return float64(ns) / 1e6 }
