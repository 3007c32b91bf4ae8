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
		Run: func(ctx context.Context, t *check.Target) error {
			_, err := call(ctx, t)
			return check.Answered(err)
		},
	},
	{Name: "metrics-counters", Input: "the same twice", Expect: "no counter that falls", Run: counted},
}}

func absent(t *check.Target) string {
	if t.Plugin.Meter == nil {
		return "it has no metrics"
	}
	return ""
}

func call(ctx context.Context, t *check.Target) (all []eviction.Metric, err error) {
	err = t.Within(ctx, eviction.MetricsDeadline, func(ctx context.Context) error {
		all, err = t.Plugin.Meter.Metrics(ctx)
		return err
	})
	return all, err
}

func counted(ctx context.Context, t *check.Target) error {
	first, err := call(ctx, t)
	if err != nil {
		return check.Answered(err)
	}
	second, err := call(ctx, t)
	if err != nil {
		return check.Answered(err)
	}
	was := counters(first)
	for series, is := range counters(second) {
		if is < was[series] {
			return fmt.Errorf("%s: first %v, then %v", series, was[series], is)
		}
	}
	return nil
}

// counters returns the counters by name and labels.
func counters(all []eviction.Metric) map[string]float64 {
	values := map[string]float64{}
	for i := range all {
		for _, s := range all[i].Samples {
			if all[i].Type == eviction.Counter {
				values[fmt.Sprint(all[i].Name, s.Labels)] = s.Value
			}
		}
	}
	return values
}
