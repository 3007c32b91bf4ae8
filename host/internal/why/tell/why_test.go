package tell

import (
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

func TestTheOwnerOfAPodIsExplainedInOneLine(t *testing.T) {
	const grown = 5 * (1 << 30) / 2
	for _, c := range []struct {
		name   string
		change func(d *decision.Decision)
		grown  int64
		want   string
	}{
		{"a leak", nil, grown, "took 2.5Gi more in 4m12s, exceeds its request by 2.5Gi; a request of 3Gi would have spared it"},
		{"nothing is known of its growth", nil, 0, "exceeds its request by 2.5Gi; a request of 3Gi would have spared it"},
		{"no request", func(d *decision.Decision) { d.Candidates[1].MemoryRequest = 0 }, 0, "uses 3Gi without a request; a request of 3Gi would have spared it"},
		{"it is alone", func(d *decision.Decision) { d.Candidates, d.Order = d.Candidates[1:], []int{0} }, 0, "exceeds its request by 2.5Gi"},
		{"processes", func(d *decision.Decision) { d.Thresholds[1].Signal = eviction.PIDAvailable }, 0, "uses 3221225472"},
		{"no figures", func(d *decision.Decision) { d.Candidates[1].State = decision.StateNoStats }, 0, "its use is not known"},
		{"a custom ranker", func(d *decision.Decision) {
			d.Ranker.Custom, d.Candidates[1].Reason = true, "costs 1\x1b[2J"
		}, grown, "took 2.5Gi more in 4m12s, costs 1�[2J"},
	} {
		d := softEviction()
		if c.change != nil {
			c.change(d)
		}
		if got := Why(d, c.grown, 252*time.Second); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
