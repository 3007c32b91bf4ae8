package conformance

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

var rankGroup = group{name: "rank", rpc: "Rank", needs: eviction.CanRank, checks: []check{
	{
		name: "rank", input: "100 candidates, for each signal that is offered for it, hard and soft", gate: true,
		expect: fmt.Sprintf("an order within %s", rankTime), run: ranked,
	},
	{
		name: "rank-only-candidates", input: "100 candidates",
		expect: "no uid that was not sent", run: rankedOnlyCandidates,
	},
	{
		name: "rank-once", input: "100 candidates",
		expect: "no uid twice", run: rankedOnce,
	},
	{
		name: "rank-deterministic", input: "the same 100 candidates five times",
		expect: "the same order", run: rankedTheSame,
	},
	{
		name: "rank-independent", input: "100 candidates, then others with the same uids, then the first ones again",
		expect: "the same order as at first: nothing is kept from call to call", run: rankedIndependently,
	},
	{
		name: "rank-ties", input: "30 candidates that differ in uid and name only, and the same in reverse",
		expect: "ties keep the order of the candidates, or names decide in both", run: rankedTies,
	},
	{
		name: "rank-few", input: "no candidates, and one",
		expect: "an empty order, and at most that one", run: rankedFew,
	},
	{
		name: "rank-500", input: "500 candidates",
		expect: fmt.Sprintf("an order within %s", rankTime), run: func(ctx context.Context, t *target) error { return rankMany(ctx, t, 500) },
	},
	{
		name: "rank-odd-rows", input: "rows that nodes have: no start time, no figures, no_stats, priorities of 32 bits, odd labels and annotations",
		expect: "an order", run: rankedOddRows,
	},
	{
		name: "rank-impossible-rows", input: "an empty uid, usage of 2^63-1 and below zero, times before 1970, negative requests",
		expect: "an order or a refusal", run: rankedImpossibleRows,
	},
	{
		name: "rank-newer-host", input: "fields and a measurement state that do not exist yet",
		expect: "an order", run: rankedByNewer,
	},
	{
		name: "rank-parallel", input: "20 calls with different candidates at once",
		expect: "the orders that come one by one", run: rankedInParallel,
	},
	{
		name: "rank-cancelled", input: "30 calls that end before their answer, then one more",
		expect: "an answer to the last one", run: rankedAfterCancelled,
	},
	{
		name: "rank-somebody", input: "100 candidates of every class and priority",
		expect: "an order with somebody in it", run: rankedSomebody,
	},
	{
		name: "rank-namesakes", input: "40 candidates with the same name in different namespaces",
		expect: "as many of them as when their names differ", run: rankedNamesakes,
	},
}}

func ranked(ctx context.Context, t *target) error {
	for _, signal := range t.offering(eviction.CanRank) {
		for _, soft := range []bool{false, true} {
			req := t.rankRequest(signal, t.candidates(100))
			if soft {
				req.Hard, req.Threshold = false, eviction.Threshold{Fraction: 0.1}
			}
			if _, err := t.rank(ctx, req); err != nil {
				return fmt.Errorf("%s: %w", signal, err)
			}
		}
	}
	return nil
}

// foreign wants no uid but those of candidates, repeated none twice.
func foreign(candidates []eviction.Candidate, order []string) error {
	for _, uid := range order {
		if !slices.ContainsFunc(candidates, func(c eviction.Candidate) bool { return c.Pod.UID == uid }) {
			return fmt.Errorf("uid %.80q was never sent", uid)
		}
	}
	return nil
}

func repeated(order []string) error {
	seen := map[string]bool{}
	for _, uid := range order {
		if seen[uid] {
			return fmt.Errorf("uid %.80q is there twice", uid)
		}
		seen[uid] = true
	}
	return nil
}

func rankedOnlyCandidates(ctx context.Context, t *target) error {
	candidates := t.candidates(100)
	order, err := t.rankOne(ctx, candidates)
	if err != nil {
		return err
	}
	return foreign(candidates, order)
}

func rankedOnce(ctx context.Context, t *target) error {
	order, err := t.rankOne(ctx, t.candidates(100))
	if err != nil {
		return err
	}
	return repeated(order)
}

func rankedTheSame(ctx context.Context, t *target) error {
	first, err := t.rankOne(ctx, t.candidates(100))
	for range 4 {
		if err != nil {
			return err
		}
		var again []string
		again, err = t.rankOne(ctx, t.candidates(100))
		if err == nil && !slices.Equal(first, again) {
			return fmt.Errorf("first %s, then %s", brief(first), brief(again))
		}
	}
	return err
}

// rankedIndependently sends, in between, pods of the same uids whose figures are
// those of others.
func rankedIndependently(ctx context.Context, t *target) error {
	first, err := t.rankOne(ctx, t.candidates(100))
	if err != nil {
		return err
	}
	others := t.candidates(100)
	for i := range others {
		from := &others[len(others)-1-i]
		if i < len(others)/2 {
			others[i].Measurement.Usage, from.Measurement.Usage = from.Measurement.Usage, others[i].Measurement.Usage
			others[i].Pod.Priority, from.Pod.Priority = from.Pod.Priority, others[i].Pod.Priority
			others[i].Pod.StartTime, from.Pod.StartTime = from.Pod.StartTime, others[i].Pod.StartTime
		}
	}
	for range 3 {
		if _, err := t.rankOne(ctx, others); err != nil {
			return err
		}
	}
	again, err := t.rankOne(ctx, t.candidates(100))
	if err == nil && !slices.Equal(first, again) {
		return fmt.Errorf("first %s, then %s", brief(first), brief(again))
	}
	return err
}

