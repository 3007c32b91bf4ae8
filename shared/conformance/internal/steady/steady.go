// Package steady checks for growth with more and larger calls than other checks make.
package steady

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/measure"
	"github.com/evictd/evictd/shared/conformance/internal/observe"
	"github.com/evictd/evictd/shared/conformance/internal/rank"
	"github.com/evictd/evictd/shared/conformance/internal/sample"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// leastRounds of calls show whether a process grows, mostRounds whether it keeps growing:
	// heaps grow at first, leaks always.
	leastRounds = 3
	mostRounds  = 8
	// roundCalls is the number of calls in a round: together 300 for a plugin that does not grow.
	roundCalls = 100
	// roundMemory is the growth of memory per round, in bytes, that counts as a leak.
	roundMemory = 4 << 20
)

// Group makes more and larger calls than other groups, and checks for growth.
var Group = check.Group{Name: "steady", Checks: []check.Check{
	{Name: "steady-observe", RPC: "Observe", Input: "300 calls in other passes and views", Needs: eviction.CanObserve, Expect: growthExpected(), Run: observedSteadily, Limit: steadyTime},
	{Name: "steady-measure", RPC: "Measure", Input: "300 calls with other pods", Needs: eviction.CanMeasure, Expect: growthExpected(), Run: measuredSteadily, Limit: steadyTime},
	{
		Name: "steady-rank", RPC: "Rank", Input: "300 calls with the same candidates, in other passes, with other amounts available and short", Needs: eviction.CanRank,
		Expect: "the same order for the same figures, in whatever pass", Run: rankedSteadily, Limit: steadyTime,
	},
	{Name: "steady-rank-growth", RPC: "Rank", Input: "the same 300 calls", Needs: eviction.CanRank, Expect: growthExpected(), Run: check.Later(func(_ *check.Target, kept rankGrowth) error { return kept.error })},
	{
		Name: "steady-scale", RPC: "Rank", Input: fmt.Sprintf("%d candidates, and %d", fewCandidates, manyCandidates), Needs: eviction.CanRank,
		Expect: fmt.Sprintf("less than %d times the computing for ten times as many, or %s of it; at most %s of waiting", worstRatio, bearable, waitTime), Run: rankedToScale, Limit: 8 * scaleTime,
	},
}}

// steadyTime limits a check with hundreds of calls.
const steadyTime = 20 * time.Second

// A holding is a kind of resource that a process may leak.
type holding struct {
	what string
	of   func(check.Usage) int64
	// least is the growth in one round that counts as a leak.
	least int64
}

var holdings = []holding{
	{"bytes of memory", func(u check.Usage) int64 { return u.RSSBytes }, roundMemory},
	{"descriptors", func(u check.Usage) int64 { return int64(u.Descriptors) }, roundCalls / 10},
	{"threads", func(u check.Usage) int64 { return int64(u.Threads) }, roundCalls / 10},
	{"children", func(u check.Usage) int64 { return int64(u.Children) }, roundCalls / 50},
}

// steadily makes rounds of calls until no resource has grown in all rounds but one: a garbage
// collection in a single round does not hide a leak. It returns early if a call
// fails; a refusal is left to other checks.
func steadily(t *check.Target, call func(i int) error) (grown, err error) {
	first := t.Usage()
	was, growing, missed := first, holdings, map[string]int{}
	for round := range mostRounds {
		for i := range roundCalls {
			err := call(round*roundCalls + i)
			if errors.Is(err, eviction.ErrRefused) {
				return nil, check.NotApplicable("it refuses such a call on this machine: " + err.Error())
			}
			if err != nil {
				return nil, err
			}
		}
		now := t.Usage()
		growing = slices.DeleteFunc(slices.Clone(growing), func(h holding) bool {
			if h.of(now)-h.of(was) < h.least {
				missed[h.what]++
			}
			return missed[h.what] > 1
		})
		if len(growing) == 0 && round+1 >= leastRounds {
			return nil, nil
		}
		was = now
	}
	var bad []error
	for _, h := range growing {
		bad = append(bad, fmt.Errorf("%d %s, after %d calls %d: more after each %d of them",
			h.of(first), h.what, mostRounds*roundCalls, h.of(was), roundCalls))
	}
	return errors.Join(bad...), nil
}

// The node's states in rankedSteadily: above the threshold, at it, far below.
var pressures = []struct {
	available, shortfall int64
	hard                 bool
}{
	{60 << 20, 40 << 20, true},
	{0, 100<<20 + 1, true},
	{-5, 1, false},
	{99 << 20, 1, true},
	{8 << 30, 1 << 40, false},
}

