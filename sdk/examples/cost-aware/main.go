// Command cost-aware is an evictd plugin that evicts cheap pods before dear ones
// when the node runs out of memory. Of pods that are otherwise equal in the
// kubelet's eyes it is then the one whose loss costs least that goes.
//
// What a pod is worth stands in its annotation cost.acme.example/hourly-usd as a
// plain decimal number ("0.25"). The kubelet's first two keys stay in front: who
// uses more than was requested goes before who does not, and lower priority
// before higher, so that no price buys memory that was not requested. The price
// decides among the rest, and the kubelet's order among equal prices. Note what
// that means: a cheap pod goes before a dear one that has taken much more.
//
// A pod without a price that can be read counts as unpricedHourlyUSD says, which
// is 0 unless configured: it goes first.
//
//	plugins:
//	  cost-aware:
//	    config: {unpricedHourlyUSD: "0.10"}
//
// The schema of that is in schema.json: the plugin checks a configuration by it, and evictd names the line of what is
// wrong.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"sync/atomic"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/schema"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// priceKey is no setting: the host asks once which annotations a plugin wants to
// see, before it is configured. For a key of your own change it here.
const priceKey = "cost.acme.example/hourly-usd"

//go:embed schema.json
var schemaJSON []byte

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	r := new(ranker)
	return sdk.Plugin{
		Name:            "cost-aware",
		Version:         "1.0.0",
		Signals:         sdk.Signals(eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable),
		WantAnnotations: []string{priceKey},
		Description:     "Evicts cheap pods before dear ones.",
		Configurer:      schema.Configurer(schemaJSON, sdk.Configure(r.configure)),
		Ranker:          r,
	}
}

// A ranker ranks by price. Configure and Rank may run at the same time, hence the
// atomic; its zero value is ready.
type ranker struct {
	unpriced atomic.Int64 // micro-dollars
}

type config struct {
	// UnpricedHourlyUSD is the price of a pod without a readable one.
	UnpricedHourlyUSD string `json:"unpricedHourlyUSD"`
}

func (r *ranker) configure(_ context.Context, _ eviction.NodeFacts, c config) error {
	unpriced, ok := parsePrice(cmp.Or(c.UnpricedHourlyUSD, "0"))
	if !ok {
		return fmt.Errorf("config: unpricedHourlyUSD: %q, want a plain decimal number of dollars up to %d", c.UnpricedHourlyUSD, maxUSD)
	}
	r.unpriced.Store(unpriced)
	return nil
}

// Rank implements eviction.Ranker.
func (r *ranker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	// Prices are read once, not in each of the n log n comparisons.
	prices := make(map[string]price, len(req.Candidates))
	for i := range req.Candidates {
		pod := &req.Candidates[i].Pod
		prices[pod.UID] = priceOf(pod, r.unpriced.Load())
	}
	cheapest := func(a, b *eviction.Candidate) int {
		return cmp.Compare(prices[a.Pod.UID].micros, prices[b.Pod.UID].micros)
	}
	ranking := rank.Sort(req.Candidates, rank.Chain(
		rank.ExceedsRequest(req.Signal), rank.Priority, cheapest, rank.For(req.Signal)))
	for i := range ranking {
		// Sort has given the figures of the kubelet's order to those in front.
		reason := prices[ranking[i].UID].String()
		if ranking[i].Reason != "" {
			reason += ", " + ranking[i].Reason
		}
		ranking[i].Reason = reason
	}
	return ranking, nil
}
