package wire

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func rowsNamed(n int) []eviction.Pod {
	rows := make([]eviction.Pod, n)
	for i := range rows {
		rows[i] = eviction.Pod{UID: fmt.Sprintf("uid-%03d", i), Priority: int32(i % 3), Volumes: []eviction.Volume{{Name: "v"}}}
	}
	return rows
}

func measureAndRank(t *testing.T, f *fake, pods []eviction.Pod) (eviction.Ranking, map[string]eviction.Measurement, error) {
	t.Helper()
	got := map[string]eviction.Measurement{}
	p := connect(t, f.plugin())
	ranking, err := p.Measurer.(eviction.MeasureRanker).MeasureAndRank(within(t, 5*time.Second),
		eviction.MeasureRequest{PassView: eviction.PassView{Pass: 7, View: eviction.ViewBefore}, Detail: eviction.DetailPod, Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: pods},
		eviction.RankRequest{Pass: 7, Signal: eviction.MemoryAvailable, Unit: "bytes", Threshold: eviction.Threshold{Fraction: 0.25}, Available: 1, Capacity: 9, Shortfall: 3, Hard: true},
		func(m eviction.Measurement) { got[m.UID] = m })
	return ranking, got, err
}

// A ranker cannot tell whether it was called by Rank or within Measure: whatever
// the order of the answers, and although their owner reuses its memory.
func TestRankingWithMeasureIsThatOfRank(t *testing.T) {
	pods := rowsNamed(250)
	var seen []eviction.RankRequest
	f := &fake{
		measure: func(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
			order := rand.New(rand.NewPCG(1, 2)).Perm(len(r.Pods))
			if len(seen) > 0 {
				slices.Sort(order)
			}
			usage := make([]eviction.SignalUsage, 1)
			for _, i := range order {
				usage[0] = eviction.SignalUsage{Signal: eviction.MemoryAvailable, Value: int64(i) * 1000}
				emit(eviction.Measurement{UID: r.Pods[i].UID, State: eviction.Measured, Usage: usage, WorkingSetBytes: eviction.Some(int64(i))})
			}
			return nil
		},
		rank: func(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
			seen = append(seen, r)
			var order []eviction.Ranked
			for i := range slices.Backward(r.Candidates) {
				order = append(order, eviction.Ranked{UID: r.Candidates[i].Pod.UID, Reason: "last"})
			}
			return order, nil
		},
	}
	for range 2 {
		ranking, got, err := measureAndRank(t, f, pods)
		if err != nil || len(ranking.Order) != len(pods) || ranking.Err != nil {
			t.Fatalf("%d ranked, errors %v and %v, want all %d", len(ranking.Order), ranking.Err, err, len(pods))
		}
		if ranking.Order[0] != (eviction.Ranked{UID: "uid-249", Reason: "last"}) {
			t.Errorf("first is %+v, want uid-249", ranking.Order[0])
		}
		req := seen[len(seen)-1]
		with := req.Candidates
		req.Candidates = nil
		for i := range pods {
			req.Candidates = append(req.Candidates, eviction.Candidate{Pod: pods[i], Measurement: got[pods[i].UID]})
		}
		if _, err := connect(t, f.plugin()).Ranker.Rank(within(t, 5*time.Second), req); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(seen[len(seen)-1].Candidates, with); diff != "" {
			t.Errorf("candidates of Rank (-) and of the ranking with Measure (+):\n%s", diff)
		}
	}
}

// Where it cannot be ranked as Rank would, the host is left to call Rank.
func TestNoRankingWithMeasure(t *testing.T) {
	pods := rowsNamed(3)
	all := func(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
		for i := range r.Pods {
			emit(eviction.Measurement{UID: r.Pods[i].UID, State: eviction.NoStats})
		}
		return nil
	}
	order := func(context.Context, eviction.RankRequest) ([]eviction.Ranked, error) {
		return []eviction.Ranked{{UID: "uid-000"}}, nil
	}
	for name, f := range map[string]*fake{
		"a pod has no answer": {rank: order, measure: func(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
			emit(eviction.Measurement{UID: r.Pods[0].UID, State: eviction.Measured})
			emit(eviction.Measurement{UID: r.Pods[0].UID, State: eviction.Measured})
			emit(eviction.Measurement{UID: "nobody", State: eviction.Measured})
			return nil
		}},
		"a pod is unknown": {rank: order, measure: func(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
			last := len(r.Pods) - 1
			emit(eviction.Measurement{UID: r.Pods[last].UID, Err: "busy"})
			r.Pods = r.Pods[:last]
			return all(ctx, r, emit)
		}},
		"measuring fails": {rank: order, measure: func(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
			return errors.Join(all(ctx, r, emit), errors.New("the disk is on fire"))
		}},
		"ranking fails": {measure: all, rank: func(context.Context, eviction.RankRequest) ([]eviction.Ranked, error) {
			return nil, errors.New("no opinion")
		}},
		"all are spared": {measure: all},
	} {
		ranking, got, err := measureAndRank(t, f, pods)
		if ranking.Order != nil || ranking.Err != nil || len(got) == 0 {
			t.Errorf("%s: got %+v and %d measurements, want no ranking, and measurements", name, ranking, len(got))
		}
		if wrong := name == "a pod has no answer" || name == "measuring fails"; (err != nil) != wrong {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestRankWithinMeasureOnTheWire(t *testing.T) {
	rank := random[eviction.RankRequest](rand.New(rand.NewPCG(5, 5)))
	rank.Candidates = nil
	var w pluginv1.MeasureRequest
	if err := proto.Unmarshal((&measureRequest{rank: &rank}).encode(nil), &w); err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(w.GetRank(), referenceRankRequest(rank)) {
		t.Errorf("got %v, want %v", w.GetRank(), referenceRankRequest(rank))
	}
	order := []eviction.Ranked{{UID: "a", Reason: "why"}, {UID: "b"}}
	var reply pluginv1.MeasureResponse
	if err := proto.Unmarshal(ranked(order), &reply); err != nil || !proto.Equal(reply.GetRanking(), referenceRanking(order)) {
		t.Errorf("got %v, %v, want %v", reply.GetRanking(), err, referenceRanking(order))
	}
	if err := (&measurements{atMost: 1}).decode(string(ranked(order))); err == nil {
		t.Error("a ranking of two of one candidate was accepted")
	}
}
