package host

import (
	"context"
	"errors"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// rankingStands is how long a ranking is told again at least.
	rankingStands = 2 * time.Second
	// rankingPause is how many times as long as it took to make it a ranking is told again:
	// whoever can connect may ask, and pods are measured for it, whose files may be many.
	rankingPause = 20
)

// rankings are those that were asked for last. One is made at a time, and to its end even if
// whoever asked is gone.
type rankings struct {
	turn chan struct{} // of who makes one, and has last
	last map[eviction.Signal]ranking
}

type ranking struct {
	decision *decision.Decision
	err      error
	until    time.Time
}

func newRankings() *rankings {
	return &rankings{turn: make(chan struct{}, 1), last: map[eviction.Signal]ranking{}}
}

// of is who would go for a signal now, by l.
func (r *rankings) of(ctx context.Context, l *loop.Loop, s eviction.Signal) (decision.Decision, error) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return decision.Decision{}, ctx.Err()
	}
	defer func() { <-r.turn }()
	last, ok := r.last[s]
	if !ok || time.Now().After(last.until) {
		began := time.Now()
		d, err := loop.Ranking(context.WithoutCancel(ctx), l, s)
		if errors.Is(err, loop.ErrNoThreshold) {
			return decision.Decision{}, err
		}
		last = ranking{d, err, time.Now().Add(max(rankingStands, rankingPause*time.Since(began)))}
		r.last[s] = last
	}
	if last.err != nil {
		return decision.Decision{}, last.err
	}
	return *last.decision, nil
}
