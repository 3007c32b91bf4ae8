package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// An API server that is away is asked again soon at first: the kubelet restarts what
	// was stopped until it has heard of the eviction.
	firstRetry = 50 * time.Millisecond
	maxRetry   = 5 * time.Second
	// callTimeout bounds one call of the API server.
	callTimeout = 10 * time.Second
	// refusedFor is how long an API server that refuses an eviction is asked again: one
	// that has just started knows neither roles nor policies for some seconds.
	refusedFor = time.Minute
	// lookInterval is how often pods that were killed are looked at, quietInterval all
	// others that were evicted.
	lookInterval, quietInterval = time.Second, 10 * time.Second
)

// Run tells the API server of evictions, until it has them or ctx ends, and ends pods again
// that the kubelet has started anew: it does so as long as it has not heard of the
// eviction, and may write over one that it has not heard of. What is left then is in the
// journal.
func (k *Killer) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { k.watch(ctx) })
	for {
		if !k.dryRun() {
			for _, r := range k.untold() {
				working.Go(func() { k.tell(ctx, r) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
		}
	}
}

// tell tells the API server of r until it has answered.
func (k *Killer) tell(ctx context.Context, r *record) {
	began := time.Now()
	_, _ = backoff.Retry(ctx, func() (struct{}, error) { // it is told how it went
		if k.dryRun() {
			return struct{}{}, errDryRun
		}
		tried := time.Now()
		body, err := patchOf(k.of(r))
		if err == nil {
			_, err = k.ask(ctx, r, body, false)
		}
		if ctx.Err() != nil {
			return struct{}{}, err
		}
		says := meaning(err)
		if says == over && k.isTold(r) { // the answer was lost, or a former evictd had it
			says = accepted
		}
		if !k.answered(r, says, err, time.Since(tried), time.Since(began) >= refusedFor) {
			return struct{}{}, err
		}
		return struct{}{}, nil
	}, pace()...)
}

// isTold reports whether the API server has told us of r.
func (k *Killer) isTold(r *record) bool {
	kill := k.of(r)
	return slices.ContainsFunc(k.pods(), func(p *v1.Pod) bool {
		return string(p.UID) == kill.UID && p.Annotations[victim.AnnotationEvicted] == stamp(kill)
	})
}

// ask sends a patch for the pod of r.
func (k *Killer) ask(ctx context.Context, r *record, body []byte, dryRun bool) (*v1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kill := k.of(r)
	if k.before != nil {
		k.before(ctx)
	}
	pod, err := k.api.PatchPodStatus(ctx, kill.Namespace, kill.Name, body, dryRun)
	if err != nil {
		return nil, fmt.Errorf("patch status of pod %s/%s: %w", kill.Namespace, kill.Name, err)
	}
	return pod, nil
}

func pace() []backoff.RetryOption {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstRetry, maxRetry
	return []backoff.RetryOption{backoff.WithBackOff(b), backoff.WithMaxElapsedTime(0)}
}

// watch looks for pods that run although they were evicted, until ctx ends.
func (k *Killer) watch(ctx context.Context) {
	var ending sync.WaitGroup
	defer ending.Wait()
	var quiet time.Time // when all are looked at
	for pause(ctx, lookInterval) {
		if k.dryRun() {
			continue
		}
		all := !time.Now().Before(quiet)
		if all {
			quiet = time.Now().Add(quietInterval)
			k.poke()
		}
		for _, p := range k.revenants(ctx, all) {
			ending.Go(func() { k.again(ctx, p) })
		}
	}
}

// A revenant is a pod that was evicted, and that runs all the same or that the kubelet is to
// start anew.
type revenant struct {
	kill rundir.Kill
	runs bool
	// api is the pod if its status says nothing of the eviction any more.
	api *v1.Pod
}

// revenants returns the pods that were evicted, that are back, and that nobody is at: of
// those that were killed lately, and of all that the API server knows if all is set.
func (k *Killer) revenants(ctx context.Context, all bool) (out []revenant) {
	found, busy, doubtful := k.look()
	if len(found)+len(doubtful) == 0 && !all {
		return nil
	}
	k.addForgotten(found, busy)
	if len(found)+len(doubtful) == 0 {
		return nil
	}
	look, done := context.WithTimeout(ctx, victim.LookTimeout)
	defer done()
	listed, err := criclient.List(look, k.client)
	if err != nil {
		return nil // it is looked at again
	}
	live, runs := map[string]bool{}, map[string]bool{}
	for _, p := range listed {
		left := p.Left()
		runs[p.UID] = p.Running()
		if ids, ok := doubtful[p.UID]; ok && slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(left, id) }) {
			live[p.UID] = true
		}
		r, ok := found[p.UID]
		if r.runs = runs[p.UID]; ok && (r.runs || r.api != nil && len(p.Ready()) > 0) { // a container that crashes is not restarted at once
			out = append(out, r)
		}
	}
	for uid, ids := range doubtful {
		k.settle(uid, len(ids) > 0 && !live[uid], runs[uid])
	}
	return out
}

// addForgotten adds to found, which has those that were killed lately, the pods of which the
// API server has forgotten the eviction.
func (k *Killer) addForgotten(found map[string]revenant, busy map[string]bool) {
	for _, p := range k.pods() {
		uid := string(p.UID)
		if busy[uid] || !contradicted(p) {
			continue
		}
		of, known := found[uid]
		if text := message(p); !known {
			if text == "" || !k.judge.holds(p, text) {
				continue
			}
			of.kill = rundir.Kill{UID: uid, Namespace: p.Namespace, Name: p.Name, Message: text, Ended: true}
		} else if p.Annotations[victim.AnnotationEvicted] != stamp(of.kill) { // it has yet to hear of the last one, or we have of its answer
			continue
		}
		if of.api = p; of.kill.Message != "" { // else for a limit of its own, which is checked again, or a copy of an evicted pod
			found[uid] = of
		}
	}
}

// again ends a pod that is back. If the API server has forgotten the eviction it is told
// of another one: of the same it would be told for nothing.
func (k *Killer) again(ctx context.Context, p revenant) {
	k.log.Warn("evicted pod is back, it is ended again", "running", p.runs, "pod", p.kill.Namespace+"/"+p.kill.Name, "uid", p.kill.UID, "evictedAt", p.kill.EvictedAt)
	v := victim.Victim{
		Time: p.kill.EvictedAt, UID: p.kill.UID, Name: p.kill.Namespace + "/" + p.kill.Name, Signal: p.kill.Signal, Message: p.kill.Message,
		Pod:          pods.Pod{API: p.api, Row: eviction.Pod{UID: p.kill.UID, Namespace: p.kill.Namespace, Name: p.kill.Name}},
		GraceSeconds: policy.HardGraceSeconds, Pressure: !p.kill.Limit, Hard: true,
	}
	if p.api != nil {
		v.Time = time.Now()
		if err := k.SaveKill(v.Journaled()); err != nil {
			k.log.Error("kill is not in the journal, a restart would forget it", "pod", v.Name, "uid", v.UID, "error", err)
		}
	}
	if !p.runs { // to stop its sandbox would only have the kubelet write of another one
		k.done(ctx, k.begin(v))
	} else if err := k.Kill(ctx, v); err != nil && ctx.Err() == nil {
		k.log.Error("evicted pod that is back was not ended", "pod", v.Name, "uid", v.UID, "error", err)
	}
	if p.kill.Ended && p.api != nil && ctx.Err() == nil {
		if err := k.RemoveKill(v.UID); err != nil {
			k.log.Error("kill stays in the journal", "uid", v.UID, "error", err)
		}
	}
}
