// Package metrics checks Metrics.
package metrics

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
)

// Group has the checks of Metrics.
var Group = check.Group{Name: "metrics", RPC: "Metrics", Unless: absent, Checks: []check.Check{
	{
		Name: "metrics", Input: "an empty message", Gate: true,
		Expect: fmt.Sprintf("within %s metrics that keep the bounds, or a refusal with a text", eviction.MetricsDeadline),
		Run:    answered,
	},
	{Name: "metrics-counters", Input: "the same twice", Expect: "no counter that falls", Run: counted},
}}

func absent(t *check.Target) string {
	if t.Plugin.Meter == nil {
		return "it has no metrics"
	}
	return ""
}

func answered(ctx context.Context, t *check.Target) error {
	_, err := counters(ctx, t)
	return check.Answered(err)
}

func counted(ctx context.Context, t *check.Target) error {
	first, err := counters(ctx, t)
	if err != nil {
		return check.Answered(err)
	}
	second, err := counters(ctx, t)
	for series, is := range second {
		if was := first[series]; is < was {
			return fmt.Errorf("%s: first %v, then %v", series, was, is)
		}
	}
	return check.Answered(err)
}

// counters asks for the metrics and returns the counters by name and labels.
func counters(ctx context.Context, t *check.Target) (map[string]float64, error) {
	all, err := check.Ask(ctx, t, eviction.MetricsDeadline, t.Plugin.Meter.Metrics)
	values := map[string]float64{}
	for i := range all {
		for _, s := range all[i].Samples {
			if all[i].Type == eviction.Counter {
				values[fmt.Sprint(all[i].Name, s.Labels)] = s.Value
			}
		}
	}
	return values, err
}
