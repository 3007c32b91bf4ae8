package policy

import (
	"math"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/ground/quantity"
)

// A float32 holds any number of 6 digits, and 9 tell any two of them apart.
const minDigits, maxDigits = 6, 9

// Value is an amount: fixed, or a part of the observed capacity.
type Value struct {
	// Quantity is the amount in the signal's base unit, if not IsPercentage. It
	// may have a fraction.
	Quantity resource.Quantity
	// Percentage is the part of the capacity, 0.1 for 10 %, if IsPercentage. It
	// is a float32 because the kubelet's is: 10 % of 100Gi is 160 bytes more than
	// 10Gi.
	Percentage   float32
	IsPercentage bool
}

// String prints a quantity in its canonical form and a percentage as the shortest
// one that reads back as the same: 15 % is 15.000001 % by plain multiplication.
func (v Value) String() string {
	if !v.IsPercentage {
		return v.Quantity.String()
	}
	for digits := minDigits; ; digits++ {
		text := strconv.FormatFloat(float64(v.Percentage)*100, 'g', digits, 64) + "%"
		part, err := parsePercentage(text)
		if err == nil && part == v.Percentage || digits == maxDigits {
			return text
		}
	}
}

// Texts returns v in the form of traces: a canonical quantity, or the fraction of the capacity as
// the shortest text of its float32. The other one is empty.
func (v Value) Texts() (quantity, percentage string) {
	if v.IsPercentage {
		return "", strconv.FormatFloat(float64(v.Percentage), 'g', -1, 32)
	}
	return v.Quantity.String(), ""
}

// Of returns the amount for a capacity. That of a percentage is truncated and
// prints in powers of two, whatever the signal counts (api.GetThresholdQuantity).
func (v Value) Of(capacity int64) resource.Quantity {
	if v.IsPercentage {
		return *resource.NewQuantity(fraction(capacity, v.Percentage), resource.BinarySI)
	}
	return v.Quantity.DeepCopy()
}

// fraction multiplies as the kubelet does. What does not fit into an int64 is
// clamped, where the kubelet leaves it to the processor; what is no number, which
// the grammar refuses, is what amd64 makes of it.
func fraction(capacity int64, part float32) int64 {
	f := float64(capacity) * float64(part)
	switch {
	case math.IsNaN(f):
		return math.MinInt64
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	default:
		return int64(f)
	}
}

// canonical returns equal texts for equal values, however they were written: 1Gi and
// 1073741824, 500m and 0.5.
func (v Value) canonical() string {
	if v.IsPercentage {
		return strconv.FormatFloat(float64(v.Percentage), 'g', -1, 32) + " of capacity"
	}
	q := v.Quantity.DeepCopy()
	q.Format = resource.DecimalExponent
	number, suffix := q.CanonicalizeBytes(nil)
	return string(number) + string(suffix)
}

// whole rounds q up to an int64, clamped: an amount that is available is whole,
// so it is below q if and only if it is below the next whole number.
func whole(q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(math.MaxInt64) >= 0:
		return math.MaxInt64
	case q.CmpInt64(math.MinInt64) <= 0:
		return math.MinInt64
	default:
		return q.Value()
	}
}

// ParseValue parses the text of Value.String. It does not check the value's range.
func ParseValue(text string) (Value, error) {
	if strings.HasSuffix(text, "%") {
		part, err := parsePercentage(text)
		return Value{Percentage: part, IsPercentage: true}, err
	}
	q, err := quantity.Parse(text)
	return Value{Quantity: q}, err
}
