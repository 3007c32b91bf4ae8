package kubernetes

import (
	"context"
	"log/slog"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/host/internal/core/victim"
)

const (
	// mostKept bounds the evicted pods that are kept on the node, mostRemoved the pods removed at a time.
	mostKept, mostRemoved = 50, 10
	// removeEvery is the interval of removals, leastInterval that for a short time.
	removeEvery, leastInterval = time.Minute, time.Second
	// removeTimeout bounds the deletion of one pod.
	removeTimeout = 10 * time.Second
)

// A Remover deletes evicted pods from the API server some time after their eviction. All fields are required.
type Remover struct {
	API API
	// Pods returns the pods of this node as last received from the API server.
	Pods func() []*v1.Pod
	// Evicted returns the times of the evictions of the pods with these uids that are on record, as far as
	// records can be read.
	Evicted func(uids []string) (map[string]time.Time, error)
	// After returns the time from an eviction to the removal of the pod, 0 for no removal.
	After func() time.Duration
	Log   *slog.Logger
}

// Run removes pods until ctx ends.
func (r *Remover) Run(ctx context.Context) {
	began, done := time.Now(), true
	for {
		pause := removeEvery
		if after := r.After(); done && after > 0 {
			pause = min(removeEvery, max(leastInterval, after/10))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait.Jitter(pause, 1)):
		}
		if after := r.After(); after > 0 {
			done = r.remove(ctx, steady(began.Round(0), time.Now().Round(0), time.Since(began)), after)
		}
	}
}

// steady returns the time now, or that of a clock that has run since began if that is earlier: a clock that
// jumps makes no eviction old.
func steady(began, now time.Time, ran time.Duration) time.Time {
	if since := began.Add(ran); since.Before(now) {
		return since
	}
	return now
}

// remove deletes the pods whose time is over, and those beyond mostKept, the oldest evictions first. It ends
// with the first deletion that fails, and returns false then.
func (r *Remover) remove(ctx context.Context, now time.Time, after time.Duration) bool {
	pods, at := r.evicted()
	for i, p := range pods[:min(len(pods), mostRemoved)] {
		if now.Sub(at[string(p.UID)]) < after && len(pods)-i <= mostKept {
			break
		}
		limited, cancel := context.WithTimeout(ctx, removeTimeout)
		err := r.API.DeletePod(limited, p.Namespace, p.Name, p.UID, 1) // one that has ended has no grace period
		cancel()
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue // it is gone
		}
		if err != nil {
			r.Log.Warn("evicted pod not removed", "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "error", err)
			return false
		}
		r.Log.Info("evicted pod removed", "pod", p.Namespace+"/"+p.Name, "uid", p.UID, "evicted", at[string(p.UID)], "left", len(pods)-i-1)
	}
	return true
}

// evicted returns the node's pods that evictd has evicted, and when: those that say so in the API server, with
// the mark of the eviction that is on record. The oldest are first.
func (r *Remover) evicted() (pods []*v1.Pod, at map[string]time.Time) {
	var uids []string
	for _, p := range r.Pods() {
		_, annotated := p.Annotations[victim.AnnotationEvicted]
		_, labeled := p.Labels[victim.AnnotationEvicted]
		if (annotated || labeled) && p.Status.Phase == v1.PodFailed && p.Status.Reason == victim.ReasonEvicted && p.DeletionTimestamp == nil {
			pods, uids = append(pods, p), append(uids, string(p.UID))
		}
	}
	if len(pods) == 0 {
		return nil, nil
	}
	at, err := r.Evicted(uids)
	if err != nil {
		r.Log.Warn("part of the records is not readable, evicted pods without a record stay", "error", err)
	}
	pods = slices.DeleteFunc(pods, func(p *v1.Pod) bool {
		when, recorded := at[string(p.UID)]
		return !recorded || !marked(p, when)
	})
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return at[string(a.UID)].Compare(at[string(b.UID)]) })
	return pods, at
}
