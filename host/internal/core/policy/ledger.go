package policy

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// mostRelief bounds the time after the end of a victim for which its promise counts, whatever
// samples and plugins say.
const mostRelief = time.Minute

// ReliefTime returns the time, from a victim's end on, in which the resources it leaves behind
// may show in the figures of s, at most eviction.MaxReliefTime.
func ReliefTime(d eviction.Definition) time.Duration {
	return min(cmp.Or(d.ReliefTime, eviction.DefaultReliefTime), eviction.MaxReliefTime)
}

// Relieved returns the signals of t's resource, which the end of a pod relieves, and its use of each, given its use of t's
// signal: memory of the node and of its pods alike, a filesystem by all its signals, and those signals of inForce whose
// definition names one of these. The number of inodes for an amount of bytes is unknown.
func Relieved(t Threshold, inForce []Threshold, layout eviction.Layout, use eviction.Figure) map[eviction.Signal]eviction.Figure {
	s, frees := t.Relieves(), map[eviction.Signal]eviction.Figure{}
	if s != t.Signal {
		use = eviction.Figure{} // the plugin's figure may be another than the resource's, which is measured after the kill
	}
	if b, _ := eviction.Builtin(s); b.Filesystem == "" {
		for _, s := range eviction.SameResource(s) {
			frees[s] = use
		}
	} else {
		for _, s := range layout.SameFilesystem(s) {
			b, _ := eviction.Builtin(s)
			for _, figure := range eviction.SignalsOn(b.Filesystem) {
				frees[figure] = eviction.Figure{}
			}
			frees[s] = use
		}
	}
	for _, custom := range append([]Threshold{t}, inForce...) {
		if figure, ok := frees[custom.Relieves()]; ok && custom.Custom != nil {
			frees[custom.Signal] = figure
		}
	}
	return frees
}

// Relieves returns the kubelet's signal of the resource that t's victims free, otherwise that of t.
func (t Threshold) Relieves() eviction.Signal { return cmp.Or(t.Definition().Relieves, t.Signal) }

// A Ledger tracks what victims of node pressure are expected to free and what has come back since,
// so that no second pod is evicted for the relief of the first. The zero Ledger is empty. A Ledger
// is immutable: its methods return another one.
type Ledger struct {
	promises []promise // in the order of the decisions
	accounts map[eviction.Signal]account
	settled  []Settlement
	// last holds the last victims, including those without outstanding relief, owners the recent ones
	// by owner.
	last   map[eviction.Signal]lastVictim
	owners map[string]family
	brakes map[eviction.Signal]brake
	met    []Observed // in the last pass
}

// A Settlement is the final balance of what a victim was expected to free of a signal.
type Settlement struct {
	UID, Pod string
	Signal   eviction.Signal
	// Promised is the amount it was last expected to free, Released the part of it seen to come back.
	Promised eviction.Figure
	Released int64
}

// Kept reports whether most of what was promised has come back.
func (s Settlement) Kept() bool {
	return s.Promised.OK && s.Promised.Value > 0 && broughtBy(s.Released, s.Promised.Value)
}

// A Promise is the relief expected of a victim.
type Promise struct {
	// UID and Pod name the victim.
	UID, Pod string
	// Owner identifies its controller, as in a Candidate. Siblings are the UIDs of Owner's pods, the victim included.
	Owner    string
	Siblings []string
	// Frees holds the signals of the resource for which the victim goes and its use of each, missing if
	// unknown.
	Frees map[eviction.Signal]eviction.Figure
	// Grace is the time that the victim has to end.
	Grace time.Duration
}

// A promise also has in Frees what the victim holds of other resources, as far as it was measured.
type promise struct {
	Promise

	decided, ended Moment                     // ended is zero as long as the victim is ending
	measured       map[eviction.Signal]Moment // when its use was last read
	came           map[eviction.Signal]int64  // and is in Frees no more
	own            map[eviction.Signal]bool   // of the resource for which it goes
}

// open reports whether something of s is still expected of p.
func (p *promise) open(s eviction.Signal) bool {
	_, ok := p.Frees[s]
	return ok
}

// An Owed holds the open promises of an ended victim, as the journal keeps them for the next host.
type Owed struct {
	UID     string                              `json:"uid"`
	Pod     string                              `json:"pod"`
	Decided Moment                              `json:"decided"`
	Ended   Moment                              `json:"ended"`
	Frees   map[eviction.Signal]eviction.Figure `json:"frees"` // the amounts that have not come back yet
}

// Owed returns what ended victims have yet to free.
func (l Ledger) Owed() (all []Owed) {
	for i := range l.promises {
		if p := &l.promises[i]; !p.ending() {
			all = append(all, Owed{p.UID, p.Pod, p.decided, p.ended, p.Frees})
		}
	}
	return all
}

