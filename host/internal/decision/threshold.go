package decision

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/quantity"
)

// Policy is t as policy has it.
func (t *Threshold) Policy() (policy.Threshold, error) {
	value, err := valueOf(t.Quantity, t.Percentage)
	if err != nil {
		return policy.Threshold{}, err
	}
	grace := t.GraceSeconds * float64(time.Second)
	if !(grace >= 0 && grace < math.MaxInt64) {
		return policy.Threshold{}, fmt.Errorf("graceSeconds: %v, want 0 or more", t.GraceSeconds)
	}
	out := policy.Threshold{Signal: t.Signal, Value: value, GracePeriod: time.Duration(math.Round(grace)), Custom: t.Custom}
	if t.MinReclaim != "" || t.MinReclaimPercentage != "" {
		least, err := valueOf(t.MinReclaim, t.MinReclaimPercentage)
		if err != nil {
			return policy.Threshold{}, fmt.Errorf("minReclaim: %w", err)
		}
		out.MinReclaim = &least
	}
	return out, nil
}

func valueOf(amount, percentage string) (policy.Value, error) {
	if percentage != "" {
		f, err := strconv.ParseFloat(percentage, 32)
		if err != nil {
			return policy.Value{}, fmt.Errorf("percentage: %w", err)
		}
		return policy.Value{Percentage: float32(f), IsPercentage: true}, nil
	}
	q, err := quantity.Parse(amount)
	if err != nil {
		return policy.Value{}, fmt.Errorf("quantity: %w", err)
	}
	return policy.Value{Quantity: q}, nil
}
