// Package rank checks Rank.
package rank

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
	"github.com/evictd/evictd/shared/conformance/internal/sample"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// request wants the order that comes when no other call runs.
var request check.Request = func(ctx context.Context, t *check.Target, from, to int) func(context.Context, time.Duration) error {
	candidates := sample.Candidates(t, to)[from:]
	want, alone := One(ctx, t, candidates)
	return func(ctx context.Context, limit time.Duration) error {
		got, err := In(ctx, t, limit, sample.RankRequest(t, t.Offering(eviction.CanRank)[0], candidates))
		if alone == nil && err == nil && !slices.Equal(got, want) {
			return fmt.Errorf("%s, one by one %s", Brief(got), Brief(want))
		}
		return cmp.Or(alone, err)
	}
}

// Group has the checks of Rank.
var Group = check.Group{Name: "rank", RPC: "Rank", Needs: eviction.CanRank, Checks: []check.Check{
	{
		Name: "rank", Input: "100 candidates, for each signal that is offered for it, hard and soft", Gate: true,
		Expect: fmt.Sprintf("an order within %s", eviction.RankDeadline), Run: ranked,
	},
	{Name: "rank-only-candidates", Input: "100 candidates", Expect: "no uid that was not sent", Run: ordered(foreign)},
	{Name: "rank-once", Input: "100 candidates", Expect: "no uid twice", Run: ordered(repeated)},
	{Name: "rank-deterministic", Input: "the same 100 candidates five times", Expect: "the same order", Run: rankedTheSame},
	{
		Name: "rank-independent", Input: "100 candidates, then others with the same uids, then the first ones again",
		Expect: "the same order as at first: nothing is kept from call to call", Run: rankedIndependently,
	},
	{
		Name: "rank-ties", Input: "30 candidates that differ in uid and name only, and the same in reverse",
		Expect: "ties keep the order of the candidates, or names decide in both", Run: rankedTies,
	},
	{Name: "rank-few", Input: "no candidates, and one", Expect: "an empty order, and at most that one", Run: rankedFew},
	{Name: "rank-500", Input: "500 candidates", Expect: fmt.Sprintf("an order within %s", eviction.RankDeadline), Run: ranked500},
	{Name: "rank-odd-rows", Input: "rows that nodes have: no start time, no figures, no_stats, priorities of 32 bits, odd labels and annotations", Expect: "an order", Run: rankedOddRows},
	{Name: "rank-impossible-rows", Input: "an empty uid, usage of 2^63-1 and below zero, times before 1970, negative requests", Expect: "an order or a refusal", Run: rankedImpossibleRows},
	{Name: "rank-newer-host", Input: "fields and a measurement state that do not exist yet", Expect: "an order", Run: rankedByNewer},
	{Name: "rank-parallel", Input: "20 calls with different candidates at once", Expect: "the orders that come one by one", Run: request.Parallel(20, 30, eviction.RankDeadline)},
	{Name: "rank-cancelled", Input: "30 calls that end before their answer, then one more", Expect: "an answer to the last one", Run: request.Cancelled(30, eviction.RankDeadline)},
	{Name: "rank-somebody", Input: "100 candidates of every class and priority", Expect: "an order with somebody in it", Run: rankedSomebody},
	{Name: "rank-namesakes", Input: "40 candidates with the same name in different namespaces", Expect: "as many of them as when their names differ", Run: rankedNamesakes},
}}

func ranked(ctx context.Context, t *check.Target) error {
	return eachSignal(t, func(signal eviction.Signal) error {
		req := sample.RankRequest(t, signal, sample.Candidates(t, 100))
		if _, err := Call(ctx, t, req); err != nil {
			return err
		}
		req.Hard, req.Threshold = false, eviction.Threshold{Fraction: 0.1}
		_, err := Call(ctx, t, req)
		return err
	})
}

// eachSignal calls do for each signal that the plugin offers to rank for.
func eachSignal(t *check.Target, do func(eviction.Signal) error) error {
	for _, signal := range t.Offering(eviction.CanRank) {
		if err := do(signal); err != nil {
			return fmt.Errorf("%s: %w", signal, err)
		}
	}
	return nil
}

// foreign returns an error for a UID that is not a candidate's, repeated for one listed twice.
func foreign(candidates []eviction.Candidate, order []string) error {
	for _, uid := range order {
		if !slices.ContainsFunc(candidates, func(c eviction.Candidate) bool { return c.Pod.UID == uid }) {
			return fmt.Errorf("uid %.80q was never sent", uid)
		}
	}
	return nil
}

func repeated(_ []eviction.Candidate, order []string) error {
	for i, uid := range order {
		if slices.Contains(order[:i], uid) {
			return fmt.Errorf("uid %.80q is there twice", uid)
		}
	}
	return nil
}

// ordered returns a check that applies see to the order of 100 candidates.
func ordered(see func([]eviction.Candidate, []string) error) check.Run {
	return func(ctx context.Context, t *check.Target) error {
		candidates := sample.Candidates(t, 100)
		order, err := One(ctx, t, candidates)
		return cmp.Or(err, see(candidates, order))
	}
}