// Restored returns a ledger with the promises of a former host. What is not seen to come brings the kubelet's pace.
func Restored(all []Owed, now func() Moment) Ledger {
	l := Ledger{}.copied()
	for _, of := range all {
		if since := now().since(of.Ended); since < 0 || since >= mostRelief {
			continue
		}
		p := promise{Promise: Promise{UID: of.UID, Pod: of.Pod, Frees: maps.Clone(of.Frees)}, decided: of.Decided, ended: of.Ended, own: map[eviction.Signal]bool{}}
		for s := range of.Frees {
			p.own[s] = true
			l.accounts[s] = account{relief: ReliefTime(Threshold{Signal: s}.Definition())}
			l.last[s] = lastVictim{uid: of.UID, pod: of.Pod, decided: of.Decided, ended: of.Ended}
		}
		l.promises = append(l.promises, p)
	}
	return l.tidied()
}

func (p *promise) ending() bool { return p.ended.isZero() }

// An account tracks a signal since its last victim was taken, or measured.
type account struct {
	// relief is the time in which the resources of a victim may show.
	relief time.Duration
	// seen is the latest sample that counted. base was available in it or in one before,
	// known says if that was observed.
	// cameBack is the most that was available beyond base since, less what promises that
	// are kept account for.
	base     int64
	seen     Moment
	known    bool
	cameBack int64
	// beyond is the shortage that all promises left when the last one was made, negative if they were more than it. What a
	// promise dropped since then had yet to bring is part of it: without it the shortage has not grown.
	beyond int64
}

// Promised records a victim taken at now for t, with the observations of that time.
func (l Ledger) Promised(p Promise, t Threshold, observations map[eviction.Signal]eviction.Observation, now Moment) Ledger {
	next := l.copied()
	p.Frees = maps.Clone(p.Frees)
	made := promise{Promise: p, decided: now, measured: map[eviction.Signal]Moment{}, own: map[eviction.Signal]bool{}}
	for s := range p.Frees {
		made.measured[s], made.own[s] = now, true
		next.count(t, s, observations[s], now)
	}
	next.promises = append(next.promises, made)
	next.lastOf(p, now)
	if o := observations[t.Signal]; o.State == eviction.Observed {
		a := next.accounts[t.Signal]
		expected, _ := next.expected(t.Signal)
		a.beyond = Shortfall(t, o) - expected
		next.accounts[t.Signal] = a
	}
	return next
}

// count opens the account of s for a promise that is made for t, or rebases it.
func (l *Ledger) count(t Threshold, s eviction.Signal, o eviction.Observation, now Moment) {
	if s != t.Signal {
		t = Threshold{Signal: s}
	}
	if _, ok := l.accounts[s]; !ok {
		l.accounts[s] = account{relief: ReliefTime(t.Definition())}
	}
	// A choice that took long is by a sample of before what has come back meanwhile.
	seen, at := l.accounts[s].seen, sampled(o, now)
	if o.State == eviction.Observed && (seen.isZero() || !seen.after(at)) {
		l.rebase(s, o, at)
	}
}

// Measured records what a victim that is still terminating holds of t's resource. It may have grown since it was
// chosen, and shrinking has given back nothing.
func (l Ledger) Measured(uid string, t Threshold, uses map[eviction.Signal]eviction.Figure, observations map[eviction.Signal]eviction.Observation, at Moment) Ledger {
	next := l.copied()
	for i := range next.promises {
		p := &next.promises[i]
		for s, use := range uses {
			was, open := p.Frees[s]
			if p.UID != uid || !p.ending() || !use.OK {
				continue
			}
			if p.measured[s] = at; !open {
				next.count(t, s, observations[s], at)
			}
			p.Frees[s] = eviction.Some(max(was.Value, use.Value))
		}
	}
	return next
}

// Shortened records that a victim has only so long left to end.
func (l Ledger) Shortened(uid string, grace time.Duration, now Moment) Ledger {
	return l.change(uid, func(p *promise) { p.Grace = min(p.Grace, now.since(p.decided)+grace) })
}

// Ended records that nothing of a victim is left at the given time: what it frees is on its way.
func (l Ledger) Ended(uid string, at Moment) Ledger {
	next := l.change(uid, func(p *promise) { p.ended = at })
	for _, p := range next.promises {
		for s, use := range p.Frees { // of other resources too, from now on
			if last := next.last[s].decided; p.UID == uid && use.Value > 0 && (last.isZero() || p.decided.after(last)) {
				next.last[s] = lastVictim{p.UID, p.Pod, p.Owner, p.decided, at}
			}
		}
	}
	next.end(uid, at)
	return next
}

