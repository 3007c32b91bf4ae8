package meters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

type meterFunc func(context.Context) ([]eviction.Metric, error)

func (f meterFunc) Metrics(ctx context.Context) ([]eviction.Metric, error) { return f(ctx) }

// host has Meters of the plugins that serve.
type host struct {
	*Meters

	current *registry.Current
	log     bytes.Buffer
	failed  atomic.Int32
}

func newHost() *host {
	h := &host{current: registry.NewCurrent()}
	h.Meters = New(Options{
		Pin: h.current.Pin, Own: func(name string) bool { return name == "up" },
		Failed: func(string, string, error) { h.failed.Add(1) }, Log: slog.New(slog.NewTextHandler(&h.log, nil)),
	})
	return h
}

// serve starts plugins by name in place of all former ones.
func (h *host) serve(all map[string]meterFunc) {
	var plugins []registry.Plugin
	for name, f := range all {
		p := &eviction.Plugin{Name: name, Meter: f}
		plugins = append(plugins, registry.Plugin{Name: name, Instance: registry.NewInstance(name, 1, 0, p)})
	}
	plugins = append(plugins, registry.Plugin{Name: "silent", Instance: registry.NewInstance("silent", 1, 0, &eviction.Plugin{})})
	h.current.Publish(registry.New(plugins, nil))
}

func (h *host) scrape(t *testing.T) string {
	t.Helper()
	h.Ask(t.Context())
	var lines []string
	for _, s := range h.Series() {
		lines = append(lines, fmt.Sprintf("%s/%s%v=%v", s.Plugin, s.Name, s.Labels, s.Value))
	}
	return strings.Join(lines, " ")
}

func one(name string, value float64) []eviction.Metric {
	return []eviction.Metric{{Name: name, Samples: []eviction.Sample{{Value: value}}}}
}

func answering(all []eviction.Metric) meterFunc {
	return func(context.Context) ([]eviction.Metric, error) { return all, nil }
}

// A hundred scrapes at once make one call to a plugin that hangs, and none waits longer than its deadline.
func TestAPluginThatHangsHoldsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		var calls atomic.Int32
		end := make(chan struct{})
		h.serve(map[string]meterFunc{
			"good": answering(one("a", 1)),
			"hangs": func(context.Context) ([]eviction.Metric, error) { // whatever its context says
				calls.Add(1)
				<-end
				return one("b", 2), nil
			},
		})
		for range 3 {
			begin := time.Now()
			var scrapes sync.WaitGroup
			for range 100 {
				scrapes.Go(func() {
					if got := h.scrape(t); got != "good/amap[]=1" {
						t.Errorf("scrape %q", got)
					}
				})
			}
			scrapes.Wait()
			if took := time.Since(begin); took != eviction.MetricsDeadline {
				t.Errorf("scrapes took %v, want %v", took, eviction.MetricsDeadline)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls, want 1", n)
		}
		close(end)
		synctest.Wait()
		if got := h.scrape(t); got != "good/amap[]=1 hangs/bmap[]=2" {
			t.Errorf("scrape %q after it has answered", got)
		}
	})
}

// All are asked at once, also if a client gives up its scrape: others wait for the same calls.
func TestAScrapeGivenUpEndsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost()
		slow := func(ctx context.Context) ([]eviction.Metric, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(150 * time.Millisecond):
				return one("a", 1), nil
			}
		}
		h.serve(map[string]meterFunc{"a": slow, "b": slow, "c": slow})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		begin := time.Now()
		h.Ask(ctx)
		if took := time.Since(begin); took != 150*time.Millisecond || len(h.Series()) != 3 {
			t.Errorf("%d series after %v", len(h.Series()), took)
		}
	})
}

func TestTheLastGoodAnswerStands(t *testing.T) {
	h := newHost()
	var wrong error
	value := 1.0
	p := map[string]meterFunc{"p": func(context.Context) ([]eviction.Metric, error) { return one("a", value), wrong }}
	h.serve(p)
	for _, step := range []struct {
		value  float64
		err    error
		want   string
		warned int
	}{
		{1, nil, "p/amap[]=1", 0},
		{2, errors.New("no device"), "p/amap[]=1", 1},
		{3, errors.New("no device"), "p/amap[]=1", 1},
		{4, fmt.Errorf("%w: 65 samples", eviction.ErrInvalidReply), "p/amap[]=1", 2},
		{5, nil, "p/amap[]=5", 2},
		{6, errors.New("no device"), "p/amap[]=5", 3},
	} {
		value, wrong = step.value, step.err
		if got := h.scrape(t); got != step.want {
			t.Errorf("%v, %v: scrape %q, want %q", step.value, step.err, got, step.want)
		}
		if n := strings.Count(h.log.String(), "plugin has no new metrics"); n != step.warned {
			t.Errorf("%v, %v: %d warnings, want %d", step.value, step.err, n, step.warned)
		}
	}
	if n := h.failed.Load(); n != 4 {
		t.Errorf("%d failures are counted, want 4", n)
	}
	h.serve(p) // another process: what the former one said is not its own
	if got := h.scrape(t); got != "" {
		t.Errorf("scrape %q after a restart", got)
	}
	wrong = nil
	if got := h.scrape(t); got != "p/amap[]=6" {
		t.Errorf("scrape %q", got)
	}
	h.serve(nil)
	if got := h.scrape(t); got != "" {
		t.Errorf("scrape %q of a plugin that is gone", got)
	}
}

func TestTheFirstPluginByNameHasTheTypeAndTheHelp(t *testing.T) {
	h := newHost()
	metric := func(name, help string, is eviction.MetricType, labels ...string) []eviction.Metric {
		m := eviction.Metric{Name: name, Help: help, Type: is, Samples: []eviction.Sample{{Value: 1}}}
		for _, l := range labels {
			m.Samples = append(m.Samples, eviction.Sample{Labels: map[string]string{l: "x"}})
		}
		return []eviction.Metric{m}
	}
	h.serve(map[string]meterFunc{
		"c": answering(append(metric("a", "other help", eviction.Gauge, "node"), metric("b", "b", eviction.Counter)...)),
		"b": answering(append(metric("a", "counter", eviction.Counter), metric("b", "b", eviction.Counter)...)),
		"a": answering(append(metric("a", "help", eviction.Gauge, "disk"), metric("up", "mine", eviction.Gauge)...)),
	})
	const want = "a/amap[]=1 a/amap[disk:x]=0 b/bmap[]=1 c/amap[]=1 c/amap[node:x]=0 c/bmap[]=1"
	for range 2 {
		if got := h.scrape(t); got != want {
			t.Errorf("scrape %q, want %q", got, want)
		}
	}
	for _, s := range h.Series() {
		if s.Name == "a" && (s.Help != "help" || s.Type != eviction.Gauge) {
			t.Errorf("%+v", s)
		}
	}
	for text, times := range map[string]int{
		`plugin=b error="a: another plugin has it as another type"`: 1, `plugin=a error="up: the host has a metric of this name"`: 1, "level=WARN": 2,
	} {
		if n := strings.Count(h.log.String(), text); n != times {
			t.Errorf("the log has %s %d times, want %d:\n%s", text, n, times, h.log.String())
		}
	}
}
