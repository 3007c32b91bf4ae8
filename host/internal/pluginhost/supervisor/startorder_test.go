package supervisor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/startup"
	"github.com/evictd/evictd/shared/testos"
)

// On a slow machine all plugins started at once, took each other's time and missed
// their limit, again and again.
func TestPluginsDoNotAllStartAtOnce(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "disk", "memory"}
	programs, dir, notes := install(t, names...), privateDir(t), privateDir(t)
	for _, name := range names {
		// A start that fails unless it has the machine for itself.
		script := fmt.Sprintf("#!/bin/sh\necho %[1]s >> %[2]s/order\n/bin/mkdir %[2]s/busy || exit 7\n/bin/sleep 0.05\n/bin/rmdir %[2]s/busy\nexec %[3]s/%[1]s\n",
			name, notes, programs)
		testos.WriteFile(t, filepath.Join(dir, name), script, 0o700)
	}
	h := startPrepared(t, func(s *Supervisor) { s.control.slots, s.control.slotLimit = 1, patient }, dir)
	for _, name := range names {
		if s := h.plugin(name); s.State != Running || s.Restarts > 0 || s.LastError != "" {
			t.Errorf("%s is %s after %d restarts (%s), want it up at once: no other start was to be in its way", name, s.State, s.Restarts, s.LastError)
		}
	}
	order := testos.ReadFile(t, filepath.Join(notes, "order"))
	if got := strings.Fields(string(order)); len(got) != 4 || !slices.Equal(got[:2], []string{"memory", "disk"}) {
		t.Errorf("started %v, want all, and those first that come with the host, of which memory is first", got)
	}
}

func TestWhoMayStartNext(t *testing.T) {
	c := newSupervisor(Options{}, InProcess{}).control
	c.slots = 2
	var expire []func()
	c.after = func(d time.Duration, f func()) *time.Timer {
		if d != startSlotLimit {
			t.Errorf("a slot expires after %s, want %s", d, startSlotLimit)
		}
		expire = append(expire, f)
		return time.NewTimer(d)
	}
	starts := map[string]*attempt{}
	for n, name := range []string{"a", "b", "c", "disk", "memory"} {
		p := c.newPlugin(name, plugindir.File{})
		p.starting = &attempt{State: startup.State{Phase: startup.Ready}, began: time.Unix(int64(n), 0)}
		c.plugins[name], starts[name] = p, p.starting
		c.grantStarts()
	}
	want := func(names string) {
		t.Helper()
		c.grantStarts()
		var granted []string
		for name, a := range starts {
			if a.Turn != startup.Waits {
				granted = append(granted, name)
			}
		}
		slices.Sort(granted)
		if got := strings.Join(granted, " "); got != names {
			t.Errorf("%q may start, want %q", got, names)
		}
	}
	want("a b")
	starts["a"].Turn = startup.Passed // It is up.
	want("a b memory")
	want("a b memory")
	c.plugins["disk"].starting = nil   // It was removed before its start.
	c.plugins["memory"].starting = nil // It has failed.
	want("a b c memory")
	late := c.newPlugin("d", plugindir.File{})
	late.starting = &attempt{State: startup.State{Phase: startup.Ready}, began: time.Unix(9, 0)}
	c.plugins["d"], starts["d"] = late, late.starting
	want("a b c memory")
	for _, f := range expire { // They hang, and hold up nobody any longer.
		f()
	}
	want("a b c d memory")
}

// At the host's start a plugin has its place before its file was looked at: the others must
// not overtake it for that. Later it waits until the file is complete.
func TestWhoWaitsForAStart(t *testing.T) {
	for name, c := range map[string]struct{ first, complete, granted bool }{
		"at the host's start":                    {true, false, true},
		"a file that is being written":           {false, false, false},
		"one that is complete":                   {false, true, true},
		"one that is complete at the host's own": {true, true, true},
	} {
		s := newSupervisor(Options{}, InProcess{}).control
		s.after = func(d time.Duration, _ func()) *time.Timer { return time.NewTimer(d) }
		p := s.newPlugin("a", plugindir.File{})
		p.first, p.starting = c.first, &attempt{}
		if c.complete {
			p.starting.Phase = startup.Ready
		}
		s.plugins["a"] = p
		s.grantStarts()
		if granted := p.starting.Turn != startup.Waits; granted != c.granted {
			t.Errorf("%s: granted %v, want %v", name, granted, c.granted)
		}
	}
}
