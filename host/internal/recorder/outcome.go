package recorder

import (
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// reliefFor is how long after a victim's end it is looked for what its end has brought.
const reliefFor = 10 * time.Second

// open is a victim of which it is not yet known what followed.
type open struct {
	decision.Outcome

	signal   eviction.Signal
	decided  time.Time
	before   decision.Observation
	promised eviction.Figure
}

// follow writes the outcomes of victims that are known after p.
func (k *Keeper) follow(p *Pass) {
	for i := range p.Victims {
		v := &p.Victims[i]
		if v.Resumed && v.Record != "" && !k.resumed[v.Record] {
			k.resume(v)
		}
	}
	now := time.Now()
	k.open = slices.DeleteFunc(k.open, func(o *open) bool {
		at := slices.IndexFunc(p.Victims, func(v victim.Victim) bool { return v.Record == o.ID })
		if at < 0 { // no longer shown: what is known is known
			k.put(func() error { return k.Store.AppendOutcome(&o.Outcome) })
			return true
		}
		v := &p.Victims[at]
		over := o.next(v, p.Decision, now)
		if over {
			k.put(func() error { return k.Store.AppendOutcome(&o.Outcome) })
		}
		return over
	})
}

// enterOpinions puts what shadows say beside what followed, or alone where nothing follows.
func (k *Keeper) enterOpinions(p *Pass) {
	if len(p.Opinions) == 0 {
		return
	}
	if at := slices.IndexFunc(k.open, func(o *open) bool { return o.ID == p.OpinionsOf }); at >= 0 {
		k.open[at].Shadows = p.Opinions
		return
	}
	k.put(func() error { return k.Store.AppendOutcome(&decision.Outcome{ID: p.OpinionsOf, Shadows: p.Opinions}) })
}

func newOpen(r *decision.Decision, v *victim.Victim) *open {
	o := &open{Outcome: decision.Outcome{ID: r.ID, State: v.State}, signal: v.Signal, decided: v.Time, promised: v.Promised}
	if before := r.Observation(v.Signal); before != nil {
		o.before = *before
	}
	return o
}

// next enters how the victim stands and what was observed, and reports whether all that is
// to be known of it is.
func (o *open) next(v *victim.Victim, d *decision.Decision, now time.Time) (over bool) {
	o.State, o.Err = v.State, v.Err
	if !v.KilledAt.IsZero() {
		o.KilledMS = decision.MS(v.KilledAt, o.decided)
	}
	ended := v.EndedAt()
	if !ended.IsZero() && v.State == victim.StateFinished {
		o.GoneMS = decision.MS(ended, o.decided)
	}
	if seen := d.Observation(o.signal); seen != nil && seen.State == decision.StateObserved && o.before.State == decision.StateObserved && d.Time.After(o.decided) {
		if freed := max(0, seen.Available-o.before.Available); o.Freed == nil || freed > *o.Freed {
			o.Freed = &freed
		}
		if o.ReliefMS == 0 && o.promised.OK && o.promised.Value > 0 && *o.Freed >= o.promised.Value-o.promised.Value/10 {
			o.ReliefMS = decision.MS(d.Time, o.decided)
		}
	}
	// A limit of the pod's own relieves no signal.
	return !ended.IsZero() && (o.ReliefMS > 0 || !v.Pressure || now.Sub(ended) >= reliefFor)
}

// resume records a kill that a former evictd has decided on, whose own record may be lost.
func (k *Keeper) resume(v *victim.Victim) {
	r := &decision.Decision{ // what this evictd knows is not of the decision
		Version: decision.Version, ID: v.Record, Kind: decision.KindResumed, Time: v.Time.Round(0), Node: k.Node, Evictd: k.Evictd,
		Victim: recordedVictim(v),
	}
	k.resumed[v.Record] = true
	k.put(func() error { return k.Store.Append(r) })
	k.open = append(k.open, newOpen(r, v))
}
