package host

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// pagesPerSecond is how often /metrics and /status are each made at most.
	pagesPerSecond = 5
	// rankingStands is how long a ranking is told again at least.
	rankingStands = 2 * time.Second
	// rankingPause is how many times as long as it took to make it a ranking is told again, for each signal:
	// whoever can connect may ask, and pods are measured for it, whose files may be many.
	rankingPause = 20
)

// rankings are those that were asked for last, as JSON. One is made at a time, and to its end even if
// whoever asked is gone.
type rankings struct {
	turn chan struct{} // of who makes one, and has the rest
	last map[eviction.Signal]ranking
	// unknown is when the loop was asked last for a signal that has no threshold.
	unknown time.Time
}

type ranking struct {
	text  []byte
	err   error
	until time.Time
}

func newRankings() *rankings {
	return &rankings{turn: make(chan struct{}, 1), last: map[eviction.Signal]ranking{}}
}

// of is who would go for a signal now.
func (r *rankings) of(ctx context.Context, m *Manager, s eviction.Signal) ([]byte, error) {
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
	// After a reload the loop may know more signals than its last snapshot has.
	seen := m.loop.Snapshot().Thresholds
	if !slices.ContainsFunc(seen, func(t decision.Threshold) bool { return t.Signal == s }) && time.Since(r.unknown) < rankingStands {
		return nil, loop.NoThreshold(s, seen)
	}
	began := time.Now()
	d, err := loop.Ranking(context.WithoutCancel(ctx), m.loop, s)
	if errors.Is(err, loop.ErrNoThreshold) {
		r.unknown = time.Now()
		delete(r.last, s)
		return nil, err
	}
	last = ranking{err: err}
	if err == nil {
		d.Node, d.Evictd = m.config().NodeName, m.version
		last.text, last.err = document(d)
	}
	r.last[s] = ranking{} // which counts
	last.until = time.Now().Add(max(rankingStands, rankingPause*time.Duration(len(r.last))*time.Since(began)))
	r.last[s] = last
	return last.text, last.err
}

// A repeater answers pagesPerSecond times a second at most by next, and else as that did last. All
// requests are one to it, in no other form than plain text.
type repeater struct {
	next http.Handler
	pace *rate.Limiter

	mu   sync.Mutex
	last *answer
}

func repeated(next http.Handler) *repeater {
	return &repeater{next: next, pace: rate.NewLimiter(pagesPerSecond, pagesPerSecond)}
}

// ServeHTTP implements http.Handler.
func (p *repeater) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	last := p.answer(r)
	maps.Copy(w.Header(), last.header)
	w.WriteHeader(last.code)
	_, _ = w.Write(last.Bytes()) // else the client is gone
}

func (p *repeater) answer(r *http.Request) *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pace.Allow() || p.last == nil {
		one := r.Clone(context.WithoutCancel(r.Context()))
		one.Header, one.URL = http.Header{}, &url.URL{Path: r.URL.Path}
		made := &answer{header: http.Header{}, code: http.StatusOK}
		p.next.ServeHTTP(made, one)
		p.last = made
	}
	return p.last
}

// An answer is one that is kept.
type answer struct {
	bytes.Buffer

	header http.Header
	code   int
}

// Header and WriteHeader implement http.ResponseWriter.
func (a *answer) Header() http.Header  { return a.header }
func (a *answer) WriteHeader(code int) { a.code = code }
