package recorder

import (
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// reliefFor bounds the time that an outcome waits for the relief after the end of its victim.
	reliefFor = time.Minute
	// afterwards is the period after the decision for which a record has samples of its signal.
	afterwards = 5 * time.Minute
)

// open is a victim whose outcome is not complete. Its outcome is written when the victim has ended
// and its relief is known, and once more with the signal's samples.
type open struct {
	decision.Outcome

	signal  eviction.Signal
	decided time.Time
	written bool
}

// follow writes the outcomes of victims that became known in p.
func (k *Keeper) follow(p *loop.Conclusion) {
	for i := range p.Victims {
		v := &p.Victims[i]
		if v.Resumed && v.Record != "" && !k.resumed[v.Record] {
			k.resume(v)
		}
	}
	now := time.Now()
	k.open = slices.DeleteFunc(k.open, func(o *open) bool {
		at := slices.IndexFunc(p.Victims, func(v victim.Victim) bool { return v.Record == o.ID })
		// A victim that is no longer in the history gets no more updates.
		if !o.written && (at < 0 || o.next(&p.Victims[at], now)) {
			o.written = true
			k.putOutcome(o.Outcome)
		}
		if at >= 0 && now.Sub(o.decided) < afterwards {
			return false
		}
		k.putAfter(o)
		return true
	})
}

func (k *Keeper) putOutcome(o decision.Outcome) {
	k.put(func() error { return k.Store.AppendOutcome(&o) })
}

// putAfter writes the samples of a victim's signal after the decision.
func (k *Keeper) putAfter(o *open) {
	if s := k.series.after(o.decided, o.signal); s != nil {
		k.putOutcome(decision.Outcome{ID: o.ID, After: s})
	}
}

// next updates the outcome from the victim's state, and reports whether it is complete.
func (o *open) next(v *victim.Victim, now time.Time) (over bool) {
	o.State, o.Err = v.State, v.Err
	if !v.KilledAt.IsZero() {
		o.KilledMS = decision.MS(v.KilledAt, o.decided)
	}
	ended := v.EndedAt()
	if !ended.IsZero() && v.State == victim.StateFinished {
		o.GoneMS = decision.MS(ended, o.decided)
	}
	if v.Released.OK {
		o.Released = &v.Released.Value
	}
	if !v.ReliefAt.IsZero() {
		o.ReliefMS = decision.MS(v.ReliefAt, o.decided)
	}
	// A limit of the pod itself relieves no signal.
	return !ended.IsZero() && (v.Released.OK || v.Limit || now.Sub(ended) >= reliefFor)
}

// resume records a kill by a former evictd, whose own record may be lost.
func (k *Keeper) resume(v *victim.Victim) {
	r := &decision.Decision{ // what this evictd knows is not of the decision
		Version: decision.Version, ID: v.Record, Kind: decision.KindResumed, Time: v.EvictedAt.Round(0), Node: k.Node, Evictd: k.Evictd,
		Victim: recordedVictim(v),
	}
	k.resumed[v.Record] = true
	k.put(func() error { return k.Store.Append(r) })
	k.open = append(k.open, newOpen(v))
}

func newOpen(v *victim.Victim) *open {
	return &open{Outcome: decision.Outcome{ID: v.Record, State: v.State}, signal: v.Signal, decided: v.EvictedAt}
}
