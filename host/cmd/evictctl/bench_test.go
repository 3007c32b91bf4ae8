package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/eviction"
)

// recordOfNode returns a record of an eviction among 110 pods, whose signals went up and down.
func recordOfNode(r *rand.Rand, i int) *decision.Decision {
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
	_, owner, _ := strings.Cut(v.Pod, "/")
	out.Victim.Owner = "ReplicaSet/" + owner[:strings.LastIndexByte(owner, '-')]
	for i := range 24 { // as many as are kept while memory falls
		out.Usage = append(out.Usage, decision.UsageSample{MS: float64(i)*20_000 - 480_000 + r.Float64()*1000, First: out.Candidates[r.IntN(3)].Pod, Used: []int64{r.Int64N(1 << 30), r.Int64N(1 << 30), r.Int64N(1 << 30)}})
	}
	out.Curves = []string{v.Pod, out.Candidates[1].Pod, out.Candidates[2].Pod}
	for i := range 4 {
		ms := float64(i)*100_000 - 500_000
		out.Marks = append(out.Marks, decision.Mark{What: decision.MarkWait, Text: "waits for the end of " + out.Candidates[i].Pod, MS: ms, UntilMS: ms + 5000})
	}
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

// The time of evictctl explain and evictctl evictions with so many records, beside that of evictd version.
func BenchmarkCommands(b *testing.B) {
	records := 10_000
	if testing.Short() {
		records /= 10
	}
	dir, err := os.MkdirTemp("/dev/shm", "evictd") // each record is synced, which is not measured
	if err != nil {
		b.Skip(err)
	}
	defer os.RemoveAll(dir)
	s := store.New(store.Options{Dir: config.RecordsDir(dir), MaxBytes: 1 << 30, MaxAge: time.Hour})
	r := rand.New(rand.NewPCG(1, 2))
	pod := ""
	for i := range records {
		d := recordOfNode(r, i)
		if err := s.Append(d); err != nil {
			b.Fatal(err)
		}
		if i == records/2 {
			pod = d.Victim.Pod
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(config.RecordsDir(dir), "*.gz"))
	size := int64(0)
	for _, file := range files {
		if f, err := os.Stat(file); err == nil {
			size += f.Size()
		}
	}
	b.Logf("%d records of %d bytes on average, %v", len(files), size/int64(len(files)), err)
	program := filepath.Join(dir, "evictd")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for _, args := range []string{"version", "explain " + pod, "explain replicaset/" + pod[:strings.LastIndexByte(pod, '-')], "evictions " + pod, "evictions --signal pid.available", "evictions"} {
		b.Run(strings.NewReplacer(pod, "POD", pod[:strings.LastIndexByte(pod, '-')], "OWNER").Replace(args), func(b *testing.B) {
			var cpu time.Duration // not of the programs beside it
			for b.Loop() {
				cmd := exec.Command(program, strings.Fields(args)...)
				if args != "version" {
					cmd.Args = append(cmd.Args, "--state-dir", dir)
				}
				if out, err := cmd.CombinedOutput(); err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
		})
	}
}
