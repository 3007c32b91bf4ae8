package kubernetes

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// seenTo waits until it is known whether the kubelet ends the pod. It does not if the API
// server cannot tell it, if it is not there, or if it is busy with an image that is pulled
// or with a hook that runs after the start of a container. As long as nobody can tell, it
// is taken to: a hook before the end of a container must not be cut short.
func (e termination) seenTo(ctx context.Context, r *record) bool {
	if !e.answeredBy(ctx, r) {
		return false
	}
	if r.outcome != nil { // the pod is deleted, or has ended, or the eviction is refused
		return r.refused == nil
	}
	// A slow API server tells the kubelet as slowly, and us of the kubelet.
	if e.finishedBy(ctx, e.within(max(patience, slowly*r.took))) {
		return true
	}
	ctx, answered := context.WithCancel(ctx)
	defer answered()
	began := make(chan bool, 1)
	go func() {
		defer answered()
		began <- e.begun(ctx, r)
	}()
	finished := e.finishedBy(ctx, e.graceEnds)
	answered()
	return <-began || finished
}

// answeredBy waits for the API server to say what becomes of the eviction, for longer if
// it has said nothing at all. It is false if the pod has to be ended without an answer.
func (e termination) answeredBy(ctx context.Context, r *record) bool {
	late := time.NewTimer(time.Until(e.within(longPatience)))
	defer late.Stop()
	for failed := r.failed; ; {
		select {
		case <-r.decided:
			return true
		case <-failed: // once more
			failed = nil
			late.Reset(time.Until(e.within(patience)))
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// within is so long from now, or the end of the grace.
func (e termination) within(d time.Duration) time.Time {
	if at := time.Now().Add(d); at.Before(e.graceEnds) {
		return at
	}
	return e.graceEnds
}

// begun asks the API server for the pod, as a patch that changes nothing, until it answers
// or the grace is over, and reports whether the kubelet has begun to end it.
func (e termination) begun(ctx context.Context, r *record) bool {
	ctx, cancel := context.WithDeadline(ctx, e.graceEnds)
	defer cancel()
	body, err := patchOf(e.of(r))
	if err != nil {
		return true
	}
	has, err := backoff.Retry(ctx, func() (bool, error) {
		pod, err := e.ask(ctx, r, body, true)
		switch meaning(err) {
		case accepted:
			return isTerminating(pod), nil
		case away:
			return false, err
		default: // it was another when it took the eviction: the kubelet is at it
			return true, nil
		}
	}, pace()...)
	return has || err != nil
}
