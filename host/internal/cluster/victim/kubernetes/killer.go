// Package kubernetes kills pods beside a kubelet: it writes to the API server that a pod is
// evicted, upon which the kubelet terminates it like any pod. It stops containers through the
// runtime where that is faster, or where the kubelet does not do it.
//
// Its callers connect it to the API server; package victim/cri stops the containers.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/node/criclient"
	victimcri "github.com/evictd/evictd/host/internal/node/victim/cri"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// kubeletTimeout is the time that the kubelet has to begin terminating a pod, and to remove
	// what is left of it, before evictd acts in its place.
	kubeletTimeout = time.Second
	// hookTimeout bounds the wait for the kubelet to report that it terminates a pod with a hook,
	// which must not run twice: a busy kubelet reports within 10 s.
	hookTimeout = 10 * time.Second
	// apiTimeout bounds the wait for the API server before a pod is killed without its answer.
	apiTimeout = 5 * time.Second
	// apiLatencyFactor bounds the time for the kubelet to receive the eviction and to report it, in
	// multiples of the API server's response time.
	apiLatencyFactor = 3
	// Polling for a pod's end begins at firstLook and slows down to maxLook.
	firstLook, maxLook = 20 * time.Millisecond, 500 * time.Millisecond
	// lookMargin bounds the last check of what is left of a pod.
	lookMargin = 500 * time.Millisecond
	// lastGraceSeconds is the time that the kubelet leaves a container between SIGTERM and SIGKILL
	// even if hooks, or containers that end before it, have used up the grace period.
	lastGraceSeconds = 2
)

// API is the part of the API server that a killer uses.
type API interface {
	// PatchPodStatus sends a strategic merge patch of pods/status and returns the resulting pod,
	// also in a dry run. Errors are those of k8s.io/apimachinery/pkg/api/errors. It is called from
	// several goroutines.
	PatchPodStatus(ctx context.Context, namespace, name string, body []byte, dryRun bool) (*v1.Pod, error)
	// DeletePod deletes a pod, unless its uid differs.
	DeletePod(ctx context.Context, namespace, name string, uid types.UID, graceSeconds int64) error
	// CreateEvent creates an event.
	CreateEvent(ctx context.Context, event *v1.Event) error
}

// Options configures a Killer. All fields except those of victimcri.Options are required.
type Options struct {
	// Options for stopping containers.
	victimcri.Options
	API      API
	NodeName string
	// Journal keeps the state that a next evictd needs.
	Journal victim.Journal
	// DryRun reports whether writing to the API server and killing are disabled now.
	DryRun func() bool
	// MayDelete asks whether the account may delete pods of a namespace.
	MayDelete func(ctx context.Context, namespace string) bool
	// Refused is called with a pod whose eviction the API server refuses permanently, and why.
	Refused func(pod pods.Pod, why error)
	// OwnerEvent sends the event of an evicted pod's controller. It must not block.
	OwnerEvent func(about v1.ObjectReference, annotations map[string]string, message string)
	// Settle waits briefly for the writes that must precede an eviction. It may be nil.
	Settle func(context.Context)
	// Short reports whether the node is short of a resource now, if that is known. It must not block.
	Short func(resource string) (known, is bool)
	// Pods returns the pods of this node as last received from the API server. It is called every
	// few seconds and must not send requests.
	Pods func() []*v1.Pod
}

// A Killer kills pods through the API server and the container runtime. It is safe for concurrent
// use. Run writes the kills to the API server, and must run for kills to begin.
//
// It is also the victim.Journal of its kills, between the victim.Set and the run directory: a kill
// stays there until the API server has it.
type Killer struct {
	records *records
	teller  teller
	log     *slog.Logger
	runtime *victimcri.Killer
	pods    func() []*v1.Pod
	dryRun  func() bool
	judge   judge
}

