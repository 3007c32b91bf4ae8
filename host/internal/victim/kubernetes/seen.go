package kubernetes

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// handled waits until it is known whether the kubelet ends the pod. It does not if the API
// server cannot tell it, if it is not there, or if it is busy with an image that is pulled
// or with a hook that runs after the start of a container. As long as that is not known, it
// is taken to: a hook before the end of a container must not be cut short.
func (e termination) handled(ctx context.Context) bool {
	r := e.record
	if !e.answeredBy(ctx) {
		return false
	}
	if r.outcome != nil { // the pod is deleted, or has ended, or the eviction is refused
		return r.refused == nil
	}
	// A slow API server tells the kubelet as slowly, and us of the kubelet.
	least := max(kubeletTimeout, apiLatencyFactor*r.took)
	until, delivered := time.Now().Add(least), false
	for {
		p := e.killer.teller.known(r)
		if p != nil && isTerminating(p) {
			return true
		}
		if !delivered && p != nil && evictedAt(p) == stamp(e.killer.records.of(r)) { // what the kubelet writes next comes after it
			delivered, until = true, untilBegun(p, until, least)
		}
		if delivered && !time.Now().Before(until) {
			return false
		}
		if e.finishedBy(ctx, e.within(maxLook)) || ctx.Err() != nil || !time.Now().Before(e.graceEnds) {
			return true
		}
	}
}

// untilBegun returns when the kubelet should have said that it ends p, of whose eviction it
// knows. A kubelet that pulls an image, or runs a hook after a container's start, does not
// before.
func untilBegun(p *v1.Pod, until time.Time, least time.Duration) time.Time {
	if soon := time.Now().Add(least); until.Before(soon) {
		until = soon
	}
	if late := time.Now().Add(hookTimeout); hasHook(p) && !isStarting(p) && until.Before(late) {
		return late
	}
	return until
}

// answeredBy waits for the API server to say what becomes of the eviction, for longer if
// it has said nothing at all. It is false if the pod has to be ended without an answer.
func (e termination) answeredBy(ctx context.Context) bool {
	late := time.NewTimer(time.Until(e.within(apiTimeout)))
	defer late.Stop()
	for failed := e.record.failed; ; {
		select {
		case <-e.record.decided:
			return true
		case <-failed: // once more
			failed = nil
			late.Reset(time.Until(e.within(kubeletTimeout)))
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// within returns the time d from now, or the end of the grace if that is earlier.
func (e termination) within(d time.Duration) time.Time {
	if at := time.Now().Add(d); at.Before(e.graceEnds) {
		return at
	}
	return e.graceEnds
}
