// Package kubernetes ends pods beside a kubelet: it tells the API server that a pod is
// evicted, upon which the kubelet ends it as it ends all pods, and stops containers through
// the runtime where that is to be quicker, or where the kubelet does not do it.
//
// How the API server is reached is not its business, and what it stops with is package
// victim/cri.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
	victimcri "github.com/evictd/evictd/host/internal/victim/cri"
)

const (
	// kubeletTimeout is the time that the kubelet gets before evictd acts in its place: until it has
	// begun to end a pod, and until it has removed what is left of one.
	kubeletTimeout = time.Second
	// hookTimeout bounds the wait for the kubelet to say that it has begun to end a pod with
	// a hook, which must not run twice: one that is busy writes what it did within 10 s.
	hookTimeout = 10 * time.Second
	// apiTimeout is the time that the API server gets to answer before a pod is ended without
	// it.
	apiTimeout = 5 * time.Second
	// apiLatencyFactor is the time for the kubelet to receive the eviction and to report it, in multiples
	// of the time of the API server's answer.
	apiLatencyFactor = 3
	// A pod's end is looked for often at first.
	firstLook, maxLook = 20 * time.Millisecond, 500 * time.Millisecond
	// lastGraceSeconds is the time that the kubelet leaves a container between SIGTERM and
	// SIGKILL also when hooks, or containers that end before it, have used up the grace period.
	lastGraceSeconds = 2
)

// API is the part of the API server that a killer uses.
type API interface {
	// PatchPodStatus sends a strategic merge patch for the status of a pod and returns the
	// pod as it is then, or would be. Errors of the API server are its own
	// (k8s.io/apimachinery/pkg/api/errors). It is called from several goroutines.
	PatchPodStatus(ctx context.Context, namespace, name string, body []byte, dryRun bool) (*v1.Pod, error)
	// DeletePod deletes a pod, unless another one of that name has taken its place.
	DeletePod(ctx context.Context, namespace, name string, uid types.UID, graceSeconds int64) error
	// CreateEvent creates an event.
	CreateEvent(ctx context.Context, event *v1.Event) error
}

// Options configures a Killer. All fields of its own are required.
type Options struct {
	// Options for stopping containers.
	victimcri.Options
	API      API
	NodeName string
	// Journal keeps what a next evictd must know.
	Journal victim.Journal
	// DryRun reports whether nothing is to be written, and nothing to be ended, for now.
	DryRun func() bool
	// Refused takes a pod whose eviction the API server refuses for good, and why.
	Refused func(pod pods.Pod, why error)
	// Settle waits, not for long, until the API server has what an eviction must not come
	// before. It may be nil.
	Settle func(context.Context)
	// Short says of a resource whether it is known if the node is short of it now, and
	// whether it is. It must not wait.
	Short func(resource string) (known, is bool)
	// Pods returns the pods of this node as the API server last sent them. It is called
	// every few seconds and must not ask anybody.
	Pods func() []*v1.Pod
}

// A Killer kills pods through the API server and the container runtime. It is safe for
// concurrent use. While Run runs the kills are written to the API server.
//
// It is the victim.Journal of its kills as well, between the victim.Set and the run
// directory: a kill stays there until the API server has it.
type Killer struct {
	records *records
	teller  teller
	log     *slog.Logger
	client  runtimeapi.RuntimeServiceClient
	runtime *victimcri.Killer
	pods    func() []*v1.Pod
	dryRun  func() bool
	judge   judge
}

// New returns a killer. Restore comes next, and Run.
func New(o Options) *Killer {
	r := newRecords(o.Journal, o.Log)
	return &Killer{
		records: r, log: o.Log, teller: teller{r, o.Log, o.API, o.NodeName, o.Pods, o.DryRun, o.Settle, o.Refused},
		client: o.Runtime, runtime: victimcri.New(o.Options), pods: o.Pods, dryRun: o.DryRun,
		judge: judge{o.Short, o.Log, map[types.UID]string{}},
	}
}

