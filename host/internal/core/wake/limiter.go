package wake

import (
	"time"

	"golang.org/x/time/rate"
)

// Limits on passes that wakes cause (the timer's passes are not limited).
const (
	minWakeGap = 5 * time.Millisecond
	maxWakeGap = 100 * time.Millisecond
	// wakesPerSecond bounds what a chattering plugin can cost; as many may come
	// in one burst after a quiet time.
	wakesPerSecond = 20
	// calm is the time without a wake after which the gap is short again.
	calm = time.Second
)

// A limiter spaces the passes that one condition's wakes cause: 5 ms apart, twice as
// long after each pass that found nothing met, up to 100 ms, and never more
// than 20 a second for long.
type limiter struct {
	rate       *rate.Limiter
	gap        time.Duration
	last, held time.Time
}

func newLimiter() *limiter { return &limiter{rate: rate.NewLimiter(wakesPerSecond, wakesPerSecond)} }

// earliest returns when the next pass for a wake may start, at or after now.
func (l *limiter) earliest(now time.Time) time.Time {
	if l.held.After(now) {
		return l.held
	}
	if l.last.IsZero() || now.Sub(l.last) >= calm {
		return now
	}
	at := l.last.Add(l.gap)
	if have := l.rate.TokensAt(now); have < 1 {
		missing := time.Duration((1 - have) / wakesPerSecond * float64(time.Second))
		if full := now.Add(missing); full.After(at) {
			at = full
		}
	}
	if at.Before(now) {
		return now
	}
	return at
}

// hold puts the next pass for a wake off by a calm time: this one found pressure
// and no pod to evict, and looking again at once would find the same.
func (l *limiter) hold(now time.Time) { l.held = now.Add(calm) }

// ran records a pass for a wake that ended at now.
func (l *limiter) ran(now time.Time, foundMet bool) {
	l.rate.AllowN(now, 1)
	switch {
	case foundMet, l.last.IsZero(), now.Sub(l.last) >= calm:
		l.gap = minWakeGap
	default:
		l.gap = min(2*l.gap, maxWakeGap)
	}
	l.last = now
}
