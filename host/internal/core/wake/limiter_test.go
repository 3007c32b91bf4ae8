package wake

import (
	"testing"
	"time"
)

// simulate sends a wake each millisecond for a while and returns when passes ran.
func simulate(p *limiter, start time.Time, d time.Duration, met bool) []time.Duration {
	var ran []time.Duration
	for now := start; now.Before(start.Add(d)); now = now.Add(time.Millisecond) {
		if !p.earliest(now).After(now) {
			p.ran(now, met)
			ran = append(ran, now.Sub(start))
		}
	}
	return ran
}

func TestLimiter(t *testing.T) {
	start := time.Unix(1000, 0)

	t.Run("the first wake runs at once", func(t *testing.T) {
		p := newLimiter()
		if got := p.earliest(start); !got.Equal(start) {
			t.Errorf("earliest = %v after now", got.Sub(start))
		}
	})
	t.Run("fruitless wakes come further and further apart", func(t *testing.T) {
		p := newLimiter()
		ran := simulate(p, start, 400*time.Millisecond, false)
		want := []time.Duration{0, 5, 15, 35, 75, 155, 255, 355}
		if len(ran) != len(want) {
			t.Fatalf("passes at %v, want at %v ms", ran, want)
		}
		for i := range want {
			if ran[i] != want[i]*time.Millisecond {
				t.Errorf("pass %d at %v, want at %d ms", i, ran[i], want[i])
			}
		}
	})
	t.Run("while something is met the gap stays short but the rate is bounded", func(t *testing.T) {
		p := newLimiter()
		first := len(simulate(p, start, time.Second, true))
		if first < wakesPerSecond || first > 2*wakesPerSecond+1 {
			t.Errorf("%d passes in the first second, want a burst of at most %d", first, 2*wakesPerSecond+1)
		}
		second := len(simulate(p, start.Add(time.Second), 10*time.Second, true))
		if second < 10*wakesPerSecond-5 || second > 10*wakesPerSecond+1 {
			t.Errorf("%d passes in ten more seconds, want about %d", second, 10*wakesPerSecond)
		}
	})
	t.Run("after a calm second a wake runs at once again", func(t *testing.T) {
		p := newLimiter()
		simulate(p, start, 3*time.Second, false)
		later := p.last.Add(calm)
		if got := p.earliest(later); !got.Equal(later) {
			t.Errorf("earliest = %v late", got.Sub(later))
		}
		p.ran(later, false)
		if p.gap != minWakeGap {
			t.Errorf("gap = %v, want %v", p.gap, minWakeGap)
		}
	})
}
