package whatif

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/shared/eviction"
)

func TestTheAdviceIsTheLeastRequestRoundedUp(t *testing.T) {
	r := soft(t)
	want := reason.Advice{
		Request: 3 * gibibyte, Resource: "memory", NextVictim: "shop/web",
		Text: "a request of 3Gi would have spared it", YAML: "resources: {requests: {memory: 3Gi}}",
	}
	for _, usage := range []int64{3 * gibibyte, 3*gibibyte - 1000} {
		if r.Candidates[1].Usage = usage; reason.Advise(r) != want {
			t.Errorf("%d: %+v, want %+v", usage, reason.Advise(r), want)
		}
	}
	r.Ranker.Custom = true
	if a := reason.Advise(r); a != (reason.Advice{}) {
		t.Errorf("a custom ranker's order: %+v", a)
	}
}

// The owner of a pod that grew was told a request that it would have outgrown a second later.
func TestAPodThatGrowsIsNotSparedByARequest(t *testing.T) {
	const victim = 3 * gibibyte
	for _, c := range []struct {
		name    string
		samples []decision.UsageSample
		want    string
	}{
		{"by 150 MiB/s", []decision.UsageSample{{MS: -120_000, Used: []int64{100}}, {MS: -4000, Used: []int64{victim - 603<<20}}, {MS: -10, Used: []int64{victim}}}, "it was still growing by 150Mi/s: find what grows, or give the pod a limit"},
		{"slowly", []decision.UsageSample{{MS: -120_000, Used: []int64{victim - 300<<20}}}, "it grew by 2600Ki/s in the last 2m0s: find what grows, or give the pod a limit"},
		{"no longer", []decision.UsageSample{{MS: -60_000, Used: []int64{100}}, {MS: -20_000, Used: []int64{victim - 1000}}}, "a request of 3Gi would have spared it"},
		{"noise", []decision.UsageSample{{MS: -4000, Used: []int64{victim - 100<<20}}}, "a request of 3Gi would have spared it"},
		{"unknown", []decision.UsageSample{{MS: -4000, Used: []int64{-1}}}, "a request of 3Gi would have spared it"},
		{"long ago", []decision.UsageSample{{MS: -300_000, Used: []int64{100}}}, "a request of 3Gi would have spared it"},
	} {
		r := soft(t)
		r.Timeline.ObservedMS = 0
		r.Curves, r.Usage = []string{"shop/report"}, c.samples
		if a := reason.Advise(r); a.Text != c.want || (a.GrowingPerSecond > 0) != (a.Request == 0) || (a.YAML == "") != (a.Request == 0) {
			t.Errorf("%s: %+v, want %q", c.name, a, c.want)
		}
		// The same record, made a moment later.
		before := reason.Advise(r)
		for i := range r.Usage {
			r.Usage[i].MS -= 7.5
		}
		if r.Timeline.ObservedMS = -7.5; reason.Advise(r) != before {
			t.Errorf("%s: %+v, want %+v of the record", c.name, reason.Advise(r), before)
		}
	}
}

// What the advice finds with two pods is what the whole order has.
func TestTheAdviceHoldsAmongAllPods(t *testing.T) {
	advised := 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := soft(t)
		r.Candidates = nil
		for i := range 2 + random.IntN(6) {
			name := string(rune('a' + i))
			r.Candidates = append(r.Candidates, decision.Candidate{
				UID: name, Pod: "x/" + name, QoS: eviction.Burstable, Priority: int32(random.IntN(2)),
				MemoryRequest: random.Int64N(4) * gibibyte, Usage: random.Int64N(8) * gibibyte / 2,
			})
		}
		s, err := situationOf(r)
		if err != nil {
			t.Fatal(err)
		}
		r.Order = s.decide().Order
		victim, a := r.Order[0], reason.Advise(r)
		first := func(request int64) int {
			changed := *r
			changed.Candidates = slices.Clone(r.Candidates)
			changed.Candidates[victim].MemoryRequest = request
			d, err := Again(&changed)
			if err != nil {
				t.Fatal(err)
			}
			return d.Order[0]
		}
		if a.Request == 0 {
			if first(mostRequest) != victim {
				t.Errorf("seed %d: no advice, and a request would have spared the pod", seed)
			}
			continue
		}
		advised++
		if other := first(a.Request); other == victim || r.Candidates[other].Pod != a.NextVictim || first(a.Request-1<<20) != victim {
			t.Errorf("seed %d: %+v is not the least, or of another pod than %d", seed, a, other)
		}
	}
	if advised < 500 {
		t.Errorf("%d records had an advice", advised)
	}
}
