package policy

import (
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// What the next victim waits for.
const (
	WaitForEnd    = "end"    // of a victim
	WaitForFigure = "figure" // a sample of after the victim's end
	WaitForRelief = "relief" // what was promised
	WaitForPace   = "pace"   // a pass in which a kubelet would take its next victim
)

// A Verdict says whether another pod may go for a threshold.
type Verdict struct {
	Go bool
	// Measure has the victims, by uid, whose use must be known as of now before Go may
	// be said: more is missing than was promised, and they may have grown.
	Measure []string
	// Wait gives the reason for the wait, if not Go.
	Wait Wait
}

// A Wait says why no other pod is evicted yet for a signal's thresholds.
type Wait struct {
	Signal eviction.Signal `json:"signal"`
	For    string          `json:"for"`
	// Reason is why the next victim waits for the kubelet's pace.
	Reason string `json:"reason,omitempty"`
	// Victims are the pods whose end or relief is waited for.
	Victims []string `json:"victims"`
	// Expected is the amount they are to free, 0 if that is not known, and CameBack the part of
	// it that has come back, in the signal's base unit.
	Expected int64 `json:"expected,omitempty"`
	CameBack int64 `json:"cameBack,omitempty"`
	// Until is when the wait is over at the latest as far as is known.
	Until time.Time `json:"until"`
	// LookAt is when to look again: often at first, since relief mostly comes at once.
	LookAt time.Time `json:"-"`
}

// Judge decides whether another pod may be evicted for t, which o meets: if each former victim has
// freed what it used, if its time for that is over, if the outstanding relief is not enough and
// most has come or a kubelet would look, or if under a hard threshold the shortage has grown beyond
// all promised relief while they are still terminating. While a brake is on, the kubelet's pace
// applies. Victims of other resources are awaited as far as they hold what is missing. The Ledger
// must have Observed the observations that o is from.
func (l Ledger) Judge(t Threshold, o eviction.Observation, now Moment) Verdict {
	if v, wait := l.others(t, o, now); wait {
		return v
	}
	pace, braked := l.paced(t, now)
	open := slices.DeleteFunc(l.of(t.Signal), func(p *promise) bool { return p.ending() && !p.own[t.Signal] })
	if len(open) > 0 {
		if v := l.outstanding(t, o, open, now); !v.Go && (!braked || v.Wait.For == WaitForEnd) {
			return v
		}
	}
	return Verdict{Go: !braked, Wait: pace}
}

// outstanding says whether another pod may go for t although open promises have not been
// kept yet.
func (l Ledger) outstanding(t Threshold, o eviction.Observation, open []*promise, now Moment) Verdict {
	last := open[len(open)-1] // ending, if any is
	at := sampled(o, now)
	missing, measurable := l.missing(t, o)
	a, w := l.accounts[t.Signal], l.wait(t.Signal, open, now)
	switch {
	case last.ending():
		w.For, w.Until = WaitForEnd, last.decided.Time.Add(last.Grace)
		w.LookAt = time.Time{} // the end is reported
		grown := t.Hard() && measurable && at.after(last.decided) && missing > 2*max(0, a.beyond)
		if grown && l.brakes[t.Signal].reason() == "" {
			var stale []string // victims still ending whose use was read before
			for _, p := range open {
				if p.ending() && at.after(p.measured[t.Signal]) {
					stale = append(stale, p.UID)
				}
			}
			return Verdict{Go: len(stale) == 0, Measure: stale, Wait: w}
		}
	case !at.after(last.ended):
		w.For = WaitForFigure
	case measurable && missing > 0 && (broughtBy(a.cameBack, w.Expected) || now.since(last.ended) >= cleanupPoll/2):
		return Verdict{Go: true}
	case at.since(last.ended) >= a.relief && freeing(t.Signal, o) < Shortfall(t, o):
		return Verdict{Go: true}
	}
	return Verdict{Wait: w}
}

// missing returns the part of t's shortage that would remain after all open promises, and
// whether that is known.
func (l Ledger) missing(t Threshold, o eviction.Observation) (int64, bool) {
	a, counted := l.accounts[t.Signal]
	expected, known := l.expected(t.Signal)
	return max(0, Shortfall(t, o)-max(expected-a.cameBack, freeing(t.Signal, o))), known && (a.known || !counted)
}

// others returns the wait for victims of other resources that are still ending and, as far as is known, hold
// what t lacks: as long as a kubelet waits for their end, or where it is not known what they hold, for the relief time.
func (l Ledger) others(t Threshold, o eviction.Observation, now Moment) (v Verdict, wait bool) {
	missing, known := l.missing(t, o)
	expected, _ := l.expected(t.Signal)
	for i := range l.promises {
		p := &l.promises[i]
		due := p.Grace + ReliefTime(t.Definition())
		if p.Frees[t.Signal].Value > 0 && broughtBy(expected-l.accounts[t.Signal].cameBack, Shortfall(t, o)) { // it may have grown since it was measured
			due = p.Grace + cleanupTimeout
		}
		at, measured := p.measured[t.Signal]
		old := !measured || sampled(o, now).after(at)
		if p.own[t.Signal] || !p.ending() || now.since(p.decided) >= due || known && missing > 0 && !old {
			continue
		}
		if old && (missing > 0 || !known) {
			v.Measure = append(v.Measure, p.UID)
		}
		v.Wait.Victims = append(v.Wait.Victims, p.Pod)
		if until := now.Time.Add(due - now.since(p.decided)); until.After(v.Wait.Until) {
			v.Wait.Until = until
		}
	}
	v.Wait.Signal, v.Wait.For, v.Wait.LookAt = t.Signal, WaitForEnd, v.Wait.Until
	return v, len(v.Wait.Victims) > 0
}

func (l Ledger) wait(s eviction.Signal, open []*promise, now Moment) Wait {
	a := l.accounts[s]
	w := Wait{Signal: s, For: WaitForRelief, CameBack: a.cameBack}
	if expected, known := l.expected(s); known {
		w.Expected = expected
	}
	for _, p := range open {
		w.Victims = append(w.Victims, p.Pod)
	}
	slices.Sort(w.Victims)
	ended := open[len(open)-1].ended
	w.Until = ended.Time.Add(a.relief)
	if !w.Until.After(now.Time) { // as no newer figure has come, or more is being freed
		w.Until = ended.Time.Add(mostRelief)
	}
	w.LookAt = now.Time.Add(nextLook(now.since(ended)))
	return w
}

// LookAt returns when to look again for what has not come back yet of victims that have
// ended, zero if nothing is expected. Also where no threshold is met any more: only who
// looks sees that it came.
func (l Ledger) LookAt(now Moment) (at time.Time) {
	for i := range l.promises {
		p := &l.promises[i]
		for s := range p.Frees {
			look := now.Time.Add(nextLook(now.since(p.ended)))
			if !p.ending() && l.accounts[s].known && now.since(p.ended) < l.accounts[s].relief && (at.IsZero() || look.Before(at)) {
				at = look
			}
		}
	}
	return at
}

// nextLook returns the time until the next look, given the time since a victim's end.
func nextLook(since time.Duration) time.Duration {
	const soonest, latest = 20 * time.Millisecond, time.Second
	return min(max(since/4, soonest), latest)
}

// ShorterGrace returns the grace period in seconds to which that of a victim that is ending is cut because a
// hard t is met and no other pod may go yet, and whether it is. hard: it went for a hard threshold itself. Below
// a quarter of a threshold of memory.available it has none: the rest of the memory would not last for it.
func ShorterGrace(t Threshold, o eviction.Observation, hard bool, graceSeconds int64) (seconds int64, cut bool) {
	if value := t.Value.Of(o.Capacity); t.Signal == eviction.MemoryAvailable && o.State == eviction.Observed && o.Available < value.Value()/4 {
		return 0, t.Hard() && graceSeconds > 0
	}
	return HardGraceSeconds, t.Hard() && !hard && graceSeconds > HardGraceSeconds
}