func rankedTies(ctx context.Context, t *target) error {
	ties := t.candidates(30)
	for i := range ties {
		c := &ties[i]
		uid, name := c.Pod.UID, c.Pod.Name
		*c = ties[0]
		c.Pod.UID, c.Pod.Name, c.Measurement.UID = uid, name, uid
	}
	there, err := t.rankOne(ctx, ties)
	if err != nil {
		return err
	}
	slices.Reverse(ties)
	back, err := t.rankOne(ctx, ties)
	if err != nil || slices.Equal(there, back) { // by name or uid
		return err
	}
	slices.Reverse(back)
	if !slices.Equal(there, back) {
		slices.Reverse(back)
		return fmt.Errorf("%s, and of the same in reverse %s", brief(there), brief(back))
	}
	if !slices.IsSorted(there) {
		return fmt.Errorf("%s, which is not the order of the candidates", brief(there))
	}
	return nil
}

func rankedFew(ctx context.Context, t *target) error {
	for n := range 2 {
		order, err := t.rankOne(ctx, t.candidates(n))
		if err != nil {
			return fmt.Errorf("%d candidates: %w", n, err)
		}
		if len(order) > n {
			return fmt.Errorf("%d candidates: order %q", n, order)
		}
	}
	return nil
}

func rankMany(ctx context.Context, t *target, n int) error {
	_, err := t.rankOne(ctx, t.candidates(n))
	return err
}

// oddTexts are values that people give to labels and annotations.
var oddTexts = []string{"", " ", "-1", "1e309", "NaN", "1,5", "99999999999999999999", "0x10", "größe \U0001F4A5", strings.Repeat("x", 4096), "{\"a\":", "\x00", "true", "%d"}

func rankedOddRows(ctx context.Context, t *target) error {
	rows := t.candidates(len(oddTexts) + 8)
	for i, text := range oddTexts {
		for _, key := range t.plugin.WantAnnotations {
			rows[i].Pod.Annotations[key] = text
		}
		for _, key := range t.plugin.WantLabels {
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

// rankWell wants an order that keeps the rules.
func rankWell(ctx context.Context, t *target, rows []eviction.Candidate) error {
	for _, signal := range t.offering(eviction.CanRank) {
		if _, err := t.rank(ctx, t.rankRequest(signal, rows)); err != nil {
			return fmt.Errorf("%s: %w", signal, err)
		}
	}
	return nil
}

func rankedImpossibleRows(ctx context.Context, t *target) error {
	rows := t.candidates(12)
	rows[0].Pod.UID = ""
	rows[1].Measurement.Usage = usageOfAll(t, math.MaxInt64)
	rows[2].Measurement.Usage = usageOfAll(t, math.MinInt64)
	rows[3].Pod.StartTime = time.Unix(0, math.MinInt64+1)
	rows[4].Pod.StartTime = time.Unix(0, math.MaxInt64)
	rows[5].Pod.MemoryRequestBytes, rows[5].Pod.EphemeralStorageRequestBytes = math.MinInt64, math.MinInt64
	rows[6].Pod.MemoryRequestBytes, rows[6].Pod.EphemeralStorageRequestBytes = math.MaxInt64, math.MaxInt64
	rows[7].Pod.QoSClass = "Golden"
	rows[8].Measurement.State = eviction.MeasurementUnknown
	rows[9].Measurement.WorkingSetBytes = eviction.Some(-1)
	return answered(rankWell(ctx, t, rows))
}

func usageOfAll(t *target, v int64) []eviction.SignalUsage {
	var out []eviction.SignalUsage
	for _, spec := range t.plugin.Signals {
		out = append(out, eviction.SignalUsage{Signal: spec.Signal, Value: v})
	}
	return out
}

func rankedByNewer(ctx context.Context, t *target) error {
	m := message{}.number(1, 1).text(2, string(t.offering(eviction.CanRank)[0])).text(3, "bytes").
		bytes(4, message{}.number(1, 100<<20).newer()).number(5, 60<<20).number(6, 8<<30).number(7, 40<<20).number(8, 1)
	candidates := t.candidates(10)
	for i := range candidates {
		m = m.bytes(9, t.candidateMessage(&candidates[i], int64(90+i)))
	}
	return t.run.options.within(ctx, rankTime, func(ctx context.Context) error {
		_, err := t.call(ctx, "Rank", m.newer())
		return err
	})
}

func rankedInParallel(ctx context.Context, t *target) error {
	candidates := t.candidates(20 * 30)
	want := make([][]string, 20)
	for i := range want {
		var err error
		if want[i], err = t.rankOne(ctx, candidates[i*30:(i+1)*30]); err != nil {
			return err
		}
	}
	return all(len(want), func(i int) error {
		got, err := t.rankOne(ctx, candidates[i*30:(i+1)*30])
		if err == nil && !slices.Equal(got, want[i]) {
			return fmt.Errorf("%s, one by one %s", brief(got), brief(want[i]))
		}
		return err
	})
}

func rankedAfterCancelled(ctx context.Context, t *target) error {
	candidates := t.candidates(100)
	givenUp(ctx, 30, func(ctx context.Context) error {
		_, err := t.rankOne(ctx, candidates)
		return err
	})
	_, err := t.rankOne(ctx, t.candidates(1))
	return err
}

// brief shows the beginning of an order, by what tells its uids apart.
func brief(order []string) string {
	const most = 8
	var b strings.Builder
	for i, uid := range order {
		if i == most {
			fmt.Fprintf(&b, " ... (%d)", len(order))
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimLeft(uid[max(0, len(uid)-4):], "0"))
		if strings.HasSuffix(uid, "0000") {
			b.WriteByte('0')
		}
	}
	return "[" + b.String() + "]"
}