// New returns a killer. Call Restore next, then Run.
func New(o Options) *Killer {
	r := newRecords(o.Journal, o.Log)
	return &Killer{
		records: r, log: o.Log, teller: teller{r, o.Log, o.API, o.NodeName, o.Pods, o.DryRun, o.MayDelete, o.Settle, o.Refused, o.OwnerEvent},
		runtime: victimcri.New(o.Options), pods: o.Pods, dryRun: o.DryRun,
		judge: judge{o.Short, o.Log, map[types.UID]time.Time{}},
	}
}

// Kill implements victim.Killer. With the shortest grace period it stops the main containers at
// once, in parallel to the write to the API server. With a longer one the kubelet terminates the
// pod once it receives the eviction: hooks, main containers, sidecars. At the end of the grace
// period Kill stops what is left, and it stops the whole pod if the kubelet has not begun to.
//
// It returns when nothing of the pod runs any more. An unreachable API server is no error, Run
// writes to it later; a refusal is. It returns victim.ErrTimeout after victim.Timeout, and Finished
// does the rest.
//
// It ignores mirror pods and pods that ended by themselves. A pod that runs has not ended, whatever
// its status says. For a pod that is being deleted Kill writes nothing to the API server: the
// kubelet is terminating it.
func (k *Killer) Kill(ctx context.Context, v victim.Victim) error {
	graceEnds := time.Now().Add(time.Duration(v.GraceSeconds) * time.Second)
	if p := v.Pod.API; p != nil && (isMirror(p) || hasEnded(p) && !marked(p, v.EvictedAt) && len(v.Pod.ContainerIDs) == 0) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, victim.Timeout(v.GraceSeconds), victim.ErrTimeout)
	defer cancel()
	r, err := k.records.begin(v)
	if err != nil {
		return fmt.Errorf("end pod %s: %w", v.Key(), err)
	}
	defer k.records.done(ctx, r)
	e := termination{killer: k, record: r, victim: v, graceEnds: graceEnds}
	switch {
	case v.GraceSeconds <= policy.HardGraceSeconds:
		err = e.now(ctx)
	case isDeleted(v.Pod.API) || e.handled(ctx):
		err = e.byKubelet(ctx)
	default:
		err = e.replaced(ctx)
	}
	return errors.Join(err, k.records.refusal(r))
}

// LostEvents returns the number of eviction events that never reached the API server.
func (k *Killer) LostEvents() uint64 { return k.records.lost.Load() }

// Wrote reports whether the message of a pod's status, or its beginning, is that of an eviction by
// this killer. After the end of Run it is true, as that is unknown.
func (k *Killer) Wrote(uid, message string) (is bool) {
	err := k.records.do(func(t *table) error {
		r := t.all[uid]
		is = r != nil && strings.HasPrefix(r.kill.Message, message)
		return nil
	})
	return is || err != nil
}

// Finished implements victim.Killer: no sandbox of the pod is ready and no container runs.
func (k *Killer) Finished(ctx context.Context, v victim.Victim) (bool, error) {
	return k.runtime.Finished(ctx, v)
}

// CleanedUp implements victim.Killer: the kubelet has removed the pod's volumes.
func (k *Killer) CleanedUp(ctx context.Context, v victim.Victim) (bool, error) {
	return k.runtime.CleanedUp(ctx, v)
}

// A termination is the kill of one pod.
type termination struct {
	killer    *Killer
	record    *record
	victim    victim.Victim
	graceEnds time.Time
}

// now stops the main containers. The kubelet, if it runs, stops the sidecars and the sandbox.
func (e termination) now(ctx context.Context) error {
	e.killer.records.step(e.record, containersStop) // nothing to do for one that was to be stopped from the start
	ids, err := e.mainContainers(ctx)
	if err != nil {
		pause(ctx, time.Until(e.graceEnds))
	} else {
		err = e.killer.runtime.StopContainers(ctx, e.victim, ids, e.graceEnds)
	}
	if err == nil && e.finishedBy(ctx, e.graceEnds.Add(kubeletTimeout)) {
		return nil
	}
	return e.rest(ctx, 0)
}

