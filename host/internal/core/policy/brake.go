package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// monitoringPeriod is the time between two passes of a kubelet (evictionMonitoringPeriod).
	monitoringPeriod = 10 * time.Second
	// The kubelet's polling interval for a victim's clean-up, and its limit (podCleanupPollFreq, podCleanupTimeout).
	cleanupPoll, cleanupTimeout = time.Second, 30 * time.Second
	// A victim counts for the pace of the next ones as long as it was evicted recently.
	recently = 10 * time.Minute
)

// Reasons to evict the next victims of a signal at the kubelet's pace.
const (
	NoRelief    = "the last victim has not brought what it used"
	NoHolder    = "no pod holds it: all that may be evicted use less together than is missing"
	Replacement = "the next pod replaces one that was evicted"
)

// A brake limits the evictions for a signal to the kubelet's pace while one of its reasons applies.
type brake struct {
	noRelief, noHolder, replacement bool
	// returned: the pod chosen last was made in the place of a victim, and the last victim had the
	// same owner. chosen is when.
	returned bool
	chosen   Moment
	// satisfied is the time since which no threshold of the signal is met, zero while one is.
	satisfied Moment
}

func (b brake) reason() string {
	switch {
	case b.noHolder:
		return NoHolder
	case b.noRelief:
		return NoRelief
	case b.replacement:
		return Replacement
	default:
		return ""
	}
}

// lastVictim is the latest victim that relieves a signal. ended is zero while it is terminating.
type lastVictim struct {
	uid, pod, owner string

	decided, ended Moment
}

// A family records the recent victims with one owner. siblings are the UIDs of its pods when the first of them went: another
// pod was made in the place of a victim. No clock tells, since that of pods' times is the API server's.
type family struct {
	siblings []string
	last     Moment
}

// A Candidate is the first pod of a ranking, before it is decided on.
type Candidate struct {
	UID string
	// Owner identifies its controller, or if not Controlled the pods that were made like it. It may be
	// empty.
	Owner      string
	Controlled bool
	// All is the total use of all candidates, missing if any of them is unknown.
	All eviction.Figure
}

// Chosen records the first pod of a ranking for t. It must wait for the kubelet's pace if it has the
// controller of a recent victim or was made in the place of one, or if all candidates together
// cannot end the shortage: Judge then returns that wait.
func (l Ledger) Chosen(t Threshold, o eviction.Observation, c Candidate, now Moment) Ledger {
	next := l.copied()
	b := next.brakes[t.Signal]
	f, was := l.owners[c.Owner]
	replaces := was && !slices.Contains(f.siblings, c.UID)
	b.returned, b.chosen = replaces && l.last[t.Signal].owner == c.Owner, now
	b.replacement = was && now.since(f.last) < recently && (replaces || c.Controlled)
	expected, known := l.expected(t.Signal)
	b.noHolder = c.All.OK && known && c.All.Value+expected < Shortfall(t, o)
	next.brakes[t.Signal] = b
	return next.tidied()
}

// lastOf records p as the last victim of the signals that it relieves.
func (l *Ledger) lastOf(p Promise, now Moment) {
	for s := range p.Frees {
		l.last[s] = lastVictim{uid: p.UID, pod: p.Pod, owner: p.Owner, decided: now}
	}
	maps.DeleteFunc(l.owners, func(_ string, f family) bool { return now.since(f.last) >= recently })
	if p.Owner == "" {
		return
	}
	f, was := l.owners[p.Owner]
	if !was {
		f.siblings = p.Siblings
	}
	f.last = now
	l.owners[p.Owner] = f
}

// end records when the last victim of a signal was cleaned up or given up.
func (l *Ledger) end(uid string, at Moment) {
	for s, v := range l.last {
		if v.uid == uid && v.ended.isZero() {
			v.ended = at
			l.last[s] = v
		}
	}
}

// relieved records whether a victim has freed what it used.
func (l *Ledger) relieved(s eviction.Signal, brought bool) {
	b := l.brakes[s]
	b.noRelief = !brought
	l.brakes[s] = b
}

// release takes the brake off signals that have met no threshold for a kubelet's period.
func (l *Ledger) release(s eviction.Signal, short bool, now Moment) {
	b, braked := l.brakes[s]
	switch {
	case !braked:
		return
	case short:
		b.satisfied = Moment{}
	case b.satisfied.isZero():
		b.satisfied = now
	case now.since(b.satisfied) >= monitoringPeriod:
		b = brake{}
	}
	l.brakes[s] = b
}

// paced returns the wait for the pass in which a kubelet would take its next victim of t; ok if
// there is one. A kubelet looks when the last victim is cleaned up and every 10 s from then on; that
// victim's replacement is not full yet at the first of these looks (measured in a cluster).
func (l Ledger) paced(t Threshold, now Moment) (w Wait, ok bool) {
	b, last := l.brakes[t.Signal], l.last[t.Signal]
	if b.reason() == "" || last.ended.isZero() || now.since(last.decided) >= recently {
		return Wait{}, false
	}
	since := now.since(last.decided)
	pass := last.ended.since(last.decided) + cleanupPoll
	second := pass + monitoringPeriod
	met := since // when t was met for its whole grace period
	if at := slices.IndexFunc(l.met, func(o Observed) bool { return o.Key() == t.Key() }); at >= 0 {
		met -= max(0, now.Time.Sub(l.met[at].FirstObservedAt.Add(t.GracePeriod)))
	}
	switch {
	case met > pass:
		if b.returned {
			// A kubelet's replacement starts when the victim has ended, and meets t later by as much.
			met += last.ended.since(last.decided)
		}
		pass += (met - pass + monitoringPeriod - 1) / monitoringPeriod * monitoringPeriod
	case b.noRelief || b.noHolder:
		pass = max(pass, monitoringPeriod)
	}
	look := pass // another pod may be the first of the ranking by then
	if b.replacement && b.returned && (since < pass || b.chosen.since(last.decided) >= pass) {
		pass = max(pass, second)
	}
	if since >= pass {
		return Wait{}, false
	}
	w = Wait{Signal: t.Signal, For: WaitForPace, Reason: b.reason(), Victims: []string{last.pod}, Until: now.Time.Add(pass - since)}
	if w.LookAt = w.Until; since < look {
		w.LookAt = now.Time.Add(look - since)
	}
	return w, true
}
