package victim

import (
	"math"
	"testing"
	"time"
)

func TestEffectiveGrace(t *testing.T) {
	of := func(v int64) *int64 { return &v }
	for name, c := range map[string]struct {
		deletion, override, spec *int64
		want                     int64
	}{
		"nothing is known":                               {want: 1},
		"the pod's own":                                  {spec: of(30), want: 30},
		"an override shortens it":                        {spec: of(30), override: of(1), want: 1},
		"an override counts though it is longer":         {spec: of(5), override: of(60), want: 60},
		"a deletion that is under way limits it":         {spec: of(30), override: of(60), deletion: of(7), want: 7},
		"a shorter override limits the deletion":         {spec: of(30), override: of(3), deletion: of(7), want: 3},
		"an override of zero is one second":              {spec: of(30), override: of(0), want: 1},
		"also where a deletion is under way":             {spec: of(30), override: of(0), deletion: of(5), want: 1},
		"a deletion without grace, and no override":      {spec: of(30), deletion: of(0), want: 1},
		"a negative one is the least":                    {spec: of(30), override: of(-5), want: 1},
		"at least one second, though the pod wants none": {spec: of(0), want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := EffectiveGrace(c.deletion, c.override, c.spec); got != c.want {
				t.Errorf("effective grace period %d, want %d", got, c.want)
			}
		})
	}
}

// A grace period beyond what a time.Duration holds was over before it began.
func TestAGraceWithoutEndIsNoneInThePast(t *testing.T) {
	endless := int64(10_000_000_000)
	if got := EffectiveGrace(nil, nil, &endless); time.Duration(got)*time.Second < 60*365*24*time.Hour {
		t.Errorf("%d s, which is %v", got, time.Duration(got)*time.Second)
	}
}

func TestTimeout(t *testing.T) {
	for grace, want := range map[int64]time.Duration{
		-1: 10 * time.Second, 0: 10 * time.Second, 1: 10 * time.Second, 6: 10 * time.Second, 7: 10500 * time.Millisecond, 30: 45 * time.Second,
	} {
		if got := Timeout(grace); got != want {
			t.Errorf("Timeout(%d) = %v, want %v", grace, got, want)
		}
	}
	if Timeout(math.MaxInt64) < 24*time.Hour || Timeout(math.MinInt64) != 10*time.Second {
		t.Error("Timeout overflows")
	}
}