func rankedTheSame(ctx context.Context, t *check.Target) error {
	return asAtFirst(ctx, t, 4, func() error { return nil })
}

// rankedIndependently ranks, in between, pods with the same UIDs that have each other's figures.
func rankedIndependently(ctx context.Context, t *check.Target) error {
	others, reversed := sample.Candidates(t, 100), sample.Candidates(t, 100)
	slices.Reverse(reversed)
	for i, from := range reversed {
		others[i].Measurement.Usage = from.Measurement.Usage
		others[i].Pod.Priority = from.Pod.Priority
		others[i].Pod.StartTime = from.Pod.StartTime
	}
	return asAtFirst(ctx, t, 1, func() error {
		var err error
		for i := 0; i < 3 && err == nil; i++ {
			_, err = One(ctx, t, others)
		}
		return err
	})
}

// asAtFirst ranks the same candidates again, so many times, each time after between. The order must be the first one.
func asAtFirst(ctx context.Context, t *check.Target, times int, between func() error) error {
	first, err := One(ctx, t, sample.Candidates(t, 100))
	for i := 0; i < times && err == nil; i++ {
		if err = between(); err == nil {
			var again []string
			if again, err = One(ctx, t, sample.Candidates(t, 100)); err == nil && !slices.Equal(first, again) {
				err = fmt.Errorf("first %s, then %s", Brief(first), Brief(again))
			}
		}
	}
	return err
}

func rankedTies(ctx context.Context, t *check.Target) error {
	ties := sample.Candidates(t, 30)
	for i := range ties {
		c := &ties[i]
		uid, name := c.Pod.UID, c.Pod.Name
		*c = ties[0]
		c.Pod.UID, c.Pod.Name, c.Measurement.UID = uid, name, uid
	}
	there, err := One(ctx, t, ties)
	if err != nil {
		return err
	}
	slices.Reverse(ties)
	back, err := One(ctx, t, ties)
	if err != nil || slices.Equal(there, back) { // the order depends on the name or UID
		return err
	}
	slices.Reverse(back)
	if !slices.Equal(there, back) {
		slices.Reverse(back)
		return fmt.Errorf("%s, and of the same in reverse %s", Brief(there), Brief(back))
	}
	if !slices.IsSorted(there) {
		return fmt.Errorf("%s, which is not the order of the candidates", Brief(there))
	}
	return nil
}

func rankedFew(ctx context.Context, t *check.Target) error {
	for n := range 2 {
		order, err := One(ctx, t, sample.Candidates(t, n))
		if err != nil {
			return fmt.Errorf("%d candidates: %w", n, err)
		}
		if len(order) > n {
			return fmt.Errorf("%d candidates: order %q", n, order)
		}
	}
	return nil
}

func ranked500(ctx context.Context, t *check.Target) error {
	_, err := One(ctx, t, sample.Candidates(t, 500))
	return err
}

// oddTexts are odd values that users give to labels and annotations.
var oddTexts = []string{"", " ", "-1", "1e309", "NaN", "1,5", "99999999999999999999", "0x10", "größe \U0001F4A5", strings.Repeat("x", 4096), "{\"a\":", "\x00", "true", "%d"}

func rankedOddRows(ctx context.Context, t *check.Target) error {
	rows := sample.Candidates(t, len(oddTexts)+8)
	for i, text := range oddTexts {
		for _, key := range t.Plugin.WantAnnotations {
			rows[i].Pod.Annotations[key] = text
		}
		for _, key := range t.Plugin.WantLabels {
			rows[i].Pod.Labels[key] = text
		}
	}
	odd := rows[len(oddTexts):]
	odd[0].Pod.StartTime = time.Time{}
	odd[1].Measurement = eviction.Measurement{UID: odd[1].Pod.UID}
	odd[2].Measurement = eviction.Measurement{UID: odd[2].Pod.UID, State: eviction.NoStats}
	odd[3].Pod.Priority = math.MaxInt32
	odd[4].Pod.Priority = math.MinInt32
	odd[5].Pod.Labels, odd[5].Pod.Annotations, odd[5].Pod.Volumes = nil, nil, nil
	odd[6].Pod.QoSClass, odd[6].Pod.OwnerKind = "", ""
	odd[7].Measurement.Usage = nil
	return rankWell(ctx, t, rows)
}

// rankWell returns an error unless each signal gets an order that keeps the rules.
func rankWell(ctx context.Context, t *check.Target, rows []eviction.Candidate) error {
	return eachSignal(t, func(signal eviction.Signal) error {
		_, err := Call(ctx, t, sample.RankRequest(t, signal, rows))
		return err
	})
}