// byKubelet waits for a pod that the kubelet is terminating. At the end of the grace period it
// stops what is left, with a SIGTERM for containers that had none.
func (e termination) byKubelet(ctx context.Context) error {
	if e.finishedBy(ctx, e.graceEnds) {
		return nil
	}
	return e.rest(ctx, e.lateGrace())
}

// replaced kills a pod that the kubelet does not terminate, with the rest of its grace period.
func (e termination) replaced(ctx context.Context) error {
	if e.finishedBy(ctx, time.Now()) {
		return nil
	}
	left := int64(math.Ceil(time.Until(e.graceEnds).Seconds()))
	v := e.victim
	v.Pod.SandboxIDs, v.Pod.ContainerIDs = nil, nil // the kubelet may have created others since
	return e.stop(ctx, v, max(left, 0))
}

// rest stops what is left of a pod after its grace period.
func (e termination) rest(ctx context.Context, graceSeconds int64) error {
	v := e.victim
	v.Pod = pods.Pod{} // neither hooks nor order: the kubelet had its time for them
	return e.stop(ctx, v, graceSeconds)
}

func (e termination) stop(ctx context.Context, v victim.Victim, graceSeconds int64) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, victim.ErrTimeout) {
		return fmt.Errorf("end pod %s: %w", v.UID, err)
	}
	e.killer.records.step(e.record, containersStop) // Finished continues it if the time has run out
	v.GraceSeconds = graceSeconds
	return e.killer.runtime.Kill(ctx, v)
}

// lateGrace returns the grace in seconds of containers that may not have received SIGTERM before
// the pod's grace period ended.
func (e termination) lateGrace() int64 {
	if p := e.victim.Pod.API; p != nil && (hasHook(p) || len(sidecars(p)) > 0) {
		return lastGraceSeconds
	}
	return 0
}

func hasHook(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PreStop != nil })
}

// finishedBy waits until nothing of the pod runs any more, or until the given time and the answer of
// a runtime that is not slow.
func (e termination) finishedBy(ctx context.Context, until time.Time) bool {
	for wait := firstLook; ; wait = min(2*wait, maxLook) {
		look, done := context.WithTimeout(ctx, max(time.Until(until), 0)+lookMargin)
		finished, err := e.killer.runtime.Finished(look, e.victim)
		done()
		if err == nil && finished {
			return true
		}
		left := time.Until(until)
		if left <= 0 || !pause(ctx, min(wait, left)) {
			return false
		}
	}
}

func (e termination) mainContainers(ctx context.Context) ([]string, error) {
	aside, known := []string(nil), e.victim.Pod.ContainerIDs
	if p := e.victim.Pod.API; p != nil {
		aside = sidecars(p)
	}
	if len(known) > 0 && len(aside) == 0 {
		return known, nil
	}
	look, done := context.WithTimeout(ctx, lookMargin)
	defer done()
	left, err := e.killer.runtime.Lister.Pod(look, e.victim.UID, time.Now())
	var ids []string
	if err != nil && len(known) > 0 { // those that were listed before
		for _, id := range known {
			if !slices.ContainsFunc(e.victim.Pod.Row.Containers, func(c eviction.Container) bool { return c.ID == id && slices.Contains(aside, c.Name) }) {
				ids = append(ids, id)
			}
		}
		return ids, nil
	}
	if err != nil {
		return nil, err
	}
	for _, c := range left.Containers {
		if !criclient.Exited(c) && !slices.Contains(aside, c.GetMetadata().GetName()) {
			ids = append(ids, c.GetId())
		}
	}
	return ids, nil
}

// sidecars returns the names of the containers that end after the main ones.
func sidecars(p *v1.Pod) (names []string) {
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			names = append(names, c.Name)
		}
	}
	return names
}

func isMirror(p *v1.Pod) bool {
	_, mirror := p.Annotations[v1.MirrorPodAnnotationKey]
	return mirror
}

func hasEnded(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodFailed || p.Status.Phase == v1.PodSucceeded
}

func isDeleted(p *v1.Pod) bool { return p != nil && p.DeletionTimestamp != nil }

// pause waits for d, and reports false if ctx ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
