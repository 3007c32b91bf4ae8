package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/harness/testos"
)

// node returns a record of an eviction among 110 pods, whose signals went up and down.
func node(r *rand.Rand, i int) *decision.Decision {
	at := time.Unix(1_800_000_000, 0).Add(time.Duration(i) * time.Minute)
	uid := func() string {
		return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", r.Uint32(), r.Uint32N(1<<16), r.Uint32N(1<<12), 0x8000|r.Uint32N(1<<14), r.Uint64N(1<<48))
	}
	name := func() string {
		return fmt.Sprintf("team-%d/service-%d-%s-%s", r.IntN(9), r.IntN(30), text(r, 10), text(r, 5))
	}
	out := &decision.Decision{
		Version: decision.Version, ID: decision.NewID(at), Kind: decision.KindEviction, Time: at, Now: at, Node: "node-17.example", Evictd: "v1.0.0", Config: "5f3a9c210b7d",
		Trigger: "wake", Causes: "memcg", Pacing: "evictd", RankVeto: "soft", Layout: "shared", Ranker: &decision.Ranker{Name: "memory", Version: "v1.0.0"},
		Thresholds: []decision.Threshold{
			{Signal: eviction.MemoryAvailable, Value: "500Mi", Since: &at, GraceOver: true, Actionable: true, Acted: true},
			{Signal: eviction.AllocatableMemoryAvailable, Value: "500Mi"},
			{Signal: eviction.NodeFsAvailable, Value: "10%"},
			{Signal: eviction.NodeFsInodesFree, Value: "5%"},
			{Signal: eviction.PIDAvailable, Value: "1000"},
		},
	}
	for range 110 {
		out.Order = append(out.Order, len(out.Candidates))
		out.Candidates = append(out.Candidates, decision.Candidate{
			UID: uid(), Pod: name(), QoS: eviction.Burstable, Owner: "ReplicaSet", Started: at.Unix() - r.Int64N(1e6),
			MemoryRequest: 64 << 20 << r.IntN(4), StorageRequest: 1 << 30, Usage: r.Int64N(1 << 30),
		})
	}
	v := out.Candidates[0]
	out.Victim = &decision.Victim{UID: v.UID, Pod: v.Pod, Signal: "memory.available", GraceSeconds: 1, Message: "The node was low on resource: memory. Threshold quantity: 500Mi, available: 400Mi."}
	samples := 600 // of the signal that it is about, and of the others
	for _, t := range out.Thresholds {
		out.Observations = append(out.Observations, decision.Observation{Signal: t.Signal, State: decision.StateObserved, Available: r.Int64N(1 << 34), Capacity: 1 << 34, Time: at})
		s := decision.Series{Signal: t.Signal, Unit: 1}
		for range samples { // as on a node that works
			s.Available = append(s.Available, int64(r.NormFloat64()*1.5))
		}
		out.Signals = append(out.Signals, s)
		samples = 120
	}
	return out
}

func text(r *rand.Rand, n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = "bcdfghjklmnpqrstvwxz2456789"[r.IntN(27)]
	}
	return string(out)
}

// What it takes to find the last eviction of a pod among so many, beside reading the bytes of
// all of them.
func BenchmarkFind(b *testing.B) {
	const records = 10_000
	dir, err := os.MkdirTemp("/dev/shm", "evictd") // each is synced, which is not what is measured
	if err != nil {
		b.Skip(err)
	}
	defer os.RemoveAll(dir)
	s := New(Options{Dir: dir, MaxBytes: 1 << 30, MaxAge: 10 * 365 * 24 * time.Hour})
	if err := s.Open(); err != nil {
		b.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	pods := make([]string, 0, records)
	var bytes int64
	for i := range records {
		one := node(r, i)
		pods = append(pods, one.Victim.Pod)
		if err := s.Append(one); err != nil {
			b.Fatal(err)
		}
	}
	names, _, err := segmentNames(dir)
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for _, name := range names {
		data := testos.ReadFile(b, name)
		bytes += int64(len(data))
	}
	peer := time.Since(began)
	i := 0
	for b.Loop() {
		if found, err := Find(dir, pods[i%records]); err != nil || len(found) != 1 {
			b.Fatal(len(found), err)
		}
		i += 997
	}
	b.ReportMetric(float64(bytes)/records/1024, "KiB/record")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(peer), "x-reading-all")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
