// Package pace decides how often a plugin looks at a signal, and when it wakes the host: the closer a
// threshold, the sooner the next look, so that the fastest fill cannot cross it long before.
package pace

import (
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// Near a threshold the watcher looks every tightInterval, after tightLooks such looks every
	// closeInterval, and after closeLooks every patientInterval: a look costs up to 0.2 ms of CPU,
	// and a node may stay there for days.
	tightInterval   = 2 * time.Millisecond
	closeInterval   = 10 * time.Millisecond
	patientInterval = 25 * time.Millisecond
	tightLooks      = 100
	closeLooks      = 1000
	// A signal that stays under a threshold is reported again after firstRepeat, then at
	// growing intervals up to maxRepeat.
	firstRepeat = 200 * time.Millisecond
	maxRepeat   = 500 * time.Millisecond
	// underInterval is the maximum time between looks at one that is not reported again: it may rise
	// and fall once more.
	underInterval = 100 * time.Millisecond
	onceIn        = 10 * time.Second
	// The host is told that a threshold is near while it can be crossed within nearTime, every
	// nearInterval but mostNear times in a row, and then whenever a quarter of what is left has gone: what
	// it prepares costs it some ms, and a small node is always near.
	nearTime     = 150 * time.Millisecond
	nearInterval = 250 * time.Millisecond
	mostNear     = 20
	// A signal is reported at most wakeBurst times in a row, and once per wakeInterval in the
	// long run: fewer than 10 times in any second.
	wakeBurst    = 4
	wakeInterval = 200 * time.Millisecond
)

// A Pace decides for one signal when to wake the host and when to look again. It does no I/O and has
// no clock. It is not safe for concurrent use.
type Pace struct {
	// Thresholds are those of the signal.
	Thresholds []eviction.Threshold
	// PerSecond is the fastest rate at which the signal is expected to fall, in its unit per second. It
	// converts a distance to the time until the next look.
	PerSecond float64
	// Repeat: the host is woken again while the signal stays under a threshold. Otherwise it is woken once in
	// onceIn for a threshold: a kubelet looks as often, and a signal that flaps must not cost more pods.
	Repeat bool

	met         []bool // by threshold, at the last look
	reported    []time.Time
	pending     bool // a wake is due, but the rate does not allow it yet
	nextRepeat  time.Time
	repeatAfter time.Duration
	wakeDebt    time.Time // when all wakes so far are paid for, at one per wakeInterval
	looksNear   int       // in a row within closeInterval of a threshold
	nears       int       // verdicts Near in a row
	nearLeft    int64     // at the last of them, or more since
	nextNear    time.Time
}

// A Verdict is the result of one look at a signal.
type Verdict struct {
	// Wake: the host is to be woken, Near: with eviction.CauseNear.
	Wake, Near bool
	// Left is the fall of the signal, in its unit, until the next threshold is met beyond that; -1 when
	// there is no threshold left to cross.
	Left int64
	// Again is the maximum time until the next look.
	Again time.Duration
}

// Look processes what is available of a capacity, both in the signal's unit. longest is the maximum time
// until the next look.
func (p *Pace) Look(now time.Time, available, capacity int64, longest time.Duration) Verdict {
	crossed, under, left := p.compare(now, available, capacity)
	switch {
	case crossed:
		p.pending = true
		p.repeatAfter = firstRepeat
	case p.Repeat && under && !now.Before(p.nextRepeat):
		p.pending = true
	}
	v := Verdict{Left: left, Again: longest}
	if left >= 0 {
		v.Again = p.approach(left, longest)
	}
	v.Near = p.near(now, left)
	if v.Wake = p.pending && p.wakeDebt.Sub(now) <= (wakeBurst-1)*wakeInterval; v.Wake {
		p.pending = false
		if p.wakeDebt.Before(now) {
			p.wakeDebt = now
		}
		p.wakeDebt = p.wakeDebt.Add(wakeInterval)
		p.nextRepeat = now.Add(p.repeatAfter)
		p.repeatAfter = min(2*p.repeatAfter, maxRepeat)
		v.Near = false
	}
	switch {
	case p.pending:
		v.Again = min(v.Again, p.wakeDebt.Add(-(wakeBurst-1)*wakeInterval).Sub(now))
	case p.Repeat && under:
		v.Again = min(v.Again, p.nextRepeat.Sub(now))
	case under:
		v.Again = min(v.Again, underInterval)
	}
	return v
}

// Report calls wake with what v says of signal s. cause is that of the look.
func (v Verdict) Report(s eviction.Signal, cause string, wake func(eviction.Wake)) {
	if v.Near {
		cause = eviction.CauseNear
	}
	if v.Wake || v.Near {
		wake(eviction.Wake{Signal: s, Cause: cause})
	}
}

// Lost processes a look without a figure: no threshold is met.
func (p *Pace) Lost(longest time.Duration) Verdict {
	clear(p.met)
	p.pending = false
	return Verdict{Left: -1, Again: longest}
}

func (p *Pace) near(now time.Time, left int64) bool {
	if left < 0 || float64(left) > p.PerSecond*nearTime.Seconds() {
		p.nears, p.nearLeft = 0, 0
		return false
	}
	p.nearLeft = max(p.nearLeft, left)
	fell := left < p.nearLeft-p.nearLeft/4
	if now.Before(p.nextNear) || p.nears >= mostNear && !fell {
		return false
	}
	p.nears, p.nextNear, p.nearLeft = p.nears+1, now.Add(nearInterval), left
	return true
}

// compare reports whether a threshold is newly met and whether any is met, and returns what is
// left to the nearest one that is not met, -1 if all are.
func (p *Pace) compare(now time.Time, available, capacity int64) (crossed, under bool, left int64) {
	if p.met == nil {
		p.met, p.reported = make([]bool, len(p.Thresholds)), make([]time.Time, len(p.Thresholds))
	}
	left = -1
	for i, t := range p.Thresholds {
		above := available - t.Of(capacity)
		met := above < 0
		under = under || met
		if met && !p.met[i] {
			if !p.Repeat && now.Sub(p.reported[i]) < onceIn {
				continue // as not met: it is reported later if it lasts
			}
			crossed, p.reported[i] = true, now
		}
		p.met[i] = met
		if !met && t != (eviction.Threshold{}) && (left < 0 || above < left) {
			left = above
		}
	}
	return crossed, under, left
}

// approach shortens the time to the next look to the minimum time that the signal needs to fall.
func (p *Pace) approach(left int64, longest time.Duration) time.Duration {
	seconds := float64(left) / p.PerSecond
	if seconds >= longest.Seconds() {
		p.looksNear = 0
		return longest
	}
	d := time.Duration(seconds * float64(time.Second))
	if d > closeInterval {
		p.looksNear = 0
		return d
	}
	p.looksNear++
	switch {
	case p.looksNear <= tightLooks:
		d = max(d, tightInterval)
	case p.looksNear <= closeLooks:
		d = closeInterval
	default:
		d = patientInterval
	}
	return min(d, longest)
}