// Dropped removes a victim of which no more relief is expected.
func (l Ledger) Dropped(uid string, at Moment) Ledger {
	next := l.copied()
	for i := range next.promises {
		if p := &next.promises[i]; p.UID == uid {
			next.drop(p)
		}
	}
	next = next.tidied()
	for s, v := range next.last {
		if v.uid == uid {
			next.relieved(s, false)
		}
	}
	next.end(uid, at)
	return next
}

// drop ends a promise of which no more is expected.
func (l *Ledger) drop(p *promise) {
	for s, use := range p.Frees {
		a := l.accounts[s]
		expected, _ := l.expected(s)
		a.beyond += min(use.Value, max(0, expected-a.cameBack))
		l.accounts[s] = a
	}
	clear(p.Frees)
}

func (l Ledger) change(uid string, change func(*promise)) Ledger {
	next := l.copied()
	for i := range next.promises {
		if p := &next.promises[i]; p.UID == uid {
			change(p)
		}
	}
	return next.tidied()
}

// Settled returns the settlements of the change that made l.
func (l Ledger) Settled() []Settlement { return l.settled }

// settle closes the promise of s, with the amount that has come back by o.
func (l *Ledger) settle(p *promise, s eviction.Signal, o eviction.Observation, came int64) {
	use, before := p.Frees[s], p.came[s]
	if use.OK {
		use.Value += before
	}
	settled := Settlement{UID: p.UID, Pod: p.Pod, Signal: s, Promised: use, Released: before + came}
	delete(p.Frees, s)
	if p.own[s] {
		l.settled = append(l.settled, settled)
	}
	lacks := func(m Observed) bool { return m.Signal == s && !broughtBy(use.Value, Shortfall(m.Threshold, o)) }
	if use.OK && (p.own[s] || !slices.ContainsFunc(l.met, lacks)) { // others are not known to have had enough
		l.relieved(s, settled.Kept())
	}
}

// copied returns a copy of l that shares nothing with another Ledger, and nothing settled yet.
func (l Ledger) copied() Ledger {
	l.settled = nil
	l.promises, l.accounts = slices.Clone(l.promises), maps.Clone(l.accounts)
	for i := range l.promises {
		l.promises[i].Frees = maps.Clone(l.promises[i].Frees)
		l.promises[i].came = maps.Clone(l.promises[i].came)
		l.promises[i].measured = maps.Clone(l.promises[i].measured)
	}
	l.last, l.owners, l.brakes = maps.Clone(l.last), maps.Clone(l.owners), maps.Clone(l.brakes)
	if l.accounts == nil {
		l.accounts, l.last = map[eviction.Signal]account{}, map[eviction.Signal]lastVictim{}
		l.owners, l.brakes = map[string]family{}, map[eviction.Signal]brake{}
	}
	return l
}

// tidied drops promises that are kept or over, and accounts without a promise.
func (l Ledger) tidied() Ledger {
	l.promises = slices.DeleteFunc(l.promises, func(p promise) bool { return len(p.Frees) == 0 })
	maps.DeleteFunc(l.accounts, func(s eviction.Signal, _ account) bool {
		return !slices.ContainsFunc(l.promises, func(p promise) bool { return p.open(s) })
	})
	maps.DeleteFunc(l.brakes, func(_ eviction.Signal, b brake) bool { return b.reason() == "" })
	return l
}

// of returns the open promises of s, those of ended victims first, in the order of their ends.
func (l Ledger) of(s eviction.Signal) []*promise {
	var open []*promise
	for i := range l.promises {
		if l.promises[i].open(s) {
			open = append(open, &l.promises[i])
		}
	}
	slices.SortStableFunc(open, func(a, b *promise) int {
		if a.ending() || b.ending() {
			return TrueFirst(!a.ending(), !b.ending())
		}
		return cmp.Compare(a.ended.since(b.ended), 0)
	})
	return open
}

// expected returns the sum of the open promises of s, and whether all of them are known. A
// promise of nothing cannot be relied on of a victim for it: the figure may be older than the use.
func (l Ledger) expected(s eviction.Signal) (total int64, known bool) {
	known = true
	for i := range l.promises {
		use, open := l.promises[i].Frees[s]
		if !open {
			continue
		}
		known = known && use.OK && (use.Value > 0 || !l.promises[i].own[s])
		total += use.Value
	}
	return total, known
}