func rankedImpossibleRows(ctx context.Context, t *check.Target) error {
	rows := sample.Candidates(t, 12)
	rows[0].Pod.UID = ""
	rows[1].Measurement.Usage = sample.Usage(t, math.MaxInt64)
	rows[2].Measurement.Usage = sample.Usage(t, math.MinInt64)
	rows[3].Pod.StartTime = time.Unix(0, math.MinInt64+1)
	rows[4].Pod.StartTime = time.Unix(0, math.MaxInt64)
	rows[5].Pod.MemoryRequestBytes, rows[5].Pod.EphemeralStorageRequestBytes = math.MinInt64, math.MinInt64
	rows[6].Pod.MemoryRequestBytes, rows[6].Pod.EphemeralStorageRequestBytes = math.MaxInt64, math.MaxInt64
	rows[7].Pod.QoSClass = "Golden"
	rows[8].Measurement.State = eviction.MeasurementUnknown
	rows[9].Measurement.WorkingSetBytes = eviction.Some(-1)
	return check.Answered(rankWell(ctx, t, rows))
}

func rankedByNewer(ctx context.Context, t *check.Target) error {
	m := check.Message{}.Number(1, 1).Text(2, string(t.Offering(eviction.CanRank)[0])).Text(3, "bytes").
		Bytes(4, check.Message{}.Number(1, 100<<20).Newer()).Number(5, 60<<20).Number(6, 8<<30).Number(7, 40<<20).Number(8, 1)
	candidates := sample.Candidates(t, 10)
	for i := range candidates {
		m = m.Bytes(9, candidateMessage(t, &candidates[i], int64(90+i)))
	}
	_, err := t.CallWithin(ctx, eviction.RankDeadline, "Rank", m.Newer())
	return err
}

// Brief shows the beginning of an order, each UID by its last digits.
func Brief(order []string) string {
	const most = 8
	var ends []string
	for _, uid := range order[:min(len(order), most)] {
		ends = append(ends, cmp.Or(strings.TrimLeft(uid[max(0, len(uid)-4):], "0"), "0"))
	}
	if len(order) > most {
		ends = append(ends, fmt.Sprintf("... (%d)", len(order)))
	}
	return fmt.Sprint(ends)
}

// Call returns the ranked UIDs as the plugin sent them.
func Call(ctx context.Context, t *check.Target, req eviction.RankRequest) ([]string, error) {
	return In(ctx, t, eviction.RankDeadline, req)
}

// In is Call with another limit.
func In(ctx context.Context, t *check.Target, limit time.Duration, req eviction.RankRequest) ([]string, error) {
	ranking, err := check.Ask(ctx, t, limit, func(ctx context.Context) ([]eviction.Ranked, error) { return t.Plugin.Ranker.Rank(ctx, req) })
	return UIDs(ranking), err
}

// UIDs returns the UIDs of a ranking, in its order.
func UIDs(ranking []eviction.Ranked) []string {
	var order []string
	for _, r := range ranking {
		order = append(order, r.UID)
	}
	return order
}

// One ranks for the first signal that the plugin offers to rank for.
func One(ctx context.Context, t *check.Target, candidates []eviction.Candidate) ([]string, error) {
	return Call(ctx, t, sample.RankRequest(t, t.Offering(eviction.CanRank)[0], candidates))
}

// candidateMessage encodes a candidate as a newer host might, with the given measurement state.
func candidateMessage(t *check.Target, c *eviction.Candidate, state int64) check.Message {
	measured := check.Message(wire.EncodeMeasurement(&c.Measurement)).Number(2, state) // the last one counts
	return check.Message{}.Bytes(1, sample.PodMessage(t, &c.Pod).Newer()).Bytes(2, measured.Newer()).Newer()
}

// rankedSomebody returns an error if all pods are left out. If the plugin uses labels or
// annotations that is only noted: its rule may match none of the made-up pods.
func rankedSomebody(ctx context.Context, t *check.Target) error {
	return eachSignal(t, func(signal eviction.Signal) error {
		order, err := Call(ctx, t, sample.RankRequest(t, signal, sample.Candidates(t, 100)))
		switch {
		case err != nil || len(order) > 0:
			return err
		case slices.ContainsFunc(t.Plugin.Signals, func(s eviction.SignalSpec) bool {
			return s.Signal == signal && s.Definition != nil && s.Definition.Candidates == eviction.RankedPods
		}):
			return nil // none of them has to do with the signal
		case len(t.Plugin.WantLabels)+len(t.Plugin.WantAnnotations) > 0:
			return check.Noted(string(signal) + ": all of 100 pods are left out, which may be for their labels and annotations")
		default:
			return errors.New("all of 100 pods are left out")
		}
	})
}

// rankedNamesakes sends pods with the same name in different namespaces. No fewer of them may be
// ranked than with different names.
func rankedNamesakes(ctx context.Context, t *check.Target) error {
	candidates := sample.Candidates(t, 40)
	apart, err := One(ctx, t, candidates)
	if err != nil {
		return err
	}
	for i := range candidates {
		candidates[i].Pod.Namespace, candidates[i].Pod.Name = fmt.Sprintf("ns-%d", i), "web"
	}
	alike, err := One(ctx, t, candidates)
	if err != nil {
		return err
	}
	if err := errors.Join(foreign(candidates, alike), repeated(candidates, alike)); err != nil {
		return err
	}
	slices.Sort(apart)
	if left := len(slices.Compact(apart)); len(alike) < left {
		return fmt.Errorf("%d of %d pods, and %d when each has a name of its own", len(alike), len(candidates), left)
	}
	return nil
}
