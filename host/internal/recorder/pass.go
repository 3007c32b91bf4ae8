package recorder

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/choose"
	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

var (
	errNotTaken   = errors.New("passes come faster than records are made of them")
	errNotWritten = errors.New("records are made faster than they are written")
)

// A Pass is what the loop knows when a pass has ended, or what one has begun. Nothing of
// it is changed afterwards.
type Pass struct {
	Number          uint64
	Trigger, Causes string
	// Began and Observed are when the pass that decided began and had observed the
	// node, by this machine's clock. Now is the time that its thresholds go by.
	Began, Observed, Now time.Time
	// Later: it ends what an earlier pass has begun, which has found all this.
	Later        bool
	Thresholds   []policy.Threshold
	Observations map[eviction.Signal]eviction.Observation
	Assessment   policy.Assessment
	Layout       string
	// Config identifies the configuration. Pacing and RankVeto are of it.
	Config, Pacing, RankVeto string
	DryRun                   bool
	// Acted is the threshold that was acted on, nil if none was.
	Acted *policy.Threshold
	// Choice is that of a pod, zero if none was to be chosen. Nobody is why no pod can go.
	Choice  choose.Choice
	Nobody  string
	Reclaim []decision.Reclaim
	// ReclaimSufficed: no pod has to go.
	ReclaimSufficed bool
	// Evicted are the victims of this pass, Victims the last of all, as they are now.
	Evicted, Victims []victim.Victim
	// Promised is what a victim of the pass is expected to free, by uid.
	Promised map[string]eviction.Figure
	// Waiting says what thresholds wait for.
	Waiting []policy.Wait
	// Opinions are those of shadows on the decision whose record is named.
	Opinions   []decision.Opinion
	OpinionsOf string
}

// An episode is that something is not done for a signal and why. It is recorded when it
// begins: a signal that comes and goes must not push out the records of evictions.
type episode struct {
	signal eviction.Signal
	kind   string
}

// episodes have the reason and the time of the last record of each.
type episodes map[episode]told

type told struct {
	reason string
	at     time.Time
}

// tellAgain is how long the same reason is not recorded again.
const tellAgain = 10 * time.Minute

// isNew reports whether a reason is to be recorded now.
func (e episodes) isNew(of episode, reason string, now time.Time) bool {
	if last, ok := e[of]; ok && last.reason == reason && now.Sub(last.at) < tellAgain {
		return false
	}
	e[of] = told{reason, now}
	return true
}

// decisions are the records that p is worth.
func (k *Keeper) decisions(p *Pass) (all []*decision.Decision) {
	for i := range p.Evicted {
		all = append(all, k.evicted(p, &p.Evicted[i]))
	}
	if p.Acted != nil && len(p.Evicted) == 0 {
		all = append(all, k.notEvicted(p)...)
	}
	for _, o := range p.Assessment.Observed {
		if !p.Later && !o.Hard() && !o.Frozen && o.FirstObservedAt.Equal(p.Now) && k.episodes.isNew(episode{o.Threshold.Signal, decision.KindGrace}, o.Threshold.String(), p.Observed) {
			r := k.record(p, decision.KindGrace, p.Observed)
			act(r, o.Threshold)
			r.Reason = o.Threshold.String() + ": its grace period has begun"
			all = append(all, r)
		}
	}
	for _, w := range p.Waiting {
		reason := waits(w)
		if k.episodes.isNew(episode{w.Signal, decision.KindWaiting}, reason, p.Observed) {
			r := k.record(p, decision.KindWaiting, p.Observed)
			for _, t := range p.Assessment.Met {
				if t.Signal == w.Signal {
					act(r, t)
				}
			}
			r.Reason = reason
			all = append(all, r)
		}
	}
	return all
}

func (k *Keeper) notEvicted(p *Pass) []*decision.Decision {
	kind, reason := decision.KindNobody, p.Nobody
	if p.ReclaimSufficed {
		kind, reason = decision.KindReclaim, "reclaim was enough"
	}
	if reason == "" || !k.episodes.isNew(episode{p.Acted.Signal, kind}, reason, time.Now()) {
		return nil
	}
	r := k.record(p, kind, time.Now())
	r.Reason = reason
	choice(r, p)
	r.Growth = k.censuses.growth(p, r.Time)
	return []*decision.Decision{r}
}

// evicted is the record of a victim. A limit of its own has nothing to do with the order of
// the pods.
func (k *Keeper) evicted(p *Pass, v *victim.Victim) *decision.Decision {
	kind := decision.KindLimit
	if v.Pressure {
		kind = decision.KindEviction
	}
	r := k.record(p, kind, v.Time)
	r.ID, r.DryRun = v.Record, v.DryRun
	r.Victim = &decision.Victim{UID: v.UID, Pod: v.Name, Signal: string(v.Signal), GraceSeconds: v.GraceSeconds, Message: v.Message}
	if !v.JournalledAt.IsZero() {
		r.Timeline.JournalledMS = ms(v.JournalledAt, v.Time)
	}
	if use := p.Promised[v.UID]; use.OK {
		r.Victim.Promised = &use.Value
	}
	if v.Pressure {
		choice(r, p)
		r.Growth = k.censuses.growth(p, v.Time)
	}
	if !v.DryRun {
		k.open = append(k.open, &open{
			Outcome: decision.Outcome{ID: r.ID, State: v.State}, signal: v.Signal, decided: v.Time,
			before: p.Observations[v.Signal], promised: p.Promised[v.UID],
		})
	}
	return r
}

