package eviction_test

import (
	"math"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

func TestWhole(t *testing.T) {
	machine := eviction.Whole{Name: "the machine's memory", Size: 8 << 30}
	for name, c := range map[string]struct {
		whole eviction.Whole
		v     int64
		want  string
	}{
		"nothing":                  {machine, 0, ""},
		"all of it":                {machine, 8 << 30, ""},
		"one more":                 {machine, 8<<30 + 1, "8589934593 is more than the machine's memory, 8589934592"},
		"negative":                 {machine, -1, "-1 is negative, it is a part of the machine's memory"},
		"of an unknown size":       {eviction.Whole{Name: "a disk"}, math.MaxInt64, ""},
		"negative of unknown size": {eviction.Whole{Name: "a disk"}, -1, "-1 is negative, it is a part of a disk"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := c.whole.Check(c.v); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("Check(%d) = %q, want %q", c.v, got, c.want)
			}
		})
	}
}
