package listing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/cluster/podsource/kubernetes"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// given is a source of these pods.
type given struct {
	snapshot pods.Snapshot
	err      error
}

func (g *given) Active(context.Context) (pods.Snapshot, error) { return g.snapshot, g.err }
func (g *given) Prepare(context.Context)                       {}
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
	source := &given{snapshot: pods.Snapshot{Stale: []pods.Stale{{Input: "containers", Err: answers.Refused(errors.New("too large"))}}}}
	l := New(source, slog.New(slog.DiscardHandler))
	const want = "container runtime: too large (used all the same)"
	if s, err := l.Active(t.Context()); err != nil || len(s.Problems) != 1 || s.Problems[0].Error() != want || len(l.Problems()) != 1 {
		t.Errorf("problems %v and %v, %v, want %q", s.Problems, l.Problems(), err, want)
	}
	source.snapshot.Stale = nil
	if s, err := l.Active(t.Context()); err != nil || len(s.Problems)+len(l.Problems()) != 0 {
		t.Errorf("problems %v and %v, %v, want none", s.Problems, l.Problems(), err)
	}
}

// With a wrong address of the API server, or a wrong socket of the runtime, /healthz said ok for
// 30 s: the pod was ready, and a roll-out went on to the next nodes.
func TestPodsThatWereNeverListedAreUnhealthyFromTheStart(t *testing.T) {
	away := pods.Problem{File: "API server", Err: fmt.Errorf("%w: refused", pods.ErrNeverListed)}
	saved := pods.Problem{File: "API server", Err: fmt.Errorf("those that a former evictd knew count: %w", pods.ErrNeverListed), Used: true}
	for name, c := range map[string]struct {
		problem pods.Problem
		err     error
		want    string
	}{
		"the runtime does not answer":             {err: errors.New("no such socket"), want: "pods have not been listed yet: no such socket"},
		"the API server does not answer":          {problem: away, want: "pods have not been listed yet: API server: has not listed"},
		"it does not, a former evictd saved pods": {problem: saved},
		"all answer": {},
		"a manifest is wrong, which is one pod's": {problem: pods.Problem{File: "a.yaml", Err: errors.New("no YAML")}},
		"it has answered, and is away since":      {problem: pods.Problem{File: "API server", Err: errors.New("is away"), Used: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &given{err: c.err}
				if c.problem.Err != nil {
					source.snapshot.Problems = []pods.Problem{c.problem}
				}
				l := New(source, slog.New(slog.DiscardHandler))
				if l.Healthy() == nil {
					t.Error("healthy before the first listing")
				}
				ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
				defer stop()
				l.AwaitFirst(ctx)
				if err := l.Healthy(); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
					t.Errorf("%v, want %q", err, c.want)
				}
				*source = given{}
				l.AwaitFirst(t.Context())
				if err := l.Healthy(); err != nil {
					t.Errorf("%v after all have answered", err)
				}
			})
		})
	}
}

// saved are the pods of a former evictd.
type saved string

func (saved) SavePods([]byte) error       { return nil }
func (s saved) LoadPods() ([]byte, error) { return []byte(s), nil }

// An API server that has sent nothing yet is no failure to a source, which lists what runs.
func TestOnlyPodsOfTheAPIServerOrOfAFormerEvictdCount(t *testing.T) {
	for store, known := range map[saved]bool{`{"items":[]}`: false, `{"items":[{"metadata":{"name":"a","namespace":"shop","uid":"1"}}]}`: true} {
		source, err := kubernetes.New(nil, criclient.NewLister(fakecri.New().Client(), nil), pods.Rules{}, store)
		if err != nil {
			t.Fatal(err)
		}
		l := New(source, slog.New(slog.DiscardHandler))
		if _, err := l.Active(t.Context()); err != nil || (l.Healthy() == nil) != known {
			t.Errorf("with %s saved: %v, %v, want healthy %t", store, l.Healthy(), err, known)
		}
	}
}
