package summary_test

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/sdk/summary/summarytest"
	"github.com/evictd/evictd/shared/eviction"
)

func serve(t *testing.T, running uint64) eviction.NodeFacts {
	t.Helper()
	return eviction.NodeFacts{SummarySocket: summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer {
		return summarytest.Answer{Summary: pidNode(running)}
	})}
}

// runningOf asks for the first pass and returns how many processes run in it.
func runningOf(t *testing.T, s *summary.Switch) int64 {
	t.Helper()
	reply, err := s.Observe(t.Context(), eviction.ObserveRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Signals: []eviction.Signal{eviction.PIDAvailable}})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Observations[0].Components[0].Value
}

func TestSwitchTurnsFromSourceToSource(t *testing.T) {
	var s summary.Switch
	for _, running := range []uint64{3, 4} {
		if err := s.Configure(serve(t, running)); err != nil {
			t.Fatal(err)
		}
		if got := runningOf(t, &s); got != int64(running) {
			t.Errorf("%d processes, want the %d of the new source", got, running)
		}
	}
	if err := s.Configure(eviction.NodeFacts{}); err == nil || !strings.Contains(err.Error(), "needs source: summary") {
		t.Errorf("error is %v, want what it needs", err)
	}
	if got := runningOf(t, &s); got != 4 {
		t.Errorf("%d processes after a refusal, want the 4 of the former source", got)
	}
	measured := 0
	err := s.Measure(t.Context(), eviction.MeasureRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Pods: []eviction.Pod{{UID: "u"}}}, func(m eviction.Measurement) {
		measured++
		if m.Processes != eviction.Some(7) {
			t.Errorf("measurement %+v, want 7 processes", m)
		}
	})
	if err != nil || measured != 1 {
		t.Errorf("%d measurements, %v, want one", measured, err)
	}
}

// A host that was started anew on the same socket begins with pass 1 again.
func TestSwitchForgetsAHostThatBeganAnew(t *testing.T) {
	running := uint64(3)
	facts := eviction.NodeFacts{SummarySocket: summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer {
		return summarytest.Answer{Summary: pidNode(running)}
	})}
	var s summary.Switch
	for ; running < 5; running++ {
		if err := s.Configure(facts); err != nil {
			t.Fatal(err)
		}
		if got := runningOf(t, &s); got != int64(running) {
			t.Errorf("%d processes, want the %d of now", got, running)
		}
	}
}

func TestSwitchBeforeConfigure(t *testing.T) {
	var s summary.Switch
	_, observed := s.Observe(t.Context(), eviction.ObserveRequest{})
	measured := s.Measure(t.Context(), eviction.MeasureRequest{}, nil)
	for _, err := range []error{observed, measured} {
		if err == nil || !strings.Contains(err.Error(), "not configured") {
			t.Errorf("error is %v, want not configured", err)
		}
	}
}
