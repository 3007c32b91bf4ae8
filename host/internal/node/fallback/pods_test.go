package fallback

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// podsOn puts two pods onto a node: one in the hierarchy of memory, both in that of
// tasks.
func podsOn(t *testing.T, facts eviction.NodeFacts) []eviction.Pod {
	t.Helper()
	for name, text := range map[string]string{
		"memory/kubepods/burstable/poda/memory.usage_in_bytes": fmt.Sprintln(3 << 20),
		"memory/kubepods/burstable/poda/memory.stat":           fmt.Sprintln("total_inactive_file", 1<<20),
		"pids/tasks": "",
		"pids/kubepods/burstable/poda/pids.current": "7\n",
		"pids/kubepods/podb/pids.current":           "70\n",
	} {
		testos.Put(t, filepath.Join(facts.RootDir, "sys/fs/cgroup", name), text, 0o644)
	}
	return []eviction.Pod{
		{UID: "a", QoSClass: eviction.Burstable},
		{UID: "b", QoSClass: eviction.Guaranteed, Running: true},
		{UID: "gone", QoSClass: eviction.BestEffort},
		{UID: "../x", QoSClass: eviction.BestEffort},
	}
}

func TestPodsAreMeasuredAsThePluginsDo(t *testing.T) {
	for _, driver := range []string{"cgroupfs", ""} {
		facts := madeUp(t)
		facts.CgroupDriver = driver
		pods := podsOn(t, facts)
		r := New(facts)
		for s, want := range map[eviction.Signal][]string{
			eviction.MemoryAvailable:            {"a 1 2097152", "gone 2 0"},
			eviction.AllocatableMemoryAvailable: {"a 1 2097152", "gone 2 0"},
			eviction.PIDAvailable:               {"a 1 7", "b 1 70", "gone 2 0"},
			eviction.NodeFsAvailable:            nil,
		} {
			var got []string
			for _, m := range r.Measure(t.Context(), s, pods) {
				got = append(got, fmt.Sprint(m.UID, " ", m.State, " ", m.UsageFor(s)))
			}
			if !slices.Equal(got, want) {
				t.Errorf("driver %q, %s: %q, want %q", driver, s, got, want)
			}
		}
	}
}

// The host ranked a pod first that used more than the machine has.
func TestPodsWithFiguresThatCannotBeAreNotMeasured(t *testing.T) {
	facts := madeUp(t)
	pods := podsOn(t, facts)
	for name, text := range map[string]string{
		"memory/kubepods/burstable/poda/memory.usage_in_bytes": fmt.Sprintln(1 << 50),
		"pids/kubepods/podb/pids.current":                      "5000000\n",
	} {
		testos.Put(t, filepath.Join(facts.RootDir, "sys/fs/cgroup", name), text, 0o644)
	}
	r := New(facts)
	for s, want := range map[eviction.Signal]string{eviction.MemoryAvailable: "gone ", eviction.PIDAvailable: "a gone "} {
		got := ""
		for _, m := range r.Measure(t.Context(), s, pods) {
			got += m.UID + " "
		}
		if got != want {
			t.Errorf("%s: %q are measured, want %q", s, got, want)
		}
	}
}

func TestACgroupThatHangsDelaysNoPod(t *testing.T) {
	facts := madeUp(t)
	pods := podsOn(t, facts)
	synctest.Test(t, func(t *testing.T) {
		r := New(facts)
		slot := r.meters[eviction.MemoryAvailable].slot
		slot <- struct{}{} // as if a read was in the kernel
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := r.Measure(ctx, eviction.MemoryAvailable, pods); len(got) != 0 {
			t.Errorf("%+v, want no answer", got)
		}
		if got := r.Measure(t.Context(), eviction.PIDAvailable, pods); len(got) != 3 {
			t.Errorf("tasks: %+v, want three answers", got)
		}
		<-slot
		if got := r.Measure(t.Context(), eviction.MemoryAvailable, pods); len(got) != 2 {
			t.Errorf("after it came back: %+v, want two answers", got)
		}
	})
}
