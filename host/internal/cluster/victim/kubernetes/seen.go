package kubernetes

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// handled waits until it is known whether the kubelet terminates the pod. It does not if the API
// server cannot notify it, if it is down, or if it is busy pulling an image or running a hook after
// the start of a container. While that is unknown it is assumed to: a hook before the end of a
// container must not be cut short.
func (e termination) handled(ctx context.Context) bool {
	r := e.record
	if !e.answeredBy(ctx) {
		return false
	}
	if r.outcome != nil { // the pod is deleted, or has ended, or the eviction is refused
		return r.refused == nil
	}
	// A slow API server is as slow to notify the kubelet, and to report its answer.
	least := max(kubeletTimeout, apiLatencyFactor*r.took)
	until, delivered := time.Now().Add(least), false
	for {
		switch p := e.killer.teller.known(r); {
		case isDeleted(p):
			return true
		case p == nil || !marked(p, r.kill.EvictedAt): // what the kubelet wrote came before it
		case isTerminating(p):
			return true
		case !delivered:
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

// untilBegun returns when a kubelet that knows of p's eviction should have reported that it
// terminates p. While it pulls an image, or runs a hook after a container's start, it does not.
func untilBegun(p *v1.Pod, until time.Time, least time.Duration) time.Time {
	if soon := time.Now().Add(least); until.Before(soon) {
		until = soon
	}
	if late := time.Now().Add(hookTimeout); hasHook(p) && !isStarting(p) && until.Before(late) {
		return late
	}
	return until
}

// answeredBy waits for the API server's verdict on the eviction, for longer if it has not answered
// at all. It returns false if the pod must be killed without an answer.
func (e termination) answeredBy(ctx context.Context) bool {
	late := time.NewTimer(time.Until(e.within(apiTimeout)))
	defer late.Stop()
	for failed := e.record.failed; ; {
		select {
		case <-e.record.decided:
			return true
		case <-failed: // wait once more
			failed = nil
			late.Reset(time.Until(e.within(kubeletTimeout)))
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// within returns the time d from now, or the end of the grace period if that is earlier.
func (e termination) within(d time.Duration) time.Time {
	if at := time.Now().Add(d); at.Before(e.graceEnds) {
		return at
	}
	return e.graceEnds
}
