package policy

import (
	"fmt"
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

func TestPercentagesPrintAsWritten(t *testing.T) {
	for i := 1; i < 100_00; i++ {
		text := fmt.Sprintf("%g", float64(i)/100)
		part, err := parsePercentage(text + "%")
		if err != nil {
			t.Fatal(err)
		}
		if got := (Value{Percentage: part, IsPercentage: true}).String(); got != text+"%" {
			t.Fatalf("%s%% prints as %s", text, got)
		}
	}
}

func TestValueOf(t *testing.T) {
	percent := func(f float32) Value { return Value{Percentage: f, IsPercentage: true} }
	for name, c := range map[string]struct {
		value    Value
		capacity int64
		want     string
	}{
		"a quantity keeps its format":            {Value{Quantity: resource.MustParse("1G")}, 0, "1G"},
		"10 % is a float32":                      {percent(0.1), 100 << 30, "10737418400"},
		"a percentage is truncated":              {percent(0.065536), 1_000_000, "65535"},
		"a percentage prints in powers of two":   {percent(0.5), 131072, "64Ki"},
		"a percentage of nothing":                {percent(0.5), 0, "0"},
		"100 % of the largest capacity is it":    {percent(1), math.MaxInt64, "9223372036854775807"},
		"more than fits is clamped":              {percent(float32(math.Inf(1))), 1, "9223372036854775807"},
		"not a number is below all that can be":  {percent(float32(math.NaN())), 1, "-9223372036854775808"},
		"a negative capacity (cast from uint64)": {percent(0.5), -2048, "-1Ki"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.value.Of(c.capacity)
			if got.String() != c.want {
				t.Errorf("%s of %d = %s, want %s", c.value, c.capacity, got.String(), c.want)
			}
		})
	}
}

func TestWire(t *testing.T) {
	for text, want := range map[string]eviction.Threshold{
		"1Gi":    {Amount: 1 << 30},
		"0.5":    {Amount: 1},
		"1500m":  {Amount: 2},
		"1e30":   {Amount: math.MaxInt64},
		"10%":    {Fraction: 0.1},
		"0.0%":   {},
		"100.0%": {Fraction: 1},
	} {
		t.Run(text, func(t *testing.T) {
			thresholds, err := ParseThresholds(ThresholdConfig{Hard: map[string]string{"memory.available": text}})
			if err != nil {
				t.Fatal(err)
			}
			if got := thresholds[0].Wire(); got != want {
				t.Errorf("wire form of %s is %+v, want %+v", text, got, want)
			}
		})
	}
}

func TestValuesDoNotShareTheirDigits(t *testing.T) {
	v := Value{Quantity: resource.MustParse("1e30")}
	q := v.Of(0)
	q.Add(resource.MustParse("1e30"))
	if got := v.String(); got != "1e30" {
		t.Errorf("the value became %s by adding to what was taken from it", got)
	}
}
