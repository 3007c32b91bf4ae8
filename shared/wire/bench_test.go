package wire

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// Round trips over a real socket, with rows as they are on a node. The plugin
// answers from what it has: the figures are the price of the wire.

var sizes = []int{110, 500, 1000}

func candidates(n int) []eviction.Candidate {
	started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	out := make([]eviction.Candidate, n)
	for i := range out {
		uid := fmt.Sprintf("3f2a9b1c-7d4e-4f60-8a2b-%012d", i)
		out[i] = eviction.Candidate{
			Pod: eviction.Pod{
				UID: uid, Namespace: "team-platform", Name: fmt.Sprintf("checkout-6d5f9c7b8-%05d", i),
				Priority: int32(i % 3 * 1000), QoSClass: eviction.Burstable, StartTime: started.Add(time.Duration(i) * time.Second),
				OwnerKind: "ReplicaSet", MemoryRequestBytes: 128 << 20,
				Volumes:    []eviction.Volume{{Name: "kube-api-access", Kind: "projected"}},
				Containers: []eviction.Container{{Name: "app", ID: fmt.Sprintf("%064d", i)}},
			},
			Measurement: eviction.Measurement{
				UID: uid, State: eviction.Measured, Time: started,
				Usage:           []eviction.SignalUsage{{Signal: eviction.MemoryAvailable, Value: int64(i) << 20}},
				WorkingSetBytes: eviction.Some(int64(i) << 20),
			},
		}
	}
	return out
}

func BenchmarkRank(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := &fake{rank: func(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
				ranking := make([]eviction.Ranked, len(r.Candidates))
				for i := range ranking {
					ranking[i].UID = r.Candidates[i].Pod.UID
				}
				return ranking, nil
			}}
			p := connect(b, f.plugin())
			req := eviction.RankRequest{Signal: eviction.MemoryAvailable, Candidates: candidates(n)}
			b.ReportAllocs()
			for b.Loop() {
				if got, err := p.Ranker.Rank(b.Context(), req); err != nil || len(got) != n {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}

// BenchmarkRows is writing and reading 500 candidates alone, beside the generated code.
// That of vtprotobuf, which is the fastest there is, is in decision 7.
func BenchmarkRows(b *testing.B) {
	req := eviction.RankRequest{Signal: eviction.MemoryAvailable, Candidates: candidates(500)}
	b.Run("rows", func(b *testing.B) {
		b.ReportAllocs()
		var bytes []byte
		for b.Loop() {
			bytes = (&rankRequest{RankRequest: req}).encode(bytes[:0])
			var back rankRequest
			if err := back.decode(string(bytes)); err != nil || len(back.Candidates) != len(req.Candidates) {
				b.Fatal(len(back.Candidates), err)
			}
		}
	})
	b.Run("generated", func(b *testing.B) { // without turning it into values of eviction again
		b.ReportAllocs()
		for b.Loop() {
			bytes, err := proto.Marshal(referenceRankRequest(req))
			if err != nil {
				b.Fatal(err)
			}
			back := new(pluginv1.RankRequest)
			if err := proto.Unmarshal(bytes, back); err != nil || len(back.Candidates) != len(req.Candidates) {
				b.Fatal(len(back.Candidates), err)
			}
		}
	})
}

// BenchmarkObserve does not depend on the number of pods.
func BenchmarkObserve(b *testing.B) {
	reply := eviction.ObserveReply{Observations: []eviction.Observation{
		{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: 1 << 30, Capacity: 1 << 34, Time: time.Now(), BootNanos: 1, Components: []eviction.Component{{Name: "usage", Value: 1}, {Name: "inactive_file", Value: 2}}},
		{Signal: eviction.AllocatableMemoryAvailable, State: eviction.Observed, Available: 1 << 30, Capacity: 1 << 34, Time: time.Now(), BootNanos: 1},
	}}
	f := &fake{observe: func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) { return reply, nil }}
	p := connect(b, f.plugin())
	req := eviction.ObserveRequest{PassView: eviction.PassView{View: eviction.ViewBefore}, Signals: []eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Observer.Observe(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMeasure(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rows := candidates(n)
			f := &fake{measure: func(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
				for i := range r.Pods {
					emit(rows[i].Measurement)
				}
				return nil
			}}
			p := connect(b, f.plugin())
			req := eviction.MeasureRequest{PassView: eviction.PassView{View: eviction.ViewBefore}, Detail: eviction.DetailPod, Signals: []eviction.Signal{eviction.MemoryAvailable}}
			for i := range rows {
				req.Pods = append(req.Pods, rows[i].Pod)
			}
			ctx := within(b, time.Hour) // as in real calls: the deadline's timer is part of the price
			b.ReportAllocs()
			for b.Loop() {
				got := 0
				if err := p.Measurer.Measure(ctx, req, func(eviction.Measurement) { got++ }); err != nil || got != n {
					b.Fatal(got, err)
				}
			}
		})
	}
}
