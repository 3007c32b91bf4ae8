package embedded

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/host/internal/why/whatif"
	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/shared/eviction"
)

// recorder starts managers that keep records in a directory.
func recorder(dir string) replay.Start {
	return func(ctx context.Context, w *replay.World) (replay.Manager, func(), error) {
		run, err := os.MkdirTemp("", "evictd-")
		if err != nil {
			return nil, nil, err
		}
		w.Config.RunDir, w.Config.PluginDir, w.Config.StateDir = run, "", dir
		m, err := host.NewEmbedded(host.Embedding{
			Config: w.Config, Log: w.Log, KillPod: w.KillPod, Recorder: w, Clock: w, Summary: w.Summary, Reclaim: w.Reclaim(),
			Simulated: true, Plugins: map[string]eviction.Plugin{"memory": memory.New(), "disk": disk.New(), "pid": pid.New()},
		})
		if err != nil {
			return nil, nil, errors.Join(err, os.RemoveAll(run))
		}
		ctx, cancel := context.WithCancel(ctx)
		stop := func() {
			cancel()
			_ = errors.Join(m.Wait(), os.RemoveAll(run))
		}
		if err := m.Start(ctx, w, w.ActivePods, w.CleanedUp, 0); err != nil {
			stop()
			return nil, nil, err
		}
		return m, stop, nil
	}
}

// Of all traces: the record of an eviction alone gives the decision again, and what it says
// would have spared the pod does, while one step less does not.
func TestDecisionsAreMadeAgainFromTheirRecords(t *testing.T) {
	files, err := filepath.Glob("../../../test/traces/*.json*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	evictions, replayed, changes := 0, 0, map[string]int{}
	for _, file := range files {
		trace, err := replay.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		out, err := replay.Run(t.Context(), trace.Scenario, slog.New(slog.DiscardHandler), recorder(dir))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		want := 0
		for _, pass := range out.Passes {
			want += len(pass.Evicted)
		}
		got := 0
		if err := store.Each(filepath.Join(dir, "records"), store.Filter{All: true}, func(r *decision.Decision) {
			tell.Text(r)
			if r.Victim != nil {
				got++
			}
			if r.Kind != decision.KindEviction {
				return
			}
			evictions++
			replayed += replays(t, file, r)
			for change, n := range again(t, file, r) {
				changes[change] += n
			}
		}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if got != want {
			t.Errorf("%s: %d victims are recorded, want %d", file, got, want)
		}
	}
	if evictions < 100 || changes["request"] == 0 || changes[whatif.Priority] == 0 {
		t.Errorf("%d evictions, changes that would have spared the pod: %v", evictions, changes)
	}
	t.Logf("%d evictions in %d traces, each made again from its record, %d replayed; changes that would have spared the pod: %v", evictions, len(files), replayed, changes)
}

// again makes the decision of a record again and counts what would have spared its victim.
func again(t *testing.T, file string, r *decision.Decision) map[string]int {
	t.Helper()
	d, err := whatif.Again(r)
	if err != nil || !slices.Equal(d.Order, r.Order) || d.Acted < 0 || !r.Thresholds[d.Acted].Acted || r.Candidates[d.Order[0]].UID != r.Victim.UID {
		t.Errorf("%s: %s: made again %+v, want the order %v; %v", file, r.ID, d, r.Order, err)
		return nil
	}
	found, err := whatif.Changes(r)
	if err != nil {
		t.Errorf("%s: %s: %v", file, r.ID, err)
	}
	counts := map[string]int{}
	for _, f := range found {
		counts[f.What]++
		if !spares(t, r, f, f.Value) || spares(t, r, f, f.Value-f.Step) {
			t.Errorf("%s: %s: %+v does not spare the pod, or one step less does", file, r.ID, f)
		}
	}
	// The line for the owner says the same by the second pod alone, rounded up.
	a := reason.Advise(r)
	if request := (whatif.Change{What: "request"}); a.Request > 0 {
		counts[request.What]++
		if !spares(t, r, request, a.Request) || spares(t, r, request, a.Request-1<<20) {
			t.Errorf("%s: %s: %+v does not spare the pod, or 1Mi less does", file, r.ID, a)
		}
	}
	if why := reason.Why(r, 0, 0); a.Text != "" && !strings.HasSuffix(why, "; "+a.Text) {
		t.Errorf("%s: %s: %q, want %q", file, r.ID, why, a.Text)
	}
	return counts
}

// spares reports whether a record with a changed value has another victim, or none.
func spares(t *testing.T, r *decision.Decision, c whatif.Change, value int64) bool {
	t.Helper()
	changed := *r
	changed.Candidates, changed.Thresholds = slices.Clone(r.Candidates), slices.Clone(r.Thresholds)
	victim := &changed.Candidates[r.Order[0]]
	switch c.What {
	case whatif.Priority:
		victim.Priority = int32(value)
	case whatif.MinReclaim:
		changed.Acted().MinReclaim = strconv.FormatInt(value, 10)
	default:
		victim.MemoryRequest, victim.StorageRequest = value, value
	}
	d, err := whatif.Again(&changed)
	if err != nil {
		t.Fatal(err)
	}
	return len(d.Order) == 0 || d.Order[0] != r.Order[0]
}

// replays takes a manager and the plugins through the scenario of a record: the same pod goes.
func replays(t *testing.T, file string, r *decision.Decision) int {
	t.Helper()
	trace, err := replay.FromRecord(r)
	if err != nil {
		t.Errorf("%s: %v", file, err)
		return 0
	}
	out, err := Replay(t.Context(), trace.Scenario, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("%s: %s: %v", file, r.ID, err)
	}
	if text, other := replay.OtherVictim(trace, out); other {
		t.Errorf("%s: %s: %s", file, r.ID, text)
	}
	return 1
}
