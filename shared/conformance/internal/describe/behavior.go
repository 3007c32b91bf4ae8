package describe

import (
	"context"
	"fmt"
	"strings"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/observe"
	"github.com/evictd/evictd/shared/conformance/internal/rank"
	"github.com/evictd/evictd/shared/conformance/internal/sample"
	"github.com/evictd/evictd/shared/eviction"
)

// Behavior calls the plugin and returns the part of its answers that must not depend on time.
func Behavior(ctx context.Context, t *check.Target) (string, error) {
	var b strings.Builder
	if signals := t.Offering(eviction.CanObserve); len(signals) > 0 {
		reply, err := observe.Call(ctx, t, eviction.ViewBefore, signals...)
		if err != nil {
			return "", fmt.Errorf("observe: %w", err)
		}
		for _, o := range reply.Observations {
			fmt.Fprintf(&b, "%s state %d; ", o.Signal, o.State)
		}
	}
	if signals := t.Offering(eviction.CanRank); len(signals) > 0 {
		order, err := rank.Call(ctx, t, sample.RankRequest(t, signals[0], sample.Candidates(t, 12)))
		if err != nil {
			return "", fmt.Errorf("rank: %w", err)
		}
		fmt.Fprintf(&b, "ranking %s", order)
	}
	return b.String(), nil
}
