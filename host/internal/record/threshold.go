package record

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/policy"
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

func valueOf(quantity, percentage string) (policy.Value, error) {
	if percentage != "" {
		f, err := strconv.ParseFloat(percentage, 32)
		if err != nil {
			return policy.Value{}, fmt.Errorf("percentage: %w", err)
		}
		return policy.Value{Percentage: float32(f), IsPercentage: true}, nil
	}
	q, err := resource.ParseQuantity(quantity)
	if err != nil {
		return policy.Value{}, fmt.Errorf("quantity: %q: %w", quantity, err)
	}
	return policy.Value{Quantity: q}, nil
}
