package kubernetes

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// Pods that were killed are looked at each lookInterval, all others that were evicted each
// quietInterval.
const lookInterval, quietInterval = time.Second, 10 * time.Second

// Run tells the API server of evictions, until it has them or ctx ends, and ends pods again
// that the kubelet has restarted: it does so as long as it has not received the
// eviction, and may write over one that it has not received. What is left then is in the
// journal.
func (k *Killer) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { k.watch(ctx) })
	for {
		if !k.dryRun() {
			for _, r := range k.records.unpatched() {
				working.Go(func() { k.teller.tell(ctx, r) })
			}
			for _, r := range k.records.unannounced() {
				working.Go(func() { k.teller.announce(ctx, r) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-k.records.changed:
		}
	}
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
			k.records.wake()
		}
		for _, p := range k.restartedPods(ctx, all) {
			ending.Go(func() { k.again(ctx, p) })
		}
	}
}

// A restarted pod was evicted, and runs all the same, or the kubelet is to start it again.
type restarted struct {
	kill rundir.Kill
	// ended: its end is not waited for otherwise. runs: something of it runs.
	ended, runs bool
	// api is the pod if its status says nothing of the eviction any more.
	api *v1.Pod
}

// restartedPods returns the pods that were evicted, that are back, and that no call of Kill ends: of
// those that were killed lately, and of all that the API server knows if all is set.
func (k *Killer) restartedPods(ctx context.Context, all bool) (out []restarted) {
	found, busy, unconfirmed := k.records.look()
	if len(found)+len(unconfirmed) == 0 && !all {
		return nil
	}
	k.addForgotten(found, busy)
	if len(found)+len(unconfirmed) == 0 {
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
		if ids, ok := unconfirmed[p.UID]; ok && slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(left, id) }) {
			live[p.UID] = true
		}
		r, ok := found[p.UID]
		if r.runs = runs[p.UID]; ok && (r.runs || r.api != nil && len(p.Ready()) > 0) { // a container that crashes is not restarted at once
			out = append(out, r)
		}
	}
	for uid, ids := range unconfirmed {
		k.records.judge(uid, len(ids) > 0 && !live[uid], runs[uid])
	}
	return out
}

// addForgotten adds to found, which has those that were killed lately, the pods of which the
// API server has forgotten the eviction.
func (k *Killer) addForgotten(found map[string]restarted, busy map[string]bool) {
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
			of.kill = rundir.Kill{UID: uid, Namespace: p.Namespace, Name: p.Name, Message: text}
			of.ended = true
		} else if evictedAt(p) != stamp(of.kill) { // it has yet to hear of the last one, or we have of its answer
			continue
		}
		if of.api = p; of.kill.Message != "" { // else for a limit of its own, which is checked again, or a copy of an evicted pod
			found[uid] = of
		}
	}
}

// again ends a pod that is back. If the API server has lost the eviction it is sent
// another one: the same would change nothing.
func (k *Killer) again(ctx context.Context, p restarted) {
	k.log.Warn("evicted pod runs again, ending it", "running", p.runs, "pod", p.kill.Namespace+"/"+p.kill.Name, "uid", p.kill.UID, "evictedAt", p.kill.EvictedAt)
	v := victim.Victim{
		Time: p.kill.EvictedAt, UID: p.kill.UID, Name: p.kill.Namespace + "/" + p.kill.Name, Signal: p.kill.Signal, Message: p.kill.Message,
		Pod:          pods.Pod{API: p.api, Row: eviction.Pod{UID: p.kill.UID, Namespace: p.kill.Namespace, Name: p.kill.Name}},
		GraceSeconds: policy.HardGraceSeconds, Pressure: !p.kill.Limit, Hard: true,
	}
	if p.api != nil {
		v.Time = time.Now()
		again := v.Journaled()
		again.Announced = true // the eviction that it goes on with was
		if err := k.SaveKill(again); err != nil {
			k.log.Error("kill is not in the journal, a restart would forget it", "pod", v.Name, "uid", v.UID, "error", err)
		}
	}
	if !p.runs { // to stop its sandbox would only have the kubelet write of another one
		k.records.done(ctx, k.records.begin(v))
	} else if err := k.Kill(ctx, v); err != nil && ctx.Err() == nil {
		k.log.Error("evicted pod that is back was not ended", "pod", v.Name, "uid", v.UID, "error", err)
	}
	if p.ended && p.api != nil && ctx.Err() == nil {
		if err := k.RemoveKill(v.UID); err != nil {
			k.log.Error("kill stays in the journal", "uid", v.UID, "error", err)
		}
	}
}