// Kill implements victim.Killer. With the shortest grace period the main containers are
// stopped at once, beside the message to the API server. With a longer one the kubelet
// ends the pod, as it hears of it from there: hooks, main containers, sidecars. What then
// is left at the end of the grace period is stopped, and all of a pod that the kubelet has
// not begun to end.
//
// It returns when nothing of the pod runs any more. An API server that is away is no error,
// Run tells it later; one that refuses the eviction is. It gives up with victim.ErrTimeout
// after victim.Timeout, and Finished does the rest.
//
// Mirror pods and pods that have ended by themselves are left alone. Of a pod that is being deleted the
// API server gets no record: the kubelet is ending it.
func (k *Killer) Kill(ctx context.Context, v victim.Victim) error {
	graceEnds := time.Now().Add(time.Duration(v.GraceSeconds) * time.Second)
	if p := v.Pod.API; p != nil && (isMirror(p) || hasEnded(p) && !isEvicted(p)) {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, victim.Timeout(v.GraceSeconds), victim.ErrTimeout)
	defer cancel()
	r := k.records.begin(v)
	defer k.records.done(ctx, r)
	e := termination{killer: k, record: r, victim: v, graceEnds: graceEnds}
	var err error
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

// Restore takes over the kills of a former evictd, and returns those that are to be judged
// and finished. Call it before anything else.
func (k *Killer) Restore(kills []rundir.Kill) (unfinished []rundir.Kill) {
	return k.records.restore(kills)
}

// SaveKill implements victim.Journal.
func (k *Killer) SaveKill(kill rundir.Kill) error { return k.records.save(kill) }

// RemoveKill implements victim.Journal.
func (k *Killer) RemoveKill(uid string) error { return k.records.ended(uid) }

// LostEvents counts the events of evictions that never reached the API server.
func (k *Killer) LostEvents() uint64 { return k.records.lost.Load() }

// Finished implements victim.Killer: nothing of the pod runs any more, no ready sandbox, no
// running container.
func (k *Killer) Finished(ctx context.Context, v victim.Victim) (bool, error) {
	return k.runtime.Finished(ctx, v)
}

// CleanedUp implements victim.Killer: the kubelet has removed the pod's volumes.
func (k *Killer) CleanedUp(ctx context.Context, v victim.Victim) (bool, error) {
	return k.runtime.CleanedUp(ctx, v)
}

// A termination is the end of one pod.
type termination struct {
	killer    *Killer
	record    *record
	victim    victim.Victim
	graceEnds time.Time
}

// now stops the main containers. The sidecars and the sandbox are the kubelet's, if it is
// there.
func (e termination) now(ctx context.Context) error {
	e.killer.records.step(e.record, containersStop) // nothing to do for one that was to be stopped from the start
	ids, err := e.mainContainers(ctx)
	if err == nil {
		err = e.killer.runtime.StopContainers(ctx, e.victim, ids, e.graceEnds)
	}
	if err == nil && e.finishedBy(ctx, e.graceEnds.Add(kubeletTimeout)) {
		return nil
	}
	return e.rest(ctx, 0)
}

// byKubelet waits for a pod that the kubelet is ending. What has had no SIGTERM before the
// grace is over has it now.
func (e termination) byKubelet(ctx context.Context) error {
	if e.finishedBy(ctx, e.graceEnds) {
		return nil
	}
	return e.rest(ctx, e.lateGrace())
}

// replaced ends a pod that the kubelet does not end, with what is left of its grace.
func (e termination) replaced(ctx context.Context) error {
	if e.finishedBy(ctx, time.Now()) {
		return nil
	}
	left := int64(math.Ceil(time.Until(e.graceEnds).Seconds()))
	v := e.victim
	v.Pod.SandboxIDs, v.Pod.ContainerIDs = nil, nil // the kubelet may have made others since
	return e.stop(ctx, v, max(left, 0))
}

// rest stops what is left of a pod whose grace is over.
func (e termination) rest(ctx context.Context, graceSeconds int64) error {
	v := e.victim
	v.Pod = pods.Pod{} // neither hooks nor order: the kubelet had its time for them
	return e.stop(ctx, v, graceSeconds)
}

func (e termination) stop(ctx context.Context, v victim.Victim, graceSeconds int64) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, victim.ErrTimeout) {
		return fmt.Errorf("end pod %s: %w", v.UID, err)
	}
	e.killer.records.step(e.record, containersStop) // Finished goes on with it if there is no time any more
	v.GraceSeconds = graceSeconds
	return e.killer.runtime.Kill(ctx, v)
}

// lateGrace returns the grace in seconds of containers that may not have had their SIGTERM when
// the pod's grace is over.
func (e termination) lateGrace() int64 {
	if p := e.victim.Pod.API; p != nil && (hasHook(p) || len(sidecars(p)) > 0) {
		return lastGraceSeconds
	}
	return 0
}

func hasHook(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Containers, func(c v1.Container) bool { return c.Lifecycle != nil && c.Lifecycle.PreStop != nil })
}

// finishedBy waits until nothing of the pod runs any more, or it is that late.
func (e termination) finishedBy(ctx context.Context, until time.Time) bool {
	for wait := firstLook; ; wait = min(2*wait, maxLook) {
		look, done := context.WithTimeout(ctx, victim.LookTimeout)
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

// mainContainers returns the containers that the pod is there for: all but its sidecars.
func (e termination) mainContainers(ctx context.Context) ([]string, error) {
	aside, known := []string(nil), e.victim.Pod.ContainerIDs
	if p := e.victim.Pod.API; p != nil {
		aside = sidecars(p)
	}
	if len(known) > 0 && len(aside) == 0 {
		return known, nil
	}
	left, err := e.killer.runtime.Left(ctx, e.victim.UID)
	if err != nil {
		return nil, err
	}
	var ids []string
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

// isEvicted reports whether evictd has evicted p, or a pod that p is a copy of.
func isEvicted(p *v1.Pod) bool { return evictedAt(p) != "" }

func isDeleted(p *v1.Pod) bool { return p != nil && p.DeletionTimestamp != nil }

// pause reports whether ctx has not ended meanwhile.
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
