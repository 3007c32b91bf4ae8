package memory

import (
	"os"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// fillRate is the fastest rate at which memory is expected to fill, in bytes per
	// nanosecond: about 4 GB/s. It converts a distance to the time until the next look.
	//
	// It applies with a level set too. On a node full of page cache the kernel drops as much
	// cache as is allocated: the usage does not change, the available memory falls at the
	// full rate, and no level is ever crossed.
	fillRate = 4
	// armedInterval is the maximum time between looks with a level set.
	armedInterval = time.Second
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
	// A signal is reported at most wakeBurst times in a row, and once per wakeInterval in the
	// long run: fewer than 10 times in any second.
	wakeBurst    = 4
	wakeInterval = 200 * time.Millisecond
)

// pace decides when to wake the host, when to look again, and at which usage the kernel should
// notify. It does no I/O and has no clock. It is not safe for concurrent use.
type pace struct {
	thresholds []eviction.Threshold
	// interval is the maximum time between looks while the kernel does not notify.
	interval time.Duration

	met         []bool // by threshold, at the last look
	pending     bool   // a wake is due, but the rate does not allow it yet
	nextRepeat  time.Time
	repeatAfter time.Duration
	wakeDebt    time.Time // when all wakes so far are paid for, at one per wakeInterval
	looksNear   int       // in a row within closeInterval of a threshold
}

// verdict is the result of one look at the memory.
type verdict struct {
	wake bool
	// level is the usage, in bytes, at which the next threshold is crossed if the
	// page cache stays as it is; 0 when there is no threshold left to cross.
	level int64
	// again is the maximum time until the next look.
	again time.Duration
}

func newPace(thresholds []eviction.Threshold, interval time.Duration) *pace {
	return &pace{thresholds: thresholds, interval: interval, met: make([]bool, len(thresholds))}
}

// look processes a sample. armed means that the kernel will notify at the level of the
// previous look.
func (p *pace) look(now time.Time, s nodefs.MemorySample, armed bool) verdict {
	if !s.Limited {
		return p.lost()
	}
	crossed, under, distance := p.compare(s)
	switch {
	case crossed:
		p.pending = true
		p.repeatAfter = firstRepeat
	case under && !now.Before(p.nextRepeat):
		p.pending = true
	}
	v := verdict{again: p.interval}
	if armed {
		v.again = armedInterval
	}
	if distance >= 0 {
		v.level = pageAbove(s.UsageBytes + distance)
		v.again = p.approach(distance, v.again)
	}
	if v.wake = p.pending && p.wakeDebt.Sub(now) <= (wakeBurst-1)*wakeInterval; v.wake {
		p.pending = false
		if p.wakeDebt.Before(now) {
			p.wakeDebt = now
		}
		p.wakeDebt = p.wakeDebt.Add(wakeInterval)
		p.nextRepeat = now.Add(p.repeatAfter)
		p.repeatAfter = min(2*p.repeatAfter, maxRepeat)
	}
	switch {
	case p.pending:
		v.again = min(v.again, p.wakeDebt.Add(-(wakeBurst-1)*wakeInterval).Sub(now))
	case under:
		v.again = min(v.again, p.nextRepeat.Sub(now))
	}
	return v
}

// lost returns the verdict for a look without a figure: no threshold is met.
func (p *pace) lost() verdict {
	clear(p.met)
	p.pending = false
	return verdict{again: p.interval}
}

// compare reports whether a threshold is newly met and whether any is met, and returns the bytes
// left to the nearest one that is not met, -1 if all are.
func (p *pace) compare(s nodefs.MemorySample) (crossed, under bool, distance int64) {
	distance = -1
	for i, t := range p.thresholds {
		left := s.AvailableBytes - t.Of(s.CapacityBytes)
		met := left < 0
		crossed = crossed || met && !p.met[i]
		under = under || met
		p.met[i] = met
		if !met && t != (eviction.Threshold{}) && (distance < 0 || left < distance) {
			distance = left
		}
	}
	return crossed, under, distance
}

// approach shortens the time to the next look to the minimum time that the memory needs to fill up.
func (p *pace) approach(distance int64, longest time.Duration) time.Duration {
	d := time.Duration(distance / fillRate)
	if d > closeInterval {
		p.looksNear = 0
		return min(d, longest)
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

var pageSize = int64(os.Getpagesize())

// pageAbove returns the least multiple of the page size above v. The usage counts whole pages and
// a threshold is met only beyond it, so the kernel must notify there.
func pageAbove(v int64) int64 { return (v/pageSize + 1) * pageSize }
