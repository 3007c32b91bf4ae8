package sdk_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// A plugin that ranks by an own rule first and by the kubelet's when that does
// not decide.
func ExampleServe() {
	batchFirst := func(a, b *eviction.Candidate) int {
		batch := func(c *eviction.Candidate) int {
			if c.Pod.OwnerKind == "Job" {
				return 0
			}
			return 1
		}
		return cmp.Compare(batch(a), batch(b))
	}
	main := func() {
		sdk.Serve(sdk.Plugin{
			Name:    "batch-first",
			Version: "1.0.0",
			Signals: sdk.Signals(eviction.MemoryAvailable),
			Ranker:  sdk.RankBy(batchFirst, rank.For(eviction.MemoryAvailable)),
		})
	}
	_ = main
}

func ExampleRankBy() {
	fewestLabels := func(a, b *eviction.Candidate) int { return cmp.Compare(len(a.Pod.Labels), len(b.Pod.Labels)) }
	ranker := sdk.RankBy(rank.Priority, fewestLabels)

	ranking, err := ranker.Rank(context.Background(), eviction.RankRequest{
		Signal: eviction.MemoryAvailable,
		Candidates: []eviction.Candidate{
			{Pod: eviction.Pod{UID: "important", Priority: 1000}},
			{Pod: eviction.Pod{UID: "labeled", Labels: map[string]string{"team": "a"}}},
			{Pod: eviction.Pod{UID: "plain"}},
		},
	})
	for _, r := range ranking {
		fmt.Println(r.UID)
	}
	fmt.Println(err)
	// Output:
	// plain
	// labeled
	// important
	// <nil>
}

// The reason is in the log line of the eviction, as rankReason.
func ExampleRankWithReason() {
	team := func(c *eviction.Candidate) string { return "team " + cmp.Or(c.Pod.Labels["team"], "none") }
	byTeam := func(a, b *eviction.Candidate) int { return cmp.Compare(a.Pod.Labels["team"], b.Pod.Labels["team"]) }

	ranking, _ := sdk.RankWithReason(team, byTeam).Rank(context.Background(), eviction.RankRequest{
		Signal: eviction.MemoryAvailable,
		Candidates: []eviction.Candidate{
			{Pod: eviction.Pod{UID: "labeled", Labels: map[string]string{"team": "a"}}},
			{Pod: eviction.Pod{UID: "plain"}},
		},
	})
	for _, r := range ranking {
		fmt.Printf("%s (%s)\n", r.UID, r.Reason)
	}
	// Output:
	// plain (team none)
	// labeled (team a)
}

func ExampleConfigure() {
	type config struct {
		// MaxAgeSeconds bounds the age of a pod, 0 for any age.
		MaxAgeSeconds int64 `json:"maxAgeSeconds"`
	}
	var maxAge int64
	configurer := sdk.Configure(func(_ context.Context, _ eviction.NodeFacts, c config) error {
		if c.MaxAgeSeconds < 0 {
			return errors.New("maxAgeSeconds is negative, want 0 or more")
		}
		maxAge = c.MaxAgeSeconds
		return nil
	})

	for _, raw := range []string{`{"maxAgeSeconds": 60}`, `{"maxAge": 90}`, `{"maxAgeSeconds": -1}`} {
		err := configurer.Configure(context.Background(), eviction.ConfigureRequest{Config: []byte(raw)})
		fmt.Println(maxAge, err)
	}
	// Output:
	// 60 <nil>
	// 60 config: unknown field "maxAge"
	// 60 maxAgeSeconds is negative, want 0 or more
}

func ExampleSignals() {
	p := sdk.Plugin{Signals: sdk.Signals(eviction.MemoryAvailable, eviction.PIDAvailable)}
	for _, s := range p.Signals {
		fmt.Println(s.Signal)
	}
	// Output:
	// memory.available
	// pid.available
}

// A plugin whose configuration has defaults decodes into a value that has them.
func ExampleDecodeConfig() {
	config := struct {
		KeepNewest int    `json:"keepNewest"`
		Annotation string `json:"annotation"`
	}{KeepNewest: 3}

	fmt.Println(sdk.DecodeConfig([]byte(`{"annotation": "acme.example/cost"}`), &config), config.KeepNewest, config.Annotation)
	fmt.Println(sdk.DecodeConfig([]byte(`{"keepnewest": 1, "anotation": ""}`), &config))
	// Output:
	// <nil> 3 acme.example/cost
	// config: unknown field "keepnewest"
	// config: unknown field "anotation"
}

// Records appear in the host's log, with the plugin's name.
func ExampleLogger() {
	log := sdk.Logger()
	log.Warn("array is slow to answer", "array", "a1", "tookSeconds", 0.7)
}

// The built-in plugins rank by RankAsKubelet.
func ExampleRankAsKubelet() {
	ranking, _ := sdk.RankAsKubelet().Rank(context.Background(), eviction.RankRequest{
		Signal: eviction.MemoryAvailable,
		Candidates: []eviction.Candidate{
			{
				Pod:         eviction.Pod{UID: "below its request", MemoryRequestBytes: 2 << 30},
				Measurement: eviction.Measurement{State: eviction.Measured, WorkingSetBytes: eviction.Some(1 << 30)},
			},
			{
				Pod:         eviction.Pod{UID: "above its request", MemoryRequestBytes: 1 << 28},
				Measurement: eviction.Measurement{State: eviction.Measured, WorkingSetBytes: eviction.Some(1 << 29)},
			},
		},
	})
	for _, r := range ranking {
		fmt.Println(r.UID, "("+r.Reason+")")
	}
	// Output:
	// above its request (exceeds request by 256Mi, priority 0)
	// below its request (1Gi below request, priority 0)
}
