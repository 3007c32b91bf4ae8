package summary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

// ErrNoSummary means that the host has no summary for a pass and view.
var ErrNoSummary = errors.New("no summary")

// keptPasses is the number of passes whose summaries are kept: limits may still be measured for
// one pass when the next one has begun to observe.
const keptPasses = 2

// Source reads summaries from the host's socket. For each pass and view it asks the host once,
// for all callers, and keeps the answer until later passes begin. Set Socket before the first
// call; a Source must not be copied after it. It is safe for concurrent use.
//
// It implements eviction.Observer and eviction.Measurer for the built-in signals.
type Source struct {
	// Socket is the path of the host's socket, from NodeFacts.SummarySocket.
	Socket string

	connect sync.Once
	client  *client

	mu    sync.Mutex
	asked map[eviction.PassView]*answer
}

var (
	_ eviction.Observer = (*Source)(nil)
	_ eviction.Measurer = (*Source)(nil)
)

// answer is the result of a request to the host. It is complete when done is closed.
type answer struct {
	done chan struct{}
	answered
}

type answered struct {
	summary *Summary
	layout  summaryapi.Layout
	// err says why there is no summary; layout may be known nevertheless.
	err error
	// failed says why the host did not answer. Such an answer is not kept.
	failed error
}

// Get returns the summary of a pass and view. The error wraps ErrNoSummary if the host has none.
func (s *Source) Get(ctx context.Context, at eviction.PassView) (*Summary, error) {
	a, err := s.answer(ctx, at)
	if err != nil {
		return nil, err
	}
	return a.summary, a.err
}

// Layout returns the layout of the node's filesystems as the host knows it in a pass and view,
// even if there is no summary.
func (s *Source) Layout(ctx context.Context, at eviction.PassView) (summaryapi.Layout, error) {
	a, err := s.answer(ctx, at)
	if err != nil {
		return summaryapi.Layout{}, err
	}
	return a.layout, nil
}

// Observe implements eviction.Observer for the built-in signals. It does not report the layout,
// which only the disk plugin should.
func (s *Source) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	sum, err := s.Get(ctx, req.PassView)
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	reply := eviction.ObserveReply{Observations: make([]eviction.Observation, len(req.Signals))}
	for i, signal := range req.Signals {
		reply.Observations[i] = sum.Observe(signal)
	}
	return reply, nil
}

// Measure implements eviction.Measurer. For signals of filesystems it needs the layout, and
// fails while that is not known.
func (s *Source) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	a, err := s.answer(ctx, req.PassView)
	if err != nil {
		return err
	}
	if a.err != nil {
		return a.err
	}
	if a.layout.InForce == 0 {
		for _, signal := range req.Signals {
			if d, _ := eviction.Builtin(signal); d.Condition == eviction.DiskPressure {
				return fmt.Errorf("measure %s: the layout of the node's filesystems is not known", signal)
			}
		}
	}
	a.summary.Measure(req, a.layout.InForce, emit)
	return nil
}

// Close closes idle connections. The Source remains usable.
func (s *Source) Close() { s.connected().CloseIdleConnections() }

func (s *Source) connected() *client {
	s.connect.Do(func() { s.client = newClient(s.Socket) })
	return s.client
}

// answer returns the answer for at. The first caller fetches it for all; if it gets none, perhaps
// because its context ended, the next caller tries.
func (s *Source) answer(ctx context.Context, at eviction.PassView) (*answer, error) {
	for {
		a, mine := s.claim(at)
		if mine {
			a.answered = s.connected().fetch(ctx, at)
			s.settle(at, a)
			return a, a.failed
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if a.failed == nil {
			return a, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
}

// claim returns the answer for at, and whether the caller must fetch it.
func (s *Source) claim(at eviction.PassView) (a *answer, mine bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a = s.asked[at]; a != nil {
		return a, false
	}
	if s.asked == nil {
		s.asked = make(map[eviction.PassView]*answer)
	}
	a = &answer{done: make(chan struct{})}
	s.asked[at] = a
	s.forget()
	return a, true
}

// settle completes an answer for all callers that wait for it.
func (s *Source) settle(at eviction.PassView, a *answer) {
	s.mu.Lock()
	if a.failed != nil && s.asked[at] == a {
		delete(s.asked, at)
	}
	s.mu.Unlock()
	close(a.done)
}

// forget drops the answers of all but the latest passes. Callers that wait for one still get it.
func (s *Source) forget() {
	passes := make([]uint64, 0, len(s.asked))
	for at := range s.asked {
		passes = append(passes, at.Pass)
	}
	slices.Sort(passes)
	passes = slices.Compact(passes)
	if len(passes) <= keptPasses {
		return
	}
	oldest := passes[len(passes)-keptPasses]
	maps.DeleteFunc(s.asked, func(at eviction.PassView, _ *answer) bool { return at.Pass < oldest })
}
