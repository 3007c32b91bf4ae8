package supervisor

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/shared/eviction"
)

// A custom plugin whose answers are slow loses its place to the built-in one, is
// reported, and gets it back. Where all are slow it is as if none was.
func TestASlowLiarIsAskedAfterAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(after time.Duration) eviction.Plugin {
			return inside{observe: func(context.Context) (eviction.ObserveReply, error) {
				time.Sleep(after)
				return eviction.ObserveReply{}, nil
			}, rank: inOrder}.plugin()
		}
		log := &syncBuffer{}
		m := &standbys{}
		s, err := New(Options{Inside: map[string]eviction.Plugin{"acme": answer(930 * time.Millisecond), "memory": answer(940 * time.Millisecond)}, Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: m})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Started()
		who := func(c eviction.Capability) string {
			p := s.Pin()
			defer p.Release()
			var names []string
			for _, i := range p.Providers(eviction.MemoryAvailable, c) {
				names = append(names, i.Name)
			}
			return strings.Join(names, " ")
		}
		pass := func(n int) {
			for range n {
				p := s.Pin()
				_, _ = p.Providers(eviction.MemoryAvailable, eviction.CanObserve)[0].Plugin.Observer.Observe(t.Context(), eviction.ObserveRequest{})
				p.Release()
				time.Sleep(10 * time.Second)
			}
		}
		check := func(when, order string, slow ...string) {
			t.Helper()
			if got := who(eviction.CanObserve); got != order || who(eviction.CanRank) != order {
				t.Errorf("%s: asked are %q, want %q", when, got, order)
			}
			for _, st := range s.Status() {
				on := slices.Contains(slow, st.Name)
				if (st.Standby != nil) != on || m.has(st.Name) != on || st.State != Running {
					t.Errorf("%s: %s is %s, standby %+v, metric %v, want standby %v", when, st.Name, st.State, st.Standby, m.has(st.Name), on)
				}
			}
		}
		pass(3)
		check("at first", "acme memory")
		pass(1)
		check("after a slow minute", "memory acme", "acme")
		if n := strings.Count(log.String(), "answers too slowly"); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		s.Reassign(ranks("acme"))
		check("assigned", "memory acme", "acme")
		why := rolesIn(s.StatusIn(0), "rank", eviction.MemoryAvailable)["memory"]
		if !strings.Contains(why, "in charge: others answer too slowly; assigned to acme, which answers too slowly") {
			t.Errorf("memory is %s", why)
		}
		s.Reassign(nil)
		pass(4) // by memory, which is slow too
		check("both are slow", "acme memory", "acme", "memory")
		time.Sleep(client.StandbyFor)
		check("tried again", "acme memory")
		cancel()
		<-done
	})
}

// A plugin that uses up the time of a decision is put last by the first one.
func TestAPluginThatUsesUpADecisionsTimeStandsByAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{Inside: map[string]eviction.Plugin{"acme": inside{rank: inOrder}.plugin(), "memory": inside{rank: inOrder}.plugin()}, Log: slog.New(slog.DiscardHandler), Metrics: &standbys{}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Started()
		first := func() string {
			p := s.Pin()
			defer p.Release()
			return p.Providers(eviction.MemoryAvailable, eviction.CanRank)[0].Name
		}
		p := s.Pin()
		p.Named("acme").Overspent(time.Second)
		p.Release()
		if got := first(); got != "memory" {
			t.Errorf("first is %s, want memory", got)
		}
		time.Sleep(client.StandbyFor)
		synctest.Wait()
		if got := first(); got != "acme" {
			t.Errorf("later first is %s, want acme", got)
		}
		cancel()
		<-done
	})
}

// standbys is which plugins are on standby by the metric.
type standbys struct {
	noMetrics
	on sync.Map
}

func (m *standbys) PluginStandby(name string, yes bool) { m.on.Store(name, yes) }

func (m *standbys) has(name string) bool {
	on, _ := m.on.Load(name)
	return on == true
}