// rankedSteadily varies all of a request except its candidates. The order must be the same for
// the same figures in every pass.
func rankedSteadily(ctx context.Context, t *check.Target) error {
	candidates := sample.Candidates(t, 100)
	first := map[int][]string{}
	var changed error
	grown, err := steadily(t, func(i int) error {
		k := i % len(pressures)
		req := sample.RankRequest(t, t.Offering(eviction.CanRank)[0], candidates)
		req.Pass, req.Hard = uint64(i/len(pressures)+1), pressures[k].hard
		req.Available, req.Shortfall = pressures[k].available, pressures[k].shortfall
		order, err := rank.Call(ctx, t, req)
		if err != nil {
			return fmt.Errorf("pass %d, available %d, shortfall %d: %w", req.Pass, req.Available, req.Shortfall, err)
		}
		if first[k] == nil {
			first[k] = order
		} else if !slices.Equal(first[k], order) && changed == nil {
			changed = fmt.Errorf("available %d, shortfall %d: first %s, in pass %d %s",
				req.Available, req.Shortfall, rank.Brief(first[k]), req.Pass, rank.Brief(order))
		}
		return nil
	})
	t.Kept = rankGrowth{grown}
	return cmp.Or(err, changed)
}

// rankGrowth is the growth found by rankedSteadily, kept for the check after it.
type rankGrowth struct{ error }

func observedSteadily(ctx context.Context, t *check.Target) error {
	signals := t.Offering(eviction.CanObserve)
	grown, err := steadily(t, func(i int) error {
		in := eviction.PassView{Pass: uint64(i/3) + 1, View: eviction.ViewBefore}
		if i%3 == 2 {
			in.View = eviction.ViewAfterReclaim
		}
		_, err := observe.In(ctx, t, eviction.ObserveDeadline, in, signals)
		return err
	})
	return cmp.Or(err, grown)
}

func measuredSteadily(ctx context.Context, t *check.Target) error {
	pods := sample.Pods(t, 300)
	grown, err := steadily(t, func(i int) error {
		from := i * 3 % len(pods)
		return measure.Call(ctx, t, eviction.MeasureDeadline, measure.Message(t, measure.DetailPod, pods[from:min(from+3, len(pods))])).Err
	})
	return cmp.Or(err, grown)
}

// growthExpected says what the checks of growth expect.
func growthExpected() string {
	var parts []string
	for _, h := range holdings {
		parts = append(parts, fmt.Sprintf("%d %s", h.least, h.what))
	}
	return fmt.Sprintf("no growth that goes on: each %d calls at least %s more", roundCalls, strings.Join(parts, " or "))
}

const (
	// manyCandidates is ten times the number of pods on a large node.
	manyCandidates = 5000
	// fewCandidates is the size of the ranking for comparison.
	fewCandidates = 500
	// worstRatio is more than the factor of n log n for ten times as many, less than that of n*n.
	worstRatio = 40
	// bearable is a time of computing that is always acceptable.
	bearable = 100 * time.Millisecond
	// scaleTime limits one ranking of manyCandidates, waitTime the part of it without computing.
	scaleTime = 4 * time.Second
	waitTime  = 2 * eviction.RankDeadline
)

// rankedToScale compares the cost of ranking few and many candidates.
func rankedToScale(ctx context.Context, t *check.Target) error {
	few, err := costToRank(ctx, t, fewCandidates, 15)
	if err != nil {
		return err
	}
	many, err := costToRank(ctx, t, manyCandidates, 3)
	if _, late := errors.AsType[check.Slow](err); err != nil && !late {
		return err
	}
	if many.computed > bearable && many.computed > worstRatio*few.computed {
		return check.Slow(fmt.Sprintf("%d candidates cost %s of computing, %d cost %s or more, which is %d times as much: want less than %d times",
			fewCandidates, few.computed.Round(time.Microsecond), manyCandidates, many.computed.Round(time.Millisecond), many.computed/few.computed, worstRatio))
	}
	if many.waited > t.Patient(waitTime) {
		return check.Slow(fmt.Sprintf("no answer within %s of waiting: %d candidates took %s, of which %s of computing, %d took %s",
			t.Patient(waitTime), manyCandidates, many.took.Round(time.Millisecond), many.computed.Round(time.Microsecond), fewCandidates, few.took.Round(time.Microsecond)))
	}
	return nil
}

// rankingCost has the minimum of each time over several rankings of the same candidates: other
// work on the machine only adds to them.
type rankingCost struct {
	took time.Duration
	// computed is the time that the plugin's threads ran.
	computed time.Duration
	// waited is the rest of the time, except waiting for a processor.
	waited time.Duration
}

// costToRank ranks n candidates that many times, or until a ranking fails or is late.
func costToRank(ctx context.Context, t *check.Target, n, rankings int) (cost rankingCost, err error) {
	req := sample.RankRequest(t, t.Offering(eviction.CanRank)[0], sample.Candidates(t, n))
	cost = rankingCost{math.MaxInt64, math.MaxInt64, math.MaxInt64}
	for range rankings {
		before, begin := t.Usage(), time.Now()
		_, err = rank.In(ctx, t, scaleTime, req)
		took, now := time.Since(begin), t.Usage()
		computed := now.Ran - before.Ran
		if computed <= 0 { // the threads that computed have ended
			computed = took
		}
		waited := took - computed - (now.Ready - before.Ready)
		if now.Shared {
			waited = took
		}
		cost = rankingCost{min(cost.took, took), min(cost.computed, computed), min(cost.waited, waited)}
		if err != nil {
			break
		}
	}
	return cost, err
}
