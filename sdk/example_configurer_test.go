package sdk_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// byTeam ranks by a configuration that may change while it ranks. The value behind
// the pointer is never changed, only replaced.
type byTeam struct{ config atomic.Pointer[teams] }

type teams struct {
	// Label says whose a pod is, Order which teams' pods go first.
	Label string   `json:"label"`
	Order []string `json:"order"`
}

// configure checks first and changes last: after an error the former configuration
// is in force.
func (b *byTeam) configure(_ context.Context, _ eviction.NodeFacts, c teams) error {
	if c.Label == "" && len(c.Order) > 0 {
		return errors.New("label is empty, want the key of a label")
	}
	b.config.Store(&c)
	return nil
}

// Rank implements eviction.Ranker. It takes the configuration once, so that it stays
// the same for all pods.
func (b *byTeam) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	c := b.config.Load()
	if c == nil {
		return nil, errors.New("not configured yet")
	}
	place := make(map[string]int, len(c.Order))
	for i, team := range c.Order {
		place[team] = i - len(c.Order) // below zero: before the teams that are not named
	}
	first := func(x, y *eviction.Candidate) int {
		return cmp.Compare(place[x.Pod.Labels[c.Label]], place[y.Pod.Labels[c.Label]])
	}
	return rank.Sort(req.Candidates, rank.Chain(first, rank.For(req.Signal))), nil
}

// A ranker with a configuration. The labels that it wants are listed when the plugin
// is made, as configurations come later.
func Example_configurer() {
	ranker := &byTeam{}
	plugin := sdk.Plugin{
		Name:       "by-team",
		Signals:    sdk.Signals(eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable),
		WantLabels: []string{"acme.example/team"},
		Configurer: sdk.Configure(ranker.configure),
		Ranker:     ranker,
	}
	ctx := context.Background()
	err := plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{
		Config: []byte(`{"label": "acme.example/team", "order": ["batch", "test"]}`),
	})
	fmt.Println(err)

	of := func(uid, team string) eviction.Candidate {
		return eviction.Candidate{Pod: eviction.Pod{UID: uid, Labels: map[string]string{"acme.example/team": team}}}
	}
	ranking, err := plugin.Ranker.Rank(ctx, eviction.RankRequest{
		Signal:     eviction.MemoryAvailable,
		Candidates: []eviction.Candidate{of("1", "shop"), of("2", "test"), of("3", "batch")},
	})
	for _, r := range ranking {
		fmt.Println(r.UID)
	}
	fmt.Println(err)
	// Output:
	// <nil>
	// 3
	// 2
	// 1
	// <nil>
}
