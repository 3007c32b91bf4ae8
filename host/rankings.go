package host

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// rankingStands is the minimum time for which a ranking is cached.
	rankingStands = 2 * time.Second
	// rankingPause is the time for which a ranking is cached, per signal, in multiples of the time
	// it took to make: any peer may ask, and each ranking measures pods, which may have many files.
	rankingPause = 20
)

// rankings caches the latest rankings as JSON. They are made one at a time, and completed even if
// the client is gone.
type rankings struct {
	turn chan struct{} // of who makes one, and has the rest
	last map[eviction.Signal]ranking
	// unknown is when the loop was last asked for a signal without a threshold.
	unknown time.Time
}

type ranking struct {
	text  []byte
	err   error
	until time.Time
}

// of returns the current ranking of the pods for a signal, as encode returns it.
func (r *rankings) of(ctx context.Context, l *loop.Loop, s eviction.Signal, encode func(*decision.Decision) ([]byte, error)) ([]byte, error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.turn }()
	last, ok := r.last[s]
	if ok && time.Now().Before(last.until) {
		return last.text, last.err
	}
	// After a reload the loop may know more signals than its last snapshot shows.
	seen := l.Snapshot().Thresholds
	if !slices.ContainsFunc(seen, func(t decision.Threshold) bool { return t.Signal == s }) && time.Since(r.unknown) < rankingStands {
		return nil, loop.NoThreshold(s, seen)
	}
	began := time.Now()
	d, err := loop.Ranking(context.WithoutCancel(ctx), l, s)
	if errors.Is(err, loop.ErrNoThreshold) {
		r.unknown = time.Now()
		delete(r.last, s)
		return nil, err
	}
	last = ranking{err: err}
	if err == nil {
		last.text, last.err = encode(d)
	}
	last.until = time.Now().Add(max(rankingStands, rankingPause*time.Duration(len(r.last)+1)*time.Since(began)))
	r.last[s] = last
	return last.text, last.err
}
