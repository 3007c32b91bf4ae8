package wake

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// A watcher sends the wakes that a test sets, and notes which streams are open.
type watcher struct {
	wakes chan eviction.Wake
	open  []string
	ended int
	err   error
	near  []eviction.Condition
}

func (w *watcher) Watch(ctx context.Context, r eviction.WatchRequest, wake func(eviction.Wake)) error {
	w.open = append(w.open, fmt.Sprint(r.Thresholds))
	defer func() { w.ended++ }()
	for w.err == nil {
		select {
		case k := <-w.wakes:
			wake(k)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return w.err
}

func (w *watcher) plugin(name string) *registry.Instance {
	return &registry.Instance{Name: name, Plugin: &eviction.Plugin{Name: name, Watcher: w}}
}

func watched(s eviction.Signal, c eviction.Condition, amount int64) Watched {
	return Watched{eviction.WatchThreshold{Signal: s, Threshold: eviction.Threshold{Amount: amount}}, c}
}

// follow runs a story with streams of one plugin.
func follow(t *testing.T, err error, story func(t *testing.T, s *Streams, w *watcher, update func(p *registry.Instance, thresholds ...Watched))) {
	synctest.Test(t, func(t *testing.T) {
		w := &watcher{wakes: make(chan eviction.Wake), err: err}
		s := NewStreams(slog.New(slog.NewTextHandler(t.Output(), nil)), func(string, string, error) {}, func(_ context.Context, c eviction.Condition) { w.near = append(w.near, c) })
		story(t, s, w, func(p *registry.Instance, thresholds ...Watched) {
			s.Update(t.Context(), func(eviction.Signal) []*registry.Instance { return []*registry.Instance{p} }, thresholds)
			synctest.Wait()
		})
		s.Stop()
		if w.ended != len(w.open) {
			t.Errorf("%d of %d streams have ended", w.ended, len(w.open))
		}
	})
}

func TestWakesOfACondition(t *testing.T) {
	follow(t, nil, func(t *testing.T, s *Streams, w *watcher, update func(*registry.Instance, ...Watched)) {
		const spare, spent = "acme.example/spare", "acme.example/Spent"
		update(w.plugin("acme"), watched(eviction.MemoryAvailable, eviction.MemoryPressure, 1), watched(spare, spent, 2))
		<-s.Notify()
		if got := s.Take(); len(got) != 2 || got[spent] != CauseWatchStarted {
			t.Errorf("as it starts %v is woken, want both conditions", got)
		}
		for _, k := range []eviction.Wake{{Signal: spare, Cause: "first"}, {Signal: spare, Cause: "second"}, {Signal: "unasked", Cause: "x"}} {
			w.wakes <- k
		}
		synctest.Wait()
		<-s.Notify()
		if got := s.Take(); len(got) != 1 || got[spent] != "first" {
			t.Errorf("%v, want one wake with the cause of the first", got)
		}
		w.wakes <- eviction.Wake{Signal: spare, Cause: eviction.CauseNear}
		synctest.Wait()
		if got := s.Take(); len(got) != 0 || !slices.Equal(w.near, []eviction.Condition{spent}) {
			t.Errorf("%v woken and %v near, want no wake for a threshold that is near", got, w.near)
		}
	})
}

func TestAStreamStaysOpenAsLongAsItIsTheRightOne(t *testing.T) {
	follow(t, nil, func(t *testing.T, _ *Streams, w *watcher, update func(*registry.Instance, ...Watched)) {
		memory := watched(eviction.MemoryAvailable, eviction.MemoryPressure, 1)
		p := w.plugin("memory")
		update(p, memory)
		update(p, memory)
		if len(w.open) != 1 || w.ended != 0 {
			t.Errorf("%v were opened and %d ended, want one that stays", w.open, w.ended)
		}
		other := memory
		other.Threshold.Amount = 7
		update(p, other)
		update(w.plugin("memory"), other) // another process of it
		other.Condition = "acme.example/Other"
		update(p, other)
		if want := []string{"[{memory.available {1 0}}]", "[{memory.available {7 0}}]", "[{memory.available {7 0}}]", "[{memory.available {7 0}}]"}; !slices.Equal(w.open, want) || w.ended != 3 {
			t.Errorf("%v were opened and %d ended, want %v of which one is open", w.open, w.ended, want)
		}
	})
}

func TestAWatchThatEnds(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		most int
		less int
	}{
		"is opened again, less and less often": {eviction.ErrUnavailable, 60, 5},
		"for good is opened no more":           {eviction.ErrUnsupported, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			follow(t, c.err, func(t *testing.T, _ *Streams, w *watcher, update func(*registry.Instance, ...Watched)) {
				update(w.plugin("memory"), watched(eviction.MemoryAvailable, eviction.MemoryPressure, 1))
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := len(w.open); n > c.most || n < c.less {
					t.Errorf("opened %d times in a minute, want %d to %d", n, c.less, c.most)
				}
			})
		})
	}
}