// Observed records the observations of a pass at now, and the thresholds that are met. Promises end
// when the whole amount has come back, or when their time is over by sample times: a sample older
// than the victim's end does not count. If no threshold is met any more nearly all is enough: usage
// is measured a moment after what was available, and some of it was shared. A later crossing is a
// new shortage.
func (l Ledger) Observed(observations map[eviction.Signal]eviction.Observation, met []Observed, now Moment) Ledger {
	if l.met = met; len(l.promises) == 0 && len(l.brakes) == 0 {
		l.settled = nil
		return l
	}
	next := l.copied()
	for _, p := range next.promises {
		if !p.ending() && now.since(p.ended) >= mostRelief {
			for s, use := range p.Frees {
				if p.own[s] && use.OK {
					next.relieved(s, false)
				}
			}
			next.drop(&p)
		}
	}
	for s, o := range observations {
		if o.State != eviction.Observed {
			continue
		}
		short := slices.ContainsFunc(met, func(m Observed) bool { return m.Signal == s })
		if _, ok := next.accounts[s]; ok {
			next.close(s, o, short, sampled(o, now))
		}
		next.release(s, short, now)
	}
	return next.tidied()
}

// close closes the promises of s that are kept or over according to o.
func (l *Ledger) close(s eviction.Signal, o eviction.Observation, short bool, at Moment) {
	a, open := l.accounts[s], l.of(s)
	if len(open) == 0 {
		return
	}
	if o.Available < a.base+a.cameBack && grown(l.promises, s, a.seen, at) {
		l.rebase(s, o, at)
		a, open = l.accounts[s], l.of(s)
	}
	a.look(o, at, open[0].decided)
	for _, p := range open {
		use := p.Frees[s]
		if p.ending() || !at.after(p.ended) {
			break
		}
		enough := use.Value
		if !short {
			enough -= use.Value / 10
		}
		kept := use.OK && (use.Value > 0 || !p.own[s]) && a.known && a.cameBack >= enough
		over := at.since(p.ended) >= a.relief && freeing(s, o) == 0
		if !kept && !over {
			break
		}
		came := a.cameBack
		if use.OK && use.Value > 0 {
			came = min(came, use.Value)
		}
		a.base, a.cameBack, a.beyond = a.base+came, a.cameBack-came, a.beyond+max(0, use.Value-came)
		l.settle(p, s, o, came)
	}
	l.accounts[s] = a
}

// look enters a sample, which counts if it is from after the first open promise.
func (a *account) look(o eviction.Observation, at, decided Moment) {
	if a.seen.isZero() || at.after(a.seen) {
		a.seen = at
	}
	if a.known && at.after(decided) {
		a.cameBack = max(a.cameBack, o.Available-a.base)
	}
}

// grown reports whether at is the first sample of s after a victim that is still ending was
// measured, seen being the one before it: what the victim has taken in between is in its
// use and must be missing in base.
func grown(promises []promise, s eviction.Signal, seen, at Moment) bool {
	return slices.ContainsFunc(promises, func(p promise) bool {
		return p.open(s) && p.ending() && (seen.isZero() || !seen.after(p.measured[s])) && at.after(p.measured[s])
	})
}

// rebase makes relief count from a sample of s on. Earlier relief is no longer expected of victims
// that have ended.
func (l *Ledger) rebase(s eviction.Signal, o eviction.Observation, at Moment) {
	a := l.accounts[s]
	for _, p := range l.of(s) {
		use := p.Frees[s]
		came := min(a.cameBack, use.Value)
		if p.ending() || came == 0 {
			continue
		}
		a.cameBack -= came
		if use.Value == came {
			l.settle(p, s, o, came)
			continue
		}
		if p.came == nil {
			p.came = map[eviction.Signal]int64{}
		}
		use.Value -= came
		p.Frees[s], p.came[s] = use, p.came[s]+came
	}
	a.base, a.seen, a.known = o.Available-a.cameBack, at, true
	l.accounts[s] = a
}

// broughtBy reports whether so much has come back of a use: at least half, since others may
// take of it meanwhile.
func broughtBy(came, use int64) bool { return came >= use-came }

// freeing returns the further amount that a plugin knows to be on its way. The kernel reports
// nothing of the kind about memory and processes, so no plugin can know it.
func freeing(s eviction.Signal, o eviction.Observation) int64 {
	if d, _ := eviction.Builtin(s); d.Condition == eviction.MemoryPressure || d.Condition == eviction.PIDPressure {
		return 0
	}
	return max(0, o.Freeing)
}

// Newest returns the latest sample of each signal, and of samples with the same time that of the
// later view: otherwise the next victim would get the relief of another one in between.
func Newest(views ...map[eviction.Signal]eviction.Observation) map[eviction.Signal]eviction.Observation {
	newest := map[eviction.Signal]eviction.Observation{}
	for _, view := range views {
		for s, o := range view {
			was, at := momentOf(newest[s]), momentOf(o)
			if o.State == eviction.Observed && (was.isZero() || !was.after(at)) {
				newest[s] = o
			}
		}
	}
	return newest
}

// sampled returns when o was sampled: at now if it does not say.
func sampled(o eviction.Observation, now Moment) Moment {
	if at := momentOf(o); !at.isZero() {
		return at
	}
	return now
}
