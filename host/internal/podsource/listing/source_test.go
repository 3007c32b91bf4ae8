package listing

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
)

// given is a source of these pods.
type given struct {
	snapshot pods.Snapshot
	err      error
}

func (g *given) Active(context.Context) (pods.Snapshot, error) { return g.snapshot, g.err }
func (g *given) Problems() []pods.Problem                      { return nil }

// Pods could not be listed, no pod was evicted, and /healthz said ok.
func TestPodsThatCannotBeListedAreUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, log := &given{}, &strings.Builder{}
		l := New(source, slog.New(slog.NewTextHandler(log, nil)))
		list := func(ctx context.Context, err error) error {
			source.err = err
			_, _ = l.Active(ctx)
			return l.Healthy()
		}
		refused := errors.New("list pod sandboxes: refused")
		givenUp, giveUp := context.WithCancel(t.Context())
		giveUp()
		for _, step := range []struct {
			after   time.Duration
			givenUp bool
			err     error
			healthy bool
		}{
			{0, false, nil, true},
			{0, true, refused, true},
			{time.Minute, false, refused, true},
			{29 * time.Second, false, refused, true},
			{time.Second, false, refused, false},
			{time.Second, false, refused, false},
			{0, false, nil, true},
			{time.Minute, false, refused, true},
		} {
			time.Sleep(step.after)
			ctx := t.Context()
			if step.givenUp {
				ctx = givenUp
			}
			err := list(ctx, step.err)
			if (err == nil) != step.healthy || err != nil && !strings.Contains(err.Error(), "pods have not been listed since 2000-01-01T00:01:00Z: list pod sandboxes: refused") {
				t.Errorf("at %v: %v, want healthy %t", time.Now(), err, step.healthy)
			}
		}
		if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
			t.Errorf("log:\n%s", log)
		}
	})
}

func TestPodsThatMayBeMissingAreAProblem(t *testing.T) {
	source := &given{snapshot: pods.Snapshot{Partial: errors.New("too large")}}
	l := New(source, slog.New(slog.DiscardHandler))
	const want = "container runtime: too large (used all the same)"
	if s, err := l.Active(t.Context()); err != nil || len(s.Problems) != 1 || s.Problems[0].Error() != want || len(l.Problems()) != 1 {
		t.Errorf("problems %v and %v, %v, want %q", s.Problems, l.Problems(), err, want)
	}
	source.snapshot.Partial = nil
	if s, err := l.Active(t.Context()); err != nil || len(s.Problems)+len(l.Problems()) != 0 {
		t.Errorf("problems %v and %v, %v, want none", s.Problems, l.Problems(), err)
	}
}
