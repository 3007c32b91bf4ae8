package eviction_test

import (
	"math"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

// A fraction is a float32 in the kubelet, and the difference decides passes.
func TestThresholdOf(t *testing.T) {
	const gi = 1 << 30
	for name, c := range map[string]struct {
		threshold      eviction.Threshold
		capacity, want int64
	}{
		"an amount is the same for every capacity":      {eviction.Threshold{Amount: 100 << 20}, 7, 100 << 20},
		"10 % of 100Gi is 160 bytes more than 10Gi":     {eviction.Threshold{Fraction: 0.1}, 100 * gi, 10737418400},
		"6.5536 % of a million is cut to 65535":         {eviction.Threshold{Fraction: 6.5536 / 100}, 1000000, 65535},
		"15 % of 50Gi":                                  {eviction.Threshold{Fraction: 0.15}, 50 * gi, int64(float64(50*gi) * float64(float32(0.15)))},
		"100 % is the capacity":                         {eviction.Threshold{Fraction: 1}, 1<<53 + 1, 1 << 53},
		"a fraction of nothing is nothing":              {eviction.Threshold{Fraction: 0.1}, 0, 0},
		"the zero threshold is never met":               {eviction.Threshold{}, math.MaxInt64, 0},
		"a fraction of a negative capacity is negative": {eviction.Threshold{Fraction: 0.5}, -9, -4},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.threshold.Of(c.capacity); got != c.want {
				t.Errorf("%+v of %d = %d, want %d", c.threshold, c.capacity, got, c.want)
			}
		})
	}
}
