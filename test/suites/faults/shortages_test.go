package faults

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/broken/fault"
	"github.com/evictd/evictd/test/harness/daemon"
)

const (
	// shortages of memory in a row, by which a plugin must have been put last.
	shortages = 3
	// lateness bounds how much later a pod is chosen than without custom plugins.
	lateness = time.Second
	// A victim whose use only a vendor's plugin knows has the next ones go at the kubelet's pace,
	// until memory was enough for so long.
	untilPaceEnds = 12 * time.Second
	// unhurried allows for the choice itself, where many worlds share the machine.
	unhurried = 750 * time.Millisecond
)

// A rowOfShortages is one custom plugin, or several, with what goes wrong in each of several
// shortages of memory.
type rowOfShortages []fault.Fault

func rowsOfShortages() []rowOfShortages {
	of := func(call fault.Call, kind fault.Kind) fault.Fault {
		return fault.Fault{Base: "drop", Call: call, Kind: kind}
	}
	all := []rowOfShortages{
		{}, // as it is without a custom plugin
		{of(fault.Waited, fault.Slow)},
		{of(fault.Reclaim, fault.Hang), of(fault.Measure, fault.Trickle)},
		{of(fault.Measure, fault.Trickle)},
		{of(fault.Reclaim, fault.Trickle)},
	}
	for _, call := range []fault.Call{fault.Observe, fault.Measure, fault.Rank, fault.Reclaim} {
		for _, kind := range []fault.Kind{fault.Hang, fault.Slow} {
			all = append(all, rowOfShortages{of(call, kind)})
		}
	}
	return all
}

func (r rowOfShortages) faults() string {
	var names []string
	for _, f := range r {
		names = append(names, fmt.Sprintf("%s: %s", f.Call, f.Kind))
	}
	return cmp.Or(strings.Join(names, "; and of another plugin, "), "none")
}

// run takes a world through its shortages and returns how long each choice took.
func (r rowOfShortages) run(t *testing.T) (took []time.Duration) {
	w := newWorld(t)
	for i := range shortages {
		w.pod(fmt.Sprintf("hog-%d", i), "burstable", 3*gib, 0, "requests: {memory: 256Mi}")
	}
	w.config["evictionHard"], w.config["monitoringInterval"] = map[string]string{"memory.available": "1Gi"}, "1s"
	daemon.Install(t, daemon.Build(t, "memory"), filepath.Join(w.plugins, "memory"))
	if len(r) > 1 { // who offer the same
		all := map[string]string{"observe": "acme-0", "watch": "memory", "reclaim": "acme-0", "measure": "acme-1", "rank": "acme-1"}
		w.config["assign"] = map[string]any{"memory.available": all, "allocatableMemory.available": all}
	}
	signs := t.TempDir()
	armed := filepath.Join(signs, "armed")
	struck := make([]string, len(r))
	for i, f := range r {
		struck[i] = filepath.Join(signs, fmt.Sprintf("struck-%d", i))
		f.Struck, f.Armed = struck[i], armed
		if err := fault.Install(daemon.Build(t, "broken"), filepath.Join(w.plugins, fmt.Sprintf("acme-%d", i)), f); err != nil {
			t.Fatal(err)
		}
	}
	d := daemon.Start(t, w.config)
	d.AwaitReady()
	cell{}.awaitPass(t, d)
	before := passes(t, d) // a pass that has begun without pressure must not meet the fault first
	daemon.Eventually(t, interval, func() error {
		if passes(t, d) == before {
			return errors.New("no new pass")
		}
		return nil
	})
	testos.WriteFile(t, armed, "", 0o644)
	for i := range shortages {
		began := time.Now()
		w.pressure("memory")
		daemon.Eventually(t, time.Minute, func() error { return seen(d, "evicting pod", i+1) })
		took = append(took, time.Since(began))
		daemon.Eventually(t, interval+slack, func() error { return seen(d, "pod finished", i+1) })
		daemon.Eventually(t, interval+slack, func() error { return seen(d, "relief of a victim", i+1) })
		time.Sleep(untilPaceEnds)
	}
	if slices.Max(took) > lateness+unhurried {
		t.Errorf("the choices took %v, want %v at most", took, lateness)
	}
	for _, sign := range struck {
		if _, err := os.Stat(sign); err != nil {
			t.Error("the fault has not struck, the row proves nothing")
		}
	}
	return took
}

func seen(d *daemon.Daemon, msg string, want int) error {
	if n := len(d.Records(msg)); n < want {
		return fmt.Errorf("%d of %d times %q", n, want, msg)
	}
	return nil
}

// A plugin whose step for memory hung, or reported progress for ever, cost 30 s in each shortage, an
// endless measurement 5 s. A kubelet has no plugins to wait for.
func TestShortagesInARow(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs root: run make test")
	}
	for _, name := range []string{"evictd", "memory", "broken"} {
		daemon.Build(t, name)
	}
	all := rowsOfShortages()
	took := tryAll(t, all, (*rowOfShortages).faults, (*rowOfShortages).run)
	var table strings.Builder
	for i, r := range all {
		fmt.Fprintf(&table, "%-60s", r.faults())
		for _, d := range took[i] {
			fmt.Fprintf(&table, "%7.2f s", d.Seconds())
		}
		table.WriteByte('\n')
	}
	t.Logf("time of the choice in each shortage\n%s", table.String())
}
