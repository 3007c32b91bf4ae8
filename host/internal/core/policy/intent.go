package policy

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// intentAge bounds the time after its grace period for which a kill of a former host is finished
// without a new reason.
const intentAge = time.Minute

// An Intent is a kill that a former host decided on and may not have finished.
type Intent struct {
	// Overdue is the time since the end of its grace period, negative before it.
	Overdue time.Duration
	DryRun  bool
	// There: a pod of that uid is active. Pod is its spec, nil if unknown.
	There bool
	Pod   *v1.Pod
	// Looked: it is known whether the threshold's signal is short of it now, and
	// Short is the answer.
	Looked, Short bool
	// Waited is the time for which this host has tried to judge it.
	Waited time.Duration
}

// HoldsUp reports whether no other pod may be evicted while i is postponed, because its own pod may
// be evicted soon. An old one delays only evictions for the same signal, which is unknown then.
func (i Intent) HoldsUp() bool { return max(i.Overdue, i.Waited) < intentAge }

// The verdicts on an Intent.
const (
	FinishKill   = "finish"
	DropKill     = "drop"
	PostponeKill = "postpone"
	AwaitEnd     = "await" // nothing to kill, its end is waited for
)

// JudgeIntent decides about a kill of a former host, and why it is dropped: the situation may have
// changed, and an old decision is no reason to kill a pod that would not be chosen now.
func JudgeIntent(i Intent) (verdict, reason string) {
	switch {
	case i.DryRun:
		return DropKill, "this is a dry run"
	case !i.There:
		return AwaitEnd, ""
	case i.Pod == nil && i.Overdue < intentAge: // its manifest may be read again in a moment
		return PostponeKill, ""
	case i.Pod == nil:
		return DropKill, "nothing says what the pod is"
	case !Evictable(i.Pod):
		return DropKill, "the pod may not be evicted any more"
	case i.Overdue < intentAge || i.Short:
		return FinishKill, ""
	case !i.Looked:
		return PostponeKill, ""
	default:
		return DropKill, "it was decided on long ago and the node is not short any more"
	}
}

// Stands reports whether t was met for its whole grace period in the last observation of its
// signal: a frozen state is no reason to evict.
func (s State) Stands(t Threshold, last eviction.Observation) bool {
	return s.met[t.Key()] && last.State == eviction.Observed
}

// Stood returns the state of thresholds: those that are met, and those of them whose grace
// period is over.
func (s State) Stood(thresholds []Threshold) (a Assessment) {
	for _, t := range thresholds {
		if first, observed := s.firstObserved[t.Key()]; observed {
			a.Observed = append(a.Observed, Observed{Threshold: t, FirstObservedAt: first})
		}
		if s.met[t.Key()] {
			a.Met = append(a.Met, t)
		}
	}
	return a
}

// Starved returns the resource that the node was low on, from a text of Message.
func Starved(message string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(message, lowOn), ". ")
	return name
}
