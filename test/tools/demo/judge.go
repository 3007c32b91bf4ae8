package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/stack/crossing"
)

// judge checks that no second victim follows for a while, and compares the pods and evictd's log
// with the expectation.
func (s *story) judge(ctx context.Context, victim string, latencyMS float64) (string, error) {
	known, cancel := context.WithTimeout(ctx, goneDeadline)
	defer cancel()
	finished := func(r evictd.Record) bool { return r.Msg == "pod finished" && r.String("pod") == s.pods[victim].Key() }
	if _, err := s.agent.Await(known, finished); err != nil {
		return "", fmt.Errorf("evictd did not report %s as finished: %w", s.pods[victim].Key(), err)
	}
	if err := s.stayQuiet(ctx); err != nil {
		return "", err
	}
	kept, err := s.countKept(ctx, victim)
	if err != nil {
		return "", err
	}
	decisions := s.agent.Records("evicting pod")
	if len(decisions) != 1 {
		return "", fmt.Errorf("evictd decided %d evictions, want 1", len(decisions))
	}
	decided := decisions[0]
	if err := s.judgeVictim(victim, decided); err != nil {
		return "", err
	}
	raised := false
	for _, r := range s.agent.Records("condition changed") {
		raised = raised || r.String("condition") == "MemoryPressure" && r.String("status") == "true"
	}
	if !raised {
		return "", errors.New("evictd never raised the condition MemoryPressure")
	}
	status, err := s.agent.Status(ctx)
	if err != nil {
		return "", err
	}
	s.show.line("status", "conditions reported by evictd: %v", status["conditions"])
	without := ""
	switch {
	case s.custom != "" && victim == hogName:
		without = ", as without the plugin"
	case s.custom != "":
		without = " instead of " + s.pods[hogName].Key()
	}
	verdict := fmt.Sprintf("evicted %s%s (%s), crossed -> SIGTERM %.1f ms, %d pods kept", s.pods[victim].Key(), without, decided.String("signal"), latencyMS, kept)
	if s.custom != "" {
		verdict += ", ranked by " + decided.String("ranker")
	}
	return verdict, nil
}

// judgeVictim checks that the right pod was evicted, and that the expected plugin ranked it.
func (s *story) judgeVictim(victim string, decided evictd.Record) error {
	went := s.pods[victim].Key()
	want := went
	if name, ok := s.expected(); ok {
		want = s.pods[name].Key()
	}
	if went != want || decided.String("pod") != want {
		return fmt.Errorf("evictd decided on %s and %s went, want %s", decided.String("pod"), went, want)
	}
	if ranker := decided.String("ranker"); s.custom != "" && ranker != filepath.Base(s.custom) {
		return fmt.Errorf("ranked by %q, want %q; its log above says why it did not", ranker, filepath.Base(s.custom))
	}
	return nil
}

// stayQuiet waits for quiet and shows the signal every half second.
func (s *story) stayQuiet(ctx context.Context) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for shown := crossing.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case sample, ok := <-s.watch.Samples():
			if !ok {
				return errors.New("the sampler died")
			}
			if sample.At-shown >= int64(500*time.Millisecond) {
				shown = sample.At
				s.show.signalLine(sample, s.threshold)
			}
		}
	}
}

// countKept checks that every other pod is running and never got a SIGTERM.
func (s *story) countKept(ctx context.Context, victim string) (int, error) {
	var errs []error
	for _, name := range s.names {
		if name == victim {
			continue
		}
		running, err := s.pods[name].Running(ctx)
		at, stampErr := s.stations[name].Stamps()
		switch {
		case err != nil || stampErr != nil:
			errs = append(errs, err, stampErr)
		case at["term"] != 0:
			errs = append(errs, fmt.Errorf("%s got SIGTERM as well", s.pods[name].Key()))
		case !running:
			errs = append(errs, fmt.Errorf("%s does not run any more", s.pods[name].Key()))
		}
	}
	return len(s.names) - 1, errors.Join(errs...)
}
