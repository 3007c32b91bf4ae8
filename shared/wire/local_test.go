package wire

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// locally serves p in memory, and returns the host's view of it and what ends it.
func locally(t *testing.T, p eviction.Plugin) (eviction.Plugin, func()) {
	t.Helper()
	s := NewGRPCServer(nil)
	Register(s, p)
	local := ServeLocal(s)
	cc, err := local.Dial()
	if err != nil {
		t.Fatal(err)
	}
	remote, err := NewClient(cc).Describe(t.Context(), eviction.Host{})
	if err != nil {
		t.Fatal(err)
	}
	return remote, func() {
		_ = cc.Close()
		local.Close()
	}
}

// What a plugin of this process gets and gives is its own, as if it were elsewhere.
func TestALocalPluginSharesNothing(t *testing.T) {
	var got []eviction.Candidate
	order := []eviction.Ranked{{UID: "b"}, {UID: "a"}}
	p, end := locally(t, (&fake{rank: func(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
		got = r.Candidates
		slices.Reverse(got)
		return order, nil
	}}).plugin())
	defer end()
	candidates := []eviction.Candidate{{Pod: eviction.Pod{UID: "a"}}, {Pod: eviction.Pod{UID: "b"}}}
	ranked, err := p.Ranker.Rank(t.Context(), eviction.RankRequest{Candidates: candidates})
	order[0].UID = "changed"
	if err != nil || len(ranked) != 2 || ranked[0].UID != "b" || candidates[0].Pod.UID != "a" || len(got) != 2 || got[0].Pod.UID != "b" {
		t.Errorf("ranked %v, %v; the caller has %v, the plugin %v", ranked, err, candidates, got)
	}
}

// A call ends with its context and a connection with its end, whatever the plugin does.
func TestALocalPluginThatHangsDelaysNoCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p, end := locally(t, (&fake{observe: func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
			<-hang
			return eviction.ObserveReply{}, nil
		}}).plugin())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Observer.Observe(ctx, eviction.ObserveRequest{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		later := make(chan error, 1)
		go func() {
			_, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{})
			later <- err
		}()
		synctest.Wait()
		end()
		if err := <-later; !errors.Is(err, eviction.ErrUnavailable) {
			t.Errorf("got %v of a call at the end, want that it is unavailable", err)
		}
		close(hang)
	})
}
