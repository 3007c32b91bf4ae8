package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/shared/eviction"
)

// night returns the records of a night: a reload raises the threshold, a ReplicaSet is evicted five times,
// eleven seconds apart, each after the end of the one before, and the kubelet evicts a pod for its volume.
func night(at time.Time) (all []*decision.Decision) {
	used, released := int64(3<<30), int64(2900<<20)
	raised := at.Add(-2 * time.Second)
	for i := range 5 {
		now := at.Add(time.Duration(i) * 11 * time.Second)
		since := now.Add(-6 * time.Second)
		if i == 0 {
			since = raised
		}
		pod := fmt.Sprintf("shop/report-5f-%c", 'a'+i)
		available := int64(900 << 20)
		r := &decision.Decision{
			ID: decision.NewID(now), Kind: decision.KindEviction, Time: now, Now: now, Node: "n1", Trigger: "wake", Causes: "memcg",
			Victim:       &decision.Victim{Pod: pod, UID: fmt.Sprint("report-", i), Signal: "memory.available", Owner: "ReplicaSet/report-5f", Used: &used, Message: "The node was low on resource: memory. "},
			Thresholds:   []decision.Threshold{{Signal: eviction.MemoryAvailable, Value: "1Gi", Acted: true, Actionable: true, GraceOver: true, Since: &since, InForce: &raised}},
			Observations: []decision.Observation{{Signal: eviction.MemoryAvailable, State: decision.StateObserved, Available: available, Capacity: 8 << 30}},
			Candidates:   []decision.Candidate{{UID: fmt.Sprint("report-", i), Pod: pod, Usage: used}, {UID: "web", Pod: "shop/web", Usage: 1 << 30}}, Order: []int{0, 1},
			Outcome: &decision.Outcome{State: "finished", KilledMS: 1000, GoneMS: 1100, Released: &released, ReliefMS: 1200, After: &decision.Series{
				Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 11_000, Available: []int64{900, 0, 2900, -900, -1000, -900, -100, 0, 0, 0, 0, 0},
			}},
			Before: decision.Before{
				Growth: &decision.Growth{SinceMS: -300_000, Lost: 6 << 30, Pods: 6 << 30, Protected: true, Most: []decision.Grown{{UID: fmt.Sprint("report-", i), Pod: pod, By: 3 << 30}}},
				Curves: []string{pod, "shop/web"}, Usage: []decision.UsageSample{{MS: -6_000, First: pod, Used: []int64{2400 << 20, 1 << 30}}, {MS: -1_900, First: pod, Used: []int64{2900 << 20, 1 << 30}}},
				Signals: []decision.Series{{Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 0, Available: []int64{2000, -1100, 0, 0, 0, 0, 0, 0}}},
				Marks: []decision.Mark{
					{What: decision.MarkPlugin, Text: "plugin memory ended", MS: decision.MS(at.Add(-time.Minute), now), UntilMS: decision.MS(at.Add(-time.Minute), now)},
					{What: decision.MarkReload, Text: "memory.available<1Gi, before: memory.available<500Mi", MS: decision.MS(raised, now), UntilMS: decision.MS(raised, now), Former: []decision.Threshold{{Signal: eviction.MemoryAvailable, Value: "500Mi"}}},
				},
			},
		}
		if i > 0 {
			r.Marks = append(r.Marks, decision.Mark{What: decision.MarkWait, Text: fmt.Sprintf("waits for the kubelet's pace after shop/report-5f-%c: the next pod replaces one that was evicted", 'a'+i-1), MS: -6000})
		}
		if i == 4 {
			r.Outcome.After = &decision.Series{Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 300_000, Available: append([]int64{900, 0, 4900}, make([]int64, 298)...)}
		}
		all = append(all, r)
	}
	other := at.Add(time.Minute)
	return append(all, &decision.Decision{
		ID: decision.NewID(other), Kind: decision.KindOther, Time: other, Node: "n1", ByOthers: decision.ByOthers{By: "the kubelet"},
		Victim: &decision.Victim{Pod: "shop/cache-0", UID: "cache", Message: `Usage of EmptyDir volume "s" exceeds the limit "1Gi". `, Owner: "StatefulSet/cache"},
	})
}

