package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// api knows two tokens, of a scraper that may get /metrics and of one that may not.
type api struct {
	mu     sync.Mutex
	asked  []string
	broken error
	hangs  bool
}

func (a *api) note(ctx context.Context, what string) error {
	a.mu.Lock()
	a.asked = append(a.asked, what)
	broken, hangs := a.broken, a.hangs
	a.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return broken
}

func (a *api) TokenReview(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	if err := a.note(ctx, "token "+token); err != nil {
		return nil, err
	}
	if token != "scraper" && token != "other" {
		return nil, nil
	}
	return &authenticationv1.UserInfo{Username: token}, nil
}

func (a *api) SubjectAccessReview(ctx context.Context, user authenticationv1.UserInfo, verb, path string) (bool, error) {
	if err := a.note(ctx, user.Username+" "+verb+" "+path); err != nil {
		return false, err
	}
	return user.Username == "scraper" && verb == "get" && path == "/metrics", nil
}

func (a *api) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

func guarded(a *api, log io.Writer) *Guard {
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })
	return New(next, Options{API: a, Log: slog.New(slog.NewTextHandler(log, nil))})
}

// get returns the code for a request of peer, and fails if one that is refused gets anything.
func get(t *testing.T, g *Guard, peer, path, authorization string) int {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = peer + ":4711"
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if got := w.Body.String() == "secret"; got != (w.Code == http.StatusOK) {
		t.Errorf("%s with %q: %d %q", path, authorization, w.Code, w.Body)
	}
	if challenge := w.Header().Get("WWW-Authenticate"); (challenge == "Bearer") != (w.Code == http.StatusUnauthorized) {
		t.Errorf("%d with WWW-Authenticate %q", w.Code, challenge)
	}
	return w.Code
}

const peer = "10.0.0.7"

func TestWhoMayRead(t *testing.T) {
	for name, c := range map[string]struct {
		path, authorization string
		want, asked         int
	}{
		"a scraper":                 {"/metrics", "Bearer scraper", 200, 2},
		"a scheme in another case":  {"/metrics", "bearer scraper", 200, 2},
		"a scraper, something else": {"/status", "Bearer scraper", 403, 2},
		"a path that looks alike":   {"/metrics/", "Bearer scraper", 403, 2},
		"a user without the right":  {"/metrics", "Bearer other", 403, 2},
		"a token that is not valid": {"/metrics", "Bearer made-up", 401, 1},
		"no token":                  {"/metrics", "", 401, 0},
		"an empty token":            {"/metrics", "Bearer ", 401, 0},
		"a password":                {"/metrics", "Basic c2NyYXBlcg==", 401, 0},
		"what cannot be a token":    {"/metrics", "Bearer scraper\x00", 401, 0},
		"two tokens":                {"/metrics", "Bearer scraper, Bearer x", 401, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := &api{}
			if got := get(t, guarded(a, io.Discard), peer, c.path, c.authorization); got != c.want || a.count() != c.asked {
				t.Errorf("%d after %q, want %d after %d reviews", got, a.asked, c.want, c.asked)
			}
		})
	}
}

func TestAnswersHoldForAWhile(t *testing.T) {
	for token, c := range map[string]struct {
		want, asks int
		holds      time.Duration
	}{"scraper": {200, 2, allowedFor}, "other": {403, 2, deniedFor}, "made-up": {401, 1, deniedFor}} {
		synctest.Test(t, func(t *testing.T) {
			a := &api{}
			g := guarded(a, io.Discard)
			for i, step := range []struct {
				after time.Duration
				asked int
			}{{0, c.asks}, {c.holds - time.Second, c.asks}, {2 * time.Second, 2 * c.asks}} {
				time.Sleep(step.after)
				if got := get(t, g, peer, "/metrics", "Bearer "+token); got != c.want || a.count() != step.asked {
					t.Errorf("%s, request %d: %d after %d reviews, want %d after %d", token, i, got, a.count(), c.want, step.asked)
				}
			}
		})
	}
}

func TestWithoutTheAPIServerOnlyThoseKnownMayRead(t *testing.T) {
	a, log := &api{}, &strings.Builder{}
	g := guarded(a, log)
	get(t, g, peer, "/metrics", "Bearer scraper")
	a.broken = errors.New("connection refused")
	if got := get(t, g, peer, "/metrics", "Bearer scraper"); got != http.StatusOK {
		t.Errorf("a scraper of a minute ago gets %d", got)
	}
	for range 3 {
		if got := get(t, g, peer, "/metrics", "Bearer other"); got != http.StatusServiceUnavailable {
			t.Errorf("another gets %d", got)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "connection refused") || strings.Contains(text, "other") {
		t.Errorf("log %q, want one line without a token", text)
	}
	a.broken = nil
	if got := get(t, g, peer, "/metrics", "Bearer other"); got != http.StatusForbidden {
		t.Errorf("afterwards %d: the failure was remembered", got)
	}
}

func TestAnAPIServerThatHangsIsWaitedForSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if got := get(t, guarded(&api{hangs: true}, io.Discard), peer, "/metrics", "Bearer scraper"); got != http.StatusServiceUnavailable {
			t.Errorf("%d", got)
		}
		if took := time.Since(began); took != reviewTimeout {
			t.Errorf("it took %v, want %v", took, reviewTimeout)
		}
	})
}

// Whoever sends made-up tokens has few reviews under way, and keeps neither others out nor fills memory.
func TestAFloodOfTokensIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{hangs: true}
		g := guarded(a, io.Discard)
		var flood sync.WaitGroup
		for i := range 100 {
			flood.Go(func() { get(t, g, fmt.Sprintf("[2001:db8::%x]", i), "/metrics", fmt.Sprintf("Bearer flood-%d", i)) })
		}
		synctest.Wait()
		if a.count() != maxReviewsPerPeer {
			t.Errorf("%d reviews are under way for one network, want %d", a.count(), maxReviewsPerPeer)
		}
		a.mu.Lock()
		a.hangs = false
		a.mu.Unlock()
		if got := get(t, g, peer, "/metrics", "Bearer scraper"); got != http.StatusOK {
			t.Errorf("meanwhile a scraper gets %d", got)
		}
		flood.Wait()
		if len(g.reviews) != 0 || g.total != 0 {
			t.Errorf("%v, %d are under way afterwards", g.reviews, g.total)
		}
		for i := range 3 * cachedAnswers {
			get(t, g, "10.0.0.9", "/metrics", fmt.Sprintf("Bearer x%d", i))
		}
		if n := len(g.denied.Keys()); n != cachedAnswers {
			t.Errorf("%d refusals are kept, want %d", n, cachedAnswers)
		}
		asked := a.count()
		if got := get(t, g, peer, "/metrics", "Bearer scraper"); got != http.StatusOK || a.count() != asked {
			t.Errorf("the flood has made the scraper unknown: %d after %d more reviews", got, a.count()-asked)
		}
	})
}
