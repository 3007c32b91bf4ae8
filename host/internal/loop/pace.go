package loop

import "time"

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

// A pacer spaces the passes that one family's wakes cause: 5 ms apart, twice as
// long after each pass that found nothing met, up to 100 ms, and never more
// than 20 a second for long. The zero pacer is ready.
type pacer struct {
	gap    time.Duration
	last   time.Time
	tokens float64
	held   time.Time
}

// earliest returns when the next pass for a wake may start, at or after now.
func (p *pacer) earliest(now time.Time) time.Time {
	if p.held.After(now) {
		return p.held
	}
	if p.last.IsZero() || now.Sub(p.last) >= calm {
		return now
	}
	at := p.last.Add(p.gap)
	if have := p.refilled(now); have < 1 {
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
// and nobody to evict, and looking again at once would find the same.
func (p *pacer) hold(now time.Time) { p.held = now.Add(calm) }

// ran records a pass for a wake that ended at now.
func (p *pacer) ran(now time.Time, foundMet bool) {
	p.tokens = max(p.refilled(now)-1, 0)
	switch {
	case foundMet, p.last.IsZero(), now.Sub(p.last) >= calm:
		p.gap = minWakeGap
	default:
		p.gap = min(2*p.gap, maxWakeGap)
	}
	p.last = now
}

func (p *pacer) refilled(now time.Time) float64 {
	if p.last.IsZero() {
		return wakesPerSecond
	}
	return min(p.tokens+now.Sub(p.last).Seconds()*wakesPerSecond, wakesPerSecond)
}
