package kubernetes

import (
	"context"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// Killed pods are checked each lookInterval, all other evicted ones each quietInterval.
const lookInterval, quietInterval = time.Second, 10 * time.Second

// Run sends evictions to the API server until it has them or ctx ends, and kills pods again that
// the kubelet has restarted: it does so until it has received the eviction, and it may overwrite
// one that it has not received. The rest stays in the journal.
//
// It alone changes the table and writes the journal. It ends when ctx has ended and all that it
// started has returned.
func (k *Killer) Run(ctx context.Context) {
	s, working := k.records, 0
	work := func(f func()) {
		working++
		go func() {
			f()
			s.changes <- func(*table) { working-- }
		}()
	}
	s.table.start = func(r *record) {
		if ctx.Err() != nil || k.dryRun() {
			return
		}
		if r.phase == pending {
			r.state, _ = next(r.state, patchBegins)
			work(func() { k.teller.tell(ctx, r) })
		}
		if r.due() && !r.announcing {
			r.state, _ = next(r.state, announcementBegins)
			work(func() { k.teller.announce(ctx, r) })
		}
	}
	work(func() { k.watch(ctx) })
	s.table.startAll()
	for working > 0 {
		change := <-s.changes
		change(&s.table)
	}
	close(s.ended)
}

// watch checks for evicted pods that run until ctx ends.
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
			k.records.change((*table).startAll)
		}
		for _, p := range k.restartedPods(ctx, all) {
			ending.Go(func() { k.again(ctx, p) })
		}
	}
}

// A restarted pod was evicted, and runs anyway, or the kubelet is about to restart it.
type restarted struct {
	kill victim.Kill
	// ended: nothing else awaits its end. runs: some container of it runs.
	ended, runs bool
	// api is the pod if its status no longer shows the eviction.
	api *v1.Pod
}

// restartedPods returns the evicted pods that run again without a running call of Kill: of those
// killed lately and, with all, of all that the API server has.
func (k *Killer) restartedPods(ctx context.Context, all bool) (out []restarted) {
	found, busy, unconfirmed := k.records.look()
	if len(found)+len(unconfirmed) == 0 && !all {
		return nil
	}
	k.addForgotten(found, busy)
	if len(found)+len(unconfirmed) == 0 {
		return nil
	}
	look, done := context.WithTimeout(ctx, quietInterval)
	defer done()
	listed, err := k.runtime.Lister.Since(look, time.Now())
	if err != nil {
		return nil // the next check retries
	}
	live, runs := map[string]bool{}, map[string]bool{}
	for _, p := range listed {
		left := p.Left()
		runs[p.UID] = p.Running()
		if ids, ok := unconfirmed[p.UID]; ok && slices.ContainsFunc(ids, func(id string) bool { return slices.Contains(left, id) }) {
			live[p.UID] = true
		}
		r, ok := found[p.UID]
		if r.runs = runs[p.UID]; ok && (r.runs || r.api != nil && len(p.Ready()) > 0) { // a crashing container is not restarted at once
			out = append(out, r)
		}
	}
	for uid, ids := range unconfirmed {
		k.records.judge(uid, len(ids) > 0 && !live[uid], runs[uid])
	}
	return out
}

// addForgotten adds pods whose eviction the API server has lost to found, the pods killed lately.
func (k *Killer) addForgotten(found map[string]restarted, busy map[string]bool) {
	for _, p := range k.pods() {
		uid := string(p.UID)
		if busy[uid] || hasEnded(p) || isMirror(p) || isDeleted(p) {
			continue
		}
		of, known := found[uid]
		if !known {
			former, was := formerly(p)
			if !was || !k.judge.holds(p, former) {
				continue
			}
			of = restarted{kill: former, ended: true}
		} else if !marked(p, of.kill.EvictedAt) { // it has not received the last one yet, or its answer is still on its way
			continue
		}
		of.api = p
		found[uid] = of
	}
}

// again kills a pod that runs again. If the API server has lost the eviction it sends a new one:
// the same one would change nothing.
func (k *Killer) again(ctx context.Context, p restarted) {
	k.log.Warn("evicted pod runs again, ending it", "running", p.runs, "pod", p.kill.Key(), "uid", p.kill.UID, "evictedAt", p.kill.EvictedAt)
	v := victim.Victim{
		Kill: victim.Kill{
			UID: p.kill.UID, Namespace: p.kill.Namespace, Name: p.kill.Name, Signal: p.kill.Signal, Message: p.kill.Message,
			EvictedAt: p.kill.EvictedAt, Limit: p.kill.Limit, GraceSeconds: policy.HardGraceSeconds,
		},
		Pod:  pods.Pod{API: p.api, Row: eviction.Pod{UID: p.kill.UID, Namespace: p.kill.Namespace, Name: p.kill.Name}},
		Hard: true,
	}
	if p.api != nil {
		v.EvictedAt, v.Generation, v.ResourceVersion = time.Now(), p.api.Generation, p.api.ResourceVersion
		v.Announced = true // the original eviction was
		if err := k.SaveKill(v.Kill); err != nil {
			k.log.Error("kill is not in the journal, a restart would forget it", "pod", v.Key(), "uid", v.UID, "error", err)
		}
	}
	if !p.runs { // stopping its sandbox would only make the kubelet report another one
		if r, err := k.records.begin(v); err == nil {
			k.records.done(ctx, r)
		}
	} else if err := k.Kill(ctx, v); err != nil && ctx.Err() == nil {
		k.log.Error("evicted pod that is back was not ended", "pod", v.Key(), "uid", v.UID, "error", err)
	}
	if p.ended && p.api != nil && ctx.Err() == nil {
		if err := k.RemoveKill(v.UID); err != nil {
			k.log.Error("kill stays in the journal", "uid", v.UID, "error", err)
		}
	}
}
