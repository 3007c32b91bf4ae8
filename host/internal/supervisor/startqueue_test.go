package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/registry"
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
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h := startPrepared(t, func(s *Supervisor) { s.control.slots.free, s.control.slots.limit = 1, patient }, dir)
	for _, name := range names {
		if s := h.plugin(name); s.State != Running || s.Restarts > 0 || s.LastError != "" {
			t.Errorf("%s is %s after %d restarts (%s), want it up at once: no other start was to be in its way", name, s.State, s.Restarts, s.LastError)
		}
	}
	order, err := os.ReadFile(filepath.Join(notes, "order"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(string(order)); len(got) != 4 || !slices.Equal(got[:2], []string{"disk", "memory"}) {
		t.Errorf("started %v, want all, and those first that come with the host", got)
	}
}

// granted lists the slots that have the leave to start.
func granted(slots map[string]*startSlot) string {
	var names []string
	for name, s := range slots {
		if s.granted {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestWhoMayStartNext(t *testing.T) {
	q, slots := newStartQueue(), map[string]*startSlot{}
	var expire []func()
	q.free = 2
	q.after = func(d time.Duration, f func()) *time.Timer {
		if d != startSlotLimit {
			t.Errorf("a slot expires after %s, want %s", d, startSlotLimit)
		}
		expire = append(expire, f)
		return time.NewTimer(d)
	}
	for _, name := range []string{"a", "b", "c", "disk", "memory"} {
		slots[name] = q.join(registry.Builtin(name))
	}
	want := func(names string) {
		t.Helper()
		if got := granted(slots); got != names {
			t.Errorf("%q may start, want %q", got, names)
		}
	}
	want("a b")
	q.release(slots["a"]) // It is up.
	want("a b disk")
	q.release(slots["a"])
	want("a b disk")
	q.release(slots["memory"]) // It was removed before its start.
	want("a b disk")
	for _, f := range expire { // They hang, and hold up nobody any longer.
		f()
	}
	want("a b c disk")
	q.release(slots["b"])
	q.release(slots["c"])
	q.release(slots["disk"])
	if q.free != 2 || len(q.waiting) != 0 {
		t.Errorf("%d slots free, %d in the queue, want 2 and none", q.free, len(q.waiting))
	}
}

func TestAStartThatIsNotWantedAnyMoreLeavesTheQueue(t *testing.T) {
	q := newStartQueue()
	q.free = 0
	q.release(q.join(false))
	if len(q.waiting) != 0 {
		t.Error("it is still in the queue")
	}
}
