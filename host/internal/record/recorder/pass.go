package recorder

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

var (
	errNotTaken   = errors.New("passes come faster than records are made of them")
	errNotWritten = errors.New("records are made faster than they are written")
)

// An episode is a period in which an action is held back for a signal. It is recorded when it
// begins: neither a flapping signal nor alternating reasons may push out the records of evictions.
type episode struct {
	signal eviction.Signal
	kind   string
	// of is the threshold or the wait, empty if all reasons belong to one episode.
	of string
}

// episodes holds the time of each one's last record.
type episodes map[episode]time.Time

// recordedFor is the minimum time between two records of the same episode.
const recordedFor = 10 * time.Minute

// isNew reports whether to record an episode now.
func (e episodes) isNew(of episode, now time.Time) bool {
	maps.DeleteFunc(e, func(_ episode, last time.Time) bool { return now.Sub(last) >= recordedFor })
	if _, recorded := e[of]; recorded {
		return false
	}
	e[of] = now
	return true
}

func (k *Keeper) decisions(p *loop.Conclusion) (all []*decision.Decision) {
	d := p.Decision
	for i := range p.Evicted {
		all = append(all, k.evicted(p, &p.Evicted[i]))
	}
	if acted := d.Acted(); acted != nil && len(p.Evicted) == 0 {
		kind, reason := decision.KindNone, d.Reason
		if p.ReclaimSufficed {
			kind, reason = decision.KindReclaim, "reclaim was enough"
		}
		if now := time.Now(); reason != "" && k.episodes.isNew(episode{acted.Signal, kind, ""}, now) {
			all = append(all, k.record(d, kind, reason, now))
		}
	}
	for i := range d.Thresholds {
		t := &d.Thresholds[i]
		if p.Later || t.Hard() || t.Since == nil || !t.Since.Equal(d.Now) {
			continue
		}
		if text := t.String(); k.episodes.isNew(episode{t.Signal, decision.KindGrace, text}, d.Time) {
			all = append(all, k.record(about(d, i), decision.KindGrace, text+": its grace period has begun", d.Time))
		}
	}
	for _, w := range p.Waiting {
		if reason := decision.Waits(w); k.episodes.isNew(episode{w.Signal, decision.KindWaiting, reason}, d.Time) {
			all = append(all, k.record(about(d, lastMet(d, w.Signal)), decision.KindWaiting, reason, d.Time))
		}
	}
	return all
}

// evicted returns the record of a victim. For a limit of its own the order of the pods is irrelevant.
func (k *Keeper) evicted(p *loop.Conclusion, v *victim.Victim) *decision.Decision {
	kind := decision.KindEviction
	why := ""
	if v.Limit {
		kind, why = decision.KindLimit, v.Why
	}
	r := k.record(p.Decision, kind, "", v.EvictedAt)
	r.ID, r.DryRun = v.Record, v.DryRun
	r.Victim = recordedVictim(v)
	r.Victim.Why = why
	if len(r.Order) > 0 && !v.Limit {
		if first := r.Candidates[r.Order[0]]; first.UID == v.UID && first.State == "" && first.AtMost == 0 {
			r.Victim.Used = &first.Usage
		}
	}
	if !v.JournalledAt.IsZero() {
		r.Timeline.JournalledMS = decision.MS(v.JournalledAt, v.EvictedAt)
	}
	if v.Promised.OK {
		r.Victim.Promised = &v.Promised.Value
	}
	if !v.DryRun {
		k.open = append(k.open, newOpen(v))
	}
	return r
}

// about returns a copy of d about one of its thresholds, none if at is -1, without pods.
func about(d *decision.Decision, at int) *decision.Decision {
	r := *d
	r.Reclaim, r.Ranker, r.Candidates, r.Order, r.Protected = nil, nil, nil, nil, nil
	r.Thresholds = slices.Clone(d.Thresholds)
	for i := range r.Thresholds {
		r.Thresholds[i].Acted = i == at
	}
	return &r
}

// lastMet returns the last threshold of a signal whose grace period is over, -1 if there is none.
func lastMet(d *decision.Decision, s eviction.Signal) (at int) {
	at = -1
	for i := range d.Thresholds {
		if t := &d.Thresholds[i]; t.Signal == s && t.GraceOver {
			at = i
		}
	}
	return at
}

func recordedVictim(v *victim.Victim) *decision.Victim {
	return &decision.Victim{UID: v.UID, Pod: v.Key(), Owner: pods.OwnerOf(v.Pod.API), Signal: string(v.Signal), GraceSeconds: v.GraceSeconds, Message: v.Message}
}

// record returns a copy of d as a record of an event at a time.
func (k *Keeper) record(d *decision.Decision, kind, reason string, at time.Time) *decision.Decision {
	r := *d
	r.Node, r.Evictd = k.Node, k.Evictd
	r.ID, r.Kind, r.Reason, r.Time = decision.NewID(at), kind, reason, at.Round(0)
	r.Timeline.ObservedMS = decision.MS(d.Time, at)
	r.Timeline.BeganMS += r.Timeline.ObservedMS
	r.Thresholds = k.marks.dated(d.Thresholds, at)
	signal := eviction.Signal(r.Head().Signal)
	r.Signals, r.Marks = k.series.before(at, signal), k.marks.before(at, signal)
	if signal != "" {
		if at.Sub(k.began) >= decision.CauseAfter {
			r.Growth = k.usage.growth(&r, signal)
		}
		k.usage.enter(&r, at)
	}
	return &r
}

// killed returns the record of a kernel kill that was seen at a time, and was not yet there at the look before. It has the
// thresholds and figures of the last pass.
func (k *Keeper) killed(d *decision.Decision, at, before time.Time) *decision.Decision {
	base := &decision.Decision{Time: at, Now: at}
	if k.last != nil {
		base = about(k.last, -1)
		base.Trigger, base.Causes = "", "" // the pass has nothing to do with it
	}
	base.Version, base.DryRun, base.By, base.Victim, base.Kernel = decision.Version, false, d.By, d.Victim, d.Kernel
	base.Kernel.SinceMS = decision.MS(before, at)
	if v := d.Victim; v != nil {
		if used, known := k.usage.latest(eviction.MemoryAvailable)[v.UID]; known {
			base.Kernel.UsedBytes = &used
		}
	}
	return k.record(base, decision.KindKernel, d.Reason, at)
}

// kernelKilled records kernel kills.
func (k *Keeper) kernelKilled(kills []*decision.Decision, at, before time.Time) {
	k.queue(func() {
		for _, d := range kills {
			r := k.killed(d, at, before)
			k.putAll(func() { k.appendOthers(r) })
		}
	})
}
