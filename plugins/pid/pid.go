package pid

import (
	"context"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// New returns the pid plugin.
func New() sdk.Plugin {
	source := new(summary.Switch)
	return sdk.Plugin{
		Name:    "pid",
		Version: "1",
		Signals: sdk.Signals(eviction.PIDAvailable),
		Configurer: sdk.Configure(func(_ context.Context, facts eviction.NodeFacts, _ config) error {
			return source.Configure(facts)
		}),
		Observer: source,
		Measurer: source,
		Ranker:   sdk.RankAsKubelet(),
	}
}

// config is the plugin's own configuration: there is none, so that any field in
// it is an error.
type config struct{}
