package loop

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A podRuntime has pods, and ends them.
type podRuntime struct {
	mu       *sync.Mutex
	did      *diary
	memory   *memory
	pods     []pods.Pod
	podsErr  error
	problems []pods.Problem
	listings int
	usage    map[string]int64
	running  map[string]bool
	// volumes are those of pods, by uid, that nobody has removed yet.
	volumes map[string]bool
	// gone is when pods ended, by uid.
	gone map[string]time.Time
	// dies is the time from a kill to the end of the pod, by uid; default at once.
	dies map[string]time.Duration
	// stuck: not even the end of the grace period ends a pod before that.
	stuck   bool
	killErr error
}

func newRuntime(mu *sync.Mutex, did *diary, memory *memory) *podRuntime {
	return &podRuntime{
		mu: mu, did: did, memory: memory, usage: map[string]int64{}, running: map[string]bool{}, gone: map[string]time.Time{}, dies: map[string]time.Duration{},
	}
}

// addPod starts a pod that uses so much memory and requests none.
func (r *podRuntime) addPod(name string, usage int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	api := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)}}
	r.pods = append(r.pods, pods.Pod{API: api, HasManifest: true, Row: eviction.Pod{UID: string(api.UID), Namespace: "default", Name: name}})
	r.usage[string(api.UID)] = usage
	r.running[string(api.UID)] = true
}

// limitVolume gives a pod an emptyDir that may have so many bytes.
func (r *podRuntime) limitVolume(name string, limit int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range r.pods {
		if p.Row.Name == name {
			r.pods[i].API = p.API.DeepCopy() // a pod that has changed is another object
			r.pods[i].API.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
				EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(limit, resource.BinarySI)},
			}}}
		}
	}
}

// unlistedFor has the pods not listed for some time.
func (r *podRuntime) unlistedFor(d time.Duration) {
	r.podsErr = errBroken
	time.AfterFunc(d, func() { r.mu.Lock(); defer r.mu.Unlock(); r.podsErr = nil })
}

func (r *podRuntime) withoutManifestFor(pod int, d time.Duration) {
	r.pods[pod].HasManifest = false
	time.AfterFunc(d, func() { r.mu.Lock(); defer r.mu.Unlock(); r.pods[pod].HasManifest = true })
}

// released sums up the uses of the pods that have been gone for at least lag.
func (r *podRuntime) released(uses map[string]int64, lag time.Duration) (sum int64) {
	for uid, at := range r.gone {
		if time.Since(at) >= lag {
			sum += uses[uid]
		}
	}
	return sum
}

// Active implements pods.Source.
func (r *podRuntime) Active(context.Context) (pods.Snapshot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listings++
	s := pods.Snapshot{Problems: r.problems}
	for _, p := range r.pods {
		if r.running[p.Row.UID] {
			s.Pods = append(s.Pods, p)
		}
	}
	return s, r.podsErr
}

// Kill implements victim.Killer.
func (r *podRuntime) Kill(ctx context.Context, v victim.Victim) error {
	r.mu.Lock()
	uid := v.UID
	r.did.note("kill %s grace %d", v.Pod.Row.Name, v.GraceSeconds)
	wait, err := r.dies[uid], r.killErr
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if !r.stuck {
		wait = min(wait, time.Duration(v.GraceSeconds)*time.Second)
	}
	select {
	case <-time.After(wait):
	case <-time.After(victim.Timeout(v.GraceSeconds)):
		return victim.ErrTimeout
	case <-ctx.Done():
		return ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[uid] || r.usage[uid] == 0 {
		r.running[uid] = false
		r.gone[uid] = time.Now()
		r.memory.available += r.usage[uid]
		r.did.note("gone %s", v.Pod.Row.Name)
	}
	return nil
}

// Finished implements victim.Killer.
func (r *podRuntime) Finished(_ context.Context, v victim.Victim) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.running[v.UID], nil
}

// CleanedUp implements victim.Killer.
func (r *podRuntime) CleanedUp(_ context.Context, v victim.Victim) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.volumes[v.UID], nil
}
