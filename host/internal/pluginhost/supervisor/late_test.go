package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
)

// On a slow machine a plugin missed the same limit again and again, as it would have
// for ever.
func TestAPluginThatIsTooSlowGetsMoreTime(t *testing.T) {
	t.Parallel()
	good := filepath.Join(install(t, "good"), "good")
	dir := installedScript(t, "good", fmt.Sprintf("#!/bin/sh\n/bin/sleep 0.5\nexec %s\n", good))
	p := defaultRestartPolicy()
	p.first, p.longest = 5*time.Millisecond, 20*time.Millisecond
	h := startWithPolicy(t, p, dir, func(o *Options) {
		o.Timeouts.Start, o.Timeouts.Handshake = 50*time.Millisecond, 400*time.Millisecond
	})
	eventually(t, "it serves", func() bool { return h.plugin("good").State == Running })
	want(t, h.log.String(), `not ready within 400ms`)
}

func TestLimitsOfAStartDoubleAndGoBack(t *testing.T) {
	s := newSupervisor(Options{Log: slog.New(slog.DiscardHandler)}, InProcess{})
	c := s.control
	c.after = func(d time.Duration, _ func()) *time.Timer { return time.NewTimer(d) } // nobody runs it
	p := c.newPlugin("memory", plugindir.File{})
	late := fmt.Errorf("not ready: %w", context.DeadlineExceeded)
	for n, step := range []struct {
		err  error
		want time.Duration
	}{{late, 20}, {late, 40}, {late, 80}, {late, 80}, {errors.New("exit status 3"), 10}, {late, 20}} {
		c.attemptFailed(p, &attempt{cancel: func() {}}, step.err)
		if got := 10 * time.Second << p.late; got != step.want*time.Second {
			t.Errorf("after attempt %d, %v: %v, want %v", n, step.err, got, step.want*time.Second)
		}
	}
}

func TestWhoIsInItsFirstStart(t *testing.T) {
	memory := []eviction.Signal{eviction.MemoryAvailable}
	up := &process{Instance: registry.NewInstance("memory", 1, 1, &eviction.Plugin{})}
	for name, c := range map[string]struct {
		plugin   func(*plugin)
		signal   eviction.Signal
		starting bool
	}{
		"it has not been tried":      {func(p *plugin) { p.first = true }, eviction.MemoryAvailable, true},
		"it was too late":            {func(p *plugin) { p.late = 1 }, eviction.MemoryAvailable, true},
		"it came up since":           {func(p *plugin) { p.serving, p.observes = up, memory }, eviction.MemoryAvailable, true},
		"it has failed":              {func(*plugin) {}, eviction.MemoryAvailable, false},
		"it has served before":       {func(p *plugin) { p.late, p.observes = 1, memory }, eviction.MemoryAvailable, false},
		"it is another's signal":     {func(p *plugin) { p.first = true }, eviction.PIDAvailable, false},
		"it is disabled":             {func(p *plugin) { p.first, p.State = true, Disabled }, eviction.MemoryAvailable, false},
		"it leaves before its start": {func(p *plugin) { p.first, p.life = true, leaving }, eviction.MemoryAvailable, false},
	} {
		s := newSupervisor(Options{}, InProcess{})
		pass := s.Pin()
		p := s.control.newPlugin("memory", plugindir.File{})
		c.plugin(p)
		s.control.plugins["memory"] = p
		s.current.Publish(s.control.registry())
		if got := pass.FirstStart(c.signal); got != c.starting {
			t.Errorf("%s: %v, want %v", name, got, c.starting)
		}
		pass.Release()
	}
}

// A program that has evictd inside has no operator who switches signals off by
// removing files.
func TestBuiltinPluginsThatAreExpectedAreMissed(t *testing.T) {
	for name, c := range map[string]struct {
		expect bool
		signal eviction.Signal
		missed bool
	}{
		"expected":     {true, eviction.MemoryAvailable, true},
		"disabled":     {true, eviction.PIDAvailable, false},
		"nobody's":     {true, "acme.example/x", false},
		"not expected": {false, eviction.MemoryAvailable, false},
	} {
		s := newSupervisor(Options{ExpectBuiltins: c.expect, Settings: map[string]Settings{"pid": {Disabled: true}}}, InProcess{})
		pass := s.Pin()
		if got := pass.MissingObserver(c.signal); (got != nil) != c.missed {
			t.Errorf("%s: %v, want missed %v", name, got, c.missed)
		}
		pass.Release()
	}
}
