package summary

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/evictd/evictd/shared/eviction"
)

var (
	errNeeded        = errors.New("needs source: summary; the plugin has no source of its own")
	errNotConfigured = errors.New("not configured yet: Configure comes first")
)

// A Switch is the Source of a plugin that has no other, taken over from one
// configuration to the next. Each call stays with the source that it began with.
// The zero Switch is ready for Configure, and must not be copied after it.
//
// Like Source it is an eviction.Observer and an eviction.Measurer.
type Switch struct {
	current atomic.Pointer[Source]
}

var (
	_ eviction.Observer = (*Switch)(nil)
	_ eviction.Measurer = (*Switch)(nil)
)

// Configure turns to the socket in facts. Without one it is an error, and the
// former source stays.
func (s *Switch) Configure(facts eviction.NodeFacts) error {
	if facts.SummarySocket == "" {
		return errNeeded
	}
	// Always a new one: a host that serves on the same socket may count its passes
	// from the beginning.
	if old := s.current.Swap(&Source{Socket: facts.SummarySocket}); old != nil {
		old.Close()
	}
	return nil
}

// Source returns the source in force.
func (s *Switch) Source() (*Source, error) {
	if source := s.current.Load(); source != nil {
		return source, nil
	}
	return nil, errNotConfigured
}

// Observe implements eviction.Observer.
func (s *Switch) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	source, err := s.Source()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	return source.Observe(ctx, req)
}

// Measure implements eviction.Measurer.
func (s *Switch) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	source, err := s.Source()
	if err != nil {
		return err
	}
	return source.Measure(ctx, req, emit)
}
