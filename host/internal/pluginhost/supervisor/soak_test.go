package supervisor

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/test/harness/leaks"
)

// cyclesEnv names the variable with the number of times that plugins are added, replaced and
// removed.
const cyclesEnv = "EVICTD_SWAP_CYCLES"

const (
	// cyclesWithRoot are made by make test, if nothing else is asked for.
	cyclesWithRoot = 20
	// lanes are plugins that come and go at the same time.
	lanes = 4
)

func swapCycles(t *testing.T) int {
	t.Helper()
	text := os.Getenv(cyclesEnv)
	switch {
	case text != "":
		n, err := strconv.Atoi(text)
		if err != nil || n < lanes {
			t.Fatalf("%s is %q, want a number of at least %d", cyclesEnv, text, lanes)
		}
		return n
	case strict():
		return cyclesWithRoot
	}
	t.Skip("starts many processes: run make test, or make nightly for more of it")
	return 0
}

// leftovers counts the resources of a host, which a later count must equal.
type leftovers struct {
	own                                                   leaks.Count
	processes, socketFiles, pluginFiles, cgroups, plugins int
	heapKiB                                               uint64
}

func (h *testHost) leftovers() leftovers {
	h.t.Helper()
	l := leftovers{
		processes: children(h.t), own: leaks.Now(h.t),
		socketFiles: entries(h.t, h.sockets), pluginFiles: entries(h.t, h.dir), plugins: len(h.Status()),
	}
	l.cgroups = len(h.root.Cgroups())
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	l.heapKiB = m.HeapAlloc >> 10
	return l
}

// atRest waits until only the plugin that stays is there and nothing changes.
func (h *testHost) atRest() leftovers {
	h.t.Helper()
	eventually(h.t, "one process is left", func() bool { return children(h.t) == 1 })
	var now leftovers
	eventually(h.t, "nothing changes any more", func() bool {
		former := now
		<-time.After(100 * time.Millisecond)
		now = h.leftovers()
		return !former.grew(now) && !now.grew(former)
	})
	return now
}

// grew reports whether there is more of anything than in l. Memory is for people
// to judge.
func (l leftovers) grew(now leftovers) bool {
	return now.processes > l.processes || now.own.MoreThan(l.own) ||
		now.socketFiles > l.socketFiles || now.pluginFiles > l.pluginFiles || now.cgroups > l.cgroups || now.plugins > l.plugins
}

// children counts the child processes of this one, also those that nobody waited
// for.
func children(t *testing.T) int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range stats {
		stat, _ := os.ReadFile(file) // It may have ended.
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if fields := bytes.Fields(rest); len(fields) > 1 && string(fields[1]) == strconv.Itoa(os.Getpid()) {
			n++
		}
	}
	return n
}

// entries counts files and directories below dir.
func entries(t *testing.T, dir string) int {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error {
		if err == nil { // else it has just gone
			n++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Plugins are added, replaced and removed again and again, also in ways that go
// wrong, beside one that stays. Then the host must have what it had before.
func TestSwapCyclesLeakNothing(t *testing.T) {
	total := swapCycles(t)
	dir := installed(t, "stays")
	h := startHost(t, dir, func(o *Options) { o.Log = slog.New(slog.DiscardHandler) })
	stays := h.plugin("stays").PID
	turns := func(n int) {
		var wg sync.WaitGroup
		for lane := range lanes {
			wg.Go(func() {
				c := cycler{host: h, name: fmt.Sprintf("lane-%d", lane)}
				for turn := lane; turn < n && !t.Failed(); turn += lanes {
					c.cycle(turn)
				}
			})
		}
		wg.Wait()
	}
	turns(lanes) // What is made once is there afterwards.
	if t.Failed() {
		t.FailNow()
	}
	before := h.atRest()
	began := time.Now()
	turns(total)
	took := time.Since(began)
	after := h.leftovers()
	for deadline := time.Now().Add(patient); before.grew(after) && time.Now().Before(deadline); after = h.leftovers() {
		<-time.After(10 * time.Millisecond)
	}
	t.Logf("%d cycles in %s, %s each\n%s", total, took.Round(time.Millisecond), (took / time.Duration(total)).Round(time.Millisecond), compare(before, after))
	if before.grew(after) {
		t.Error("something was left behind")
	}
	if s := h.plugin("stays"); s.PID != stays || s.Restarts+s.Swaps > 0 {
		t.Errorf("the plugin that stays is %+v, want it never touched", s)
	}
	h.stop()
	if n := children(t); n > 0 {
		t.Errorf("%d processes are left after the end", n)
	}
}

// compare returns a table of both.
func compare(before, after leftovers) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(what string, before, after any) { _, _ = fmt.Fprintf(w, "%s\t%v\t%v\t\n", what, before, after) }
	row("", "before", "after")
	row("processes", before.processes, after.processes)
	row("descriptors", before.own.Files, after.own.Files)
	row("goroutines", before.own.Goroutines, after.own.Goroutines)
	row("sockets and their directories", before.socketFiles, after.socketFiles)
	row("files in the plugin directory", before.pluginFiles, after.pluginFiles)
	row("cgroups of plugins", before.cgroups, after.cgroups)
	row("plugins known", before.plugins, after.plugins)
	row("heap of the host, KiB", before.heapKiB, after.heapKiB)
	_ = w.Flush()
	return b.String()
}

// A cycler makes cycles with one plugin.
type cycler struct {
	host *testHost
	name string
}

// cycle adds, replaces and removes the plugin once. Turns differ in how.
func (c cycler) cycle(turn int) {
	put(c.host.t, c.host.dir, c.name, "1-"+c.name) // What is posed as is what is observed.
	if turn%13 == 12 {                             // gone before it has come
		c.remove()
		return
	}
	first := c.await(0)
	var pass *registry.Pin
	if turn%3 == 0 { // a pass is under way
		pass = c.host.Pin()
	}
	if turn%5 == 4 {
		put(c.host.t, c.host.dir, c.name, "exits")
		c.until("the replacement fails", func(s Status) bool { return s.Replacement != nil && s.Replacement.State == Refused })
	} else {
		put(c.host.t, c.host.dir, c.name, "2-"+c.name)
		c.await(first)
	}
	if turn%7 == 6 { // gone while another one comes
		put(c.host.t, c.host.dir, c.name, "1-"+c.name)
	}
	c.remove()
	if pass != nil {
		pass.Release()
	}
}

func (c cycler) remove() {
	if err := os.Remove(filepath.Join(c.host.dir, c.name)); err != nil {
		c.host.t.Error(err)
	}
	c.until("it is gone", func(s Status) bool { return s.Name == "" })
}

// await waits until another process than pid serves and returns its id.
func (c cycler) await(pid int) (now int) {
	c.until("it runs", func(s Status) bool {
		now = s.PID
		return s.State == Running && s.PID != 0 && s.PID != pid
	})
	return now
}

func (c cycler) until(what string, ok func(Status) bool) {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patient); !ok(c.host.plugin(c.name)); <-look.C {
		if time.Now().After(deadline) {
			c.host.t.Errorf("%s, not within %s: %s: %+v", c.name, patient, what, c.host.plugin(c.name))
			return
		}
	}
}