// record is one with what all of a pass have.
func (k *Keeper) record(p *Pass, kind string, at time.Time) *decision.Decision {
	r := document(p, kind, at)
	r.Node, r.Evictd, r.Signals = k.Node, k.Evictd, k.series.before(at)
	r.Timeline.BeganMS, r.Timeline.ObservedMS = ms(p.Began, at), ms(p.Observed, at)
	return r
}

// Ranking is the record of what a pass would decide that acts on its threshold. It is kept
// nowhere, and does not say on which node.
func Ranking(p *Pass) *decision.Decision {
	r := document(p, decision.KindRanking, p.Observed)
	r.Reason = p.Nobody
	for _, w := range p.Waiting {
		if w.Signal == p.Acted.Signal {
			r.Reason = waits(w)
		}
	}
	choice(r, p)
	return r
}

func waits(w policy.Wait) string {
	if w.For == policy.WaitForPace {
		return "waits for the kubelet's pace after " + strings.Join(w.Victims, ", ") + ": " + w.Reason
	}
	return "waits for the " + w.For + " of " + strings.Join(w.Victims, ", ")
}

func document(p *Pass, kind string, at time.Time) *decision.Decision {
	r := &decision.Decision{
		Version: decision.Version, ID: decision.NewID(at), Kind: kind, Time: at.Round(0), Config: p.Config, DryRun: p.DryRun,
		Trigger: p.Trigger, Causes: p.Causes, Pass: p.Number, Pacing: p.Pacing, RankVeto: p.RankVeto, Layout: p.Layout, Now: p.Now.Round(0),
		Observations: decision.Observations(p.Observations), Reclaim: p.Reclaim,
	}
	for _, t := range p.Thresholds {
		r.Thresholds = append(r.Thresholds, threshold(t, &p.Assessment, p.Now))
	}
	if p.Acted != nil {
		act(r, *p.Acted)
	}
	return r
}

// threshold is t as it stood at now. What has passed since it was first met is right even if
// the wall clock was set meanwhile.
func threshold(t policy.Threshold, a *policy.Assessment, now time.Time) decision.Threshold {
	out := decision.Threshold{Signal: t.Signal, GraceSeconds: t.GracePeriod.Seconds(), Custom: t.Custom}
	out.Quantity, out.Percentage = t.Value.Texts()
	if t.MinReclaim != nil {
		out.MinReclaim, out.MinReclaimPercentage = t.MinReclaim.Texts()
	}
	is := func(u policy.Threshold) bool { return u.Key() == t.Key() }
	for _, o := range a.Observed {
		if is(o.Threshold) {
			out.Since = new(now.Round(0).Add(-now.Sub(o.FirstObservedAt)))
		}
	}
	out.GraceOver, out.Actionable = slices.ContainsFunc(a.Met, is), slices.ContainsFunc(a.Actionable, is)
	return out
}

// act marks the threshold that was acted on.
func act(r *decision.Decision, acted policy.Threshold) {
	row := threshold(acted, &policy.Assessment{}, time.Time{})
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		t.Acted = t.Signal == row.Signal && t.Quantity == row.Quantity && t.Percentage == row.Percentage && t.GraceSeconds == row.GraceSeconds
	}
}

// choice enters who could go in which order.
func choice(r *decision.Decision, p *Pass) {
	c, signal := &p.Choice, p.Acted.Signal
	r.Timeline.MeasuringMS = float64(c.Took.Microseconds()) / 1000
	if c.Ranker != "" {
		r.Ranker = &decision.Ranker{Name: c.Ranker, Version: c.RankerVersion, Custom: c.RankerCustom}
	}
	places := make(map[string]int, len(c.Candidates))
	for i := range c.Candidates {
		pod := &c.Candidates[i]
		places[pod.Row.UID] = i
		row := decision.Candidate{
			UID: pod.Row.UID, Pod: pod.String(), Priority: pod.Row.Priority, QoS: pod.Row.QoSClass, Owner: pod.Row.OwnerKind,
			MemoryRequest: pod.Row.MemoryRequestBytes, StorageRequest: pod.Row.EphemeralStorageRequestBytes,
		}
		if !pod.Row.StartTime.IsZero() {
			row.Started = pod.Row.StartTime.Unix()
		}
		m := c.Measured[pod.Row.UID]
		switch m.State {
		case eviction.Measured:
			row.Usage = rank.Used(&eviction.Candidate{Pod: pod.Row, Measurement: m}, signal)
		case eviction.NoStats:
			row.State = decision.StateNoStats
		case eviction.MeasurementUnknown:
			row.State = decision.StateUnknown
		}
		r.Candidates = append(r.Candidates, row)
	}
	for _, ranked := range c.Order {
		if at, ok := places[ranked.UID]; ok {
			r.Order = append(r.Order, at)
			if c.RankerCustom { // the kubelet's reasons follow from the figures
				r.Candidates[at].Reason = ranked.Reason
			}
		}
	}
	for _, s := range c.Spared() {
		r.Protected = append(r.Protected, decision.Protected{UID: s.Pod.Row.UID, Pod: s.Pod.String(), Rule: s.Why})
	}
}