// Five evictions of one ReplicaSet were five rows without a connection, and why each had waited was not said.
func TestANightIsUnderstood(t *testing.T) {
	at := time.Date(2026, 1, 1, 2, 0, 0, 123_456, time.UTC)
	all := night(at)
	dir := recorded(t, all...)
	ask := func(args ...string) string {
		t.Helper()
		got := evictctl(t, append(args, "--state-dir", dir)...)
		if got.Code != command.ExitFine {
			t.Fatalf("%v: %d %s", args, got.Code, got.Errors)
		}
		return got.Out
	}
	contains := func(what, text string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), w) {
				t.Errorf("%s: want %q in\n%s", what, w, text)
			}
		}
	}
	list := ask("evictions")
	contains("evictions", list,
		"e20260101T020000 2026-01-01 02:00:00 eviction shop/report-5f-a ReplicaSet/report-5f memory.available 3Gi 2.83Gi gone after 1.1s "+all[0].ID,
		"02:00:11 eviction shop/report-5f-b ReplicaSet/report-5f memory.available 3Gi 2.83Gi gone after 1.1s; 2nd of ReplicaSet/report-5f in 10m0s "+all[1].ID,
		"5th of ReplicaSet/report-5f in 10m0s: it is made again and again",
		`e20260101T020100 2026-01-01 02:01:00 by the kubelet shop/cache-0 StatefulSet/cache - - - Usage of EmptyDir volume "s" exceeds the limit "1Gi".`)
	if strings.Count(list, "e20260101T020000") != 1 {
		t.Errorf("want the episode once in\n%s", list)
	}
	// Of a filtered list the fifth was the first, in an episode of its own.
	for _, filter := range []string{"shop/report-5f-e", "--namespace shop", "--signal memory.available"} {
		contains("evictions "+filter, ask(append([]string{"evictions"}, strings.Fields(filter)...)...), "5th of ReplicaSet/report-5f", "e20260101T020000")
	}
	episode := ask("explain", "e20260101T020000")
	contains("explain EPISODE", episode,
		"2026-01-01 02:00:00 UTC 5 decisions, 5 evictions until 2026-01-01 02:00:44 UTC on n1",
		"over yes: 5.66Gi was available 5m0s after the last decision", "what changed 01:59:00 plugin memory ended 01:59:58 reload: memory.available<1Gi, before: memory.available<500Mi", "shop/report-5f-a by 3Gi other pods by 3Gi",
		"advice it was still growing by 91Mi/s: find what grows, or give the pod a limit",
		"02:00:00 shop/report-5f-a was evicted for memory.available; a reload put memory.available<1Gi in force at 01:59:58, before: memory.available<500Mi; gone after 1.1s",
		"needed: without it memory.available would have fallen to 0 (estimated)",
		"02:00:11 shop/report-5f-b was evicted for memory.available",
		"not earlier: waited 6s for the kubelet's pace after shop/report-5f-a: the next pod replaces one that was evicted",
		"02:00:44 shop/report-5f-e",
		"not needed, as it turned out: without it memory.available would have stayed at 2.83Gi or more (estimated)",
		"record "+all[4].ID)
	for _, owner := range []string{"deployment/report", "replicaset/shop/report-5f", "ReplicaSet/shop/report-5f", "deployment/shop/report", "shop/report", "report-5f", "20260101T0200"} {
		contains("explain "+owner, ask("explain", owner), "5 evictions until", "shop/report-5f-a", "shop/report-5f-e")
	}
	for _, other := range []string{"deployment/shop/report-5f", "statefulset/shop/report", "replicaset/other/report-5f", "deployment/shop/"} {
		if got := evictctl(t, "explain", other, "--state-dir", dir); got.Code == command.ExitFine {
			t.Errorf("explain %s: %s", other, got.Out)
		}
	}
	contains("explain POD", ask("explain", "shop/report-5f-a"),
		"shop/report-5f-a was evicted for memory.available; a reload put memory.available<1Gi in force at 01:59:58, before: memory.available<500Mi",
		"not earlier: a reload put memory.available<1Gi in force at 01:59:58, before: memory.available<500Mi",
		"what changed 01:59:00 plugin memory ended 01:59:58 reload: memory.available<1Gi, before: memory.available<500Mi")
	contains("explain of another's", ask("explain", "cache"), "shop/cache-0 was evicted by the kubelet")
	got := evictctl(t, "explain", "shop/repotr-5f-a", "--state-dir", dir)
	contains("explain of an unknown pod", got.Errors, "no record of it", "is it shop/report-5f-a?", "the oldest record is of 2026-01-01 02:00:00, see recordsMaxAge")
	if got := evictctl(t, "explain", "e20260101T030000", "--state-dir", dir); got.Code == command.ExitFine || !strings.Contains(got.Errors, "no record of this episode") {
		t.Errorf("an episode that there was not: %d %s%s", got.Code, got.Out, got.Errors)
	}
}
