package sdk_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// counted counts the rankings of another ranker.
type counted struct {
	eviction.Ranker

	rankings atomic.Int64
}

// Rank implements eviction.Ranker.
func (c *counted) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	c.rankings.Add(1)
	return c.Ranker.Rank(ctx, req)
}

// Metrics implements eviction.Meter. It answers from memory: each scrape of the host calls it.
func (c *counted) Metrics(context.Context) ([]eviction.Metric, error) {
	return []eviction.Metric{{
		Name: "rankings_total", Help: "Rankings.", Type: eviction.Counter,
		Samples: []eviction.Sample{{Labels: map[string]string{"by": "kubelet"}, Value: float64(c.rankings.Load())}},
	}}, nil
}

// The host shows evictd_plugin_rankings_total{by="kubelet",plugin="counted"}.
func Example_meter() {
	c := &counted{Ranker: sdk.RankAsKubelet()}
	plugin := sdk.Plugin{Name: "counted", Signals: sdk.Signals(eviction.MemoryAvailable), Ranker: c, Meter: c}

	_, _ = plugin.Ranker.Rank(context.Background(), eviction.RankRequest{Signal: eviction.MemoryAvailable})
	metrics, err := plugin.Meter.Metrics(context.Background())
	fmt.Println(metrics[0].Name, metrics[0].Samples[0].Value, err, eviction.ValidMetrics(metrics))
	// Output: rankings_total 1 <nil> <nil>
}
