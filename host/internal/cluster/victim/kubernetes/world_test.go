package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	victimcri "github.com/evictd/evictd/host/internal/node/victim/cri"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// A world is a pod "shop/cart" on a node: an API server that can be away, a kubelet that
// does what the real one was seen to do, and a runtime.
type world struct {
	t   *testing.T
	cri *fakecri.Server
	ctx context.Context //nolint:containedctx // of the story
	log syncBuffer

	mu sync.Mutex
	// pod in the API server, nil if it has none.
	pod *v1.Pod
	// fails is the error of the API server's answers; latency their delay.
	fails   error
	latency time.Duration
	// policy: the admission policy is in force.
	policy bool
	// owner, if set, is what the pod's owner writes after each eviction.
	owner func(p *v1.Pod)
	// patches are those that were accepted, asked is how many came, dry runs aside, and how many events.
	patches []patched
	asked   struct{ patches, events int }
	dryRuns int
	// events are those that were created, also about the pod's controller. refusals are how many evictions were refused for good.
	events   []*v1.Event
	refusals int
	// refuses, if set, is the answer to a patch in a form, or to deletion; nil lets it pass.
	refuses func(form string) error
	// stale, if set, is the pod as the API server last sent it.
	stale *v1.Pod
	// failsEvents, if set, is the answer to events.
	failsEvents error
	// dryRun: evictd only pretends.
	dryRun bool
	// kubelet sets the behaviour of the kubelet.
	kubelet kubelet
	spec    podSpec
	began   time.Time
	// journal is the run directory's.
	journal map[string]victim.Kill
	// looked: the node was looked at, and is short of this resource, or of none.
	looked bool
	short  string

	// storyMu may be taken with any other lock held: the runtime tells while it holds its own.
	storyMu sync.Mutex
	// story has each event with its time since the beginning.
	story []string
}

type podSpec struct {
	grace    int64
	preStop  time.Duration
	main     fakecri.Container
	sidecar  bool
	noRuns   bool // nothing runs yet: its image is being pulled
	restarts bool // restartPolicy Always
}

type kubelet struct {
	down bool
	// stuck: it is busy with the pod until it is nil.
	stuck bool
	// deaf: it hears nothing from the API server, but can write there.
	deaf bool
	// mute: it does not write what it knows.
	mute bool
	// writesAfter delays its first write of the pod's end.
	writesAfter time.Duration
	terminating bool
	restarts    int
}

type patched struct {
	at   time.Duration
	body patch
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

const uid = "uid-cart"

var (
	labels       = map[string]string{"io.kubernetes.pod.uid": uid}
	ofThePod     = &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}}
	itsSandboxes = &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}}
)

// in runs a story in a time of its own.
func in(t *testing.T, spec podSpec, story func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &world{t: t, cri: fakecri.New(), ctx: ctx, latency: 20 * time.Millisecond, spec: spec, began: time.Now(), journal: map[string]victim.Kill{}}
		w.pod = manifest(w)
		w.start()
		story(t, w)
		if t.Failed() {
			t.Log("story:\n" + strings.Join(w.reported(), "\n") + "\nlog:\n" + w.log.String())
		}
		cancel()
		synctest.Wait()
	})
}

func manifest(w *world) *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: uid, Generation: 3, CreationTimestamp: metav1.NewTime(w.began.Add(-time.Hour))},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &w.spec.grace, Containers: []v1.Container{{Name: "main"}}},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
			{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: v1.PodScheduled, Status: v1.ConditionTrue},
		}},
	}
	if w.spec.preStop > 0 {
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: int64(w.spec.preStop / time.Second)}}}
	}
	if w.spec.sidecar {
		p.Spec.InitContainers = []v1.Container{{Name: "side", RestartPolicy: &always}}
	}
	return p
}

// start runs the pod's containers.
func (w *world) start() {
	mainContainer := w.spec.main
	mainContainer.Name = "main"
	mainContainer.OnTerm = func() { w.tell("TERM main") }
	mainContainer.OnExit = func() {
		w.tell("main ended")
		go w.exited()
	}
	all := []fakecri.Container{mainContainer}
	if w.spec.sidecar {
		all = append([]fakecri.Container{{Name: "side", OnTerm: func() { w.tell("TERM side") }, OnExit: func() { w.tell("side ended") }}}, all...)
	}
	if w.spec.noRuns {
		all = nil
	}
	w.cri.Add(fakecri.Pod{UID: uid, Namespace: "shop", Name: "cart", Containers: all})
}

// exited plays what follows the end of the main container: a kubelet that knows of no eviction
// restarts it, or takes the pod to have failed.
func (w *world) exited() {
	if !pause(w.ctx, 900*time.Millisecond) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kubelet.down || w.kubelet.terminating || w.kubelet.stuck || w.pod == nil {
		return
	}
	if !w.spec.restarts {
		if w.fails == nil && !hasEnded(w.pod) {
			w.hasFailed()
		}
		return
	}
	w.kubelet.restarts++
	w.tell("restarted")
	w.start()
	if w.fails == nil && !w.kubelet.mute {
		w.pod.Status.Phase, w.pod.Status.Reason, w.pod.Status.Message = v1.PodRunning, "", ""
	}
}

func (w *world) tell(what string) {
	w.storyMu.Lock()
	defer w.storyMu.Unlock()
	w.story = append(w.story, fmt.Sprintf("%6.2f %s", time.Since(w.began).Seconds(), what))
}

func (w *world) reported() []string {
	w.storyMu.Lock()
	defer w.storyMu.Unlock()
	return slices.Clone(w.story)
}

// when returns the time of the first line of the story that says so, negative if none does.
func when(w *world, what string) time.Duration {
	for _, line := range w.reported() {
		at, said, _ := strings.Cut(strings.TrimSpace(line), " ")
		if said == what {
			d, _ := time.ParseDuration(at + "s")
			return d
		}
	}
	return -1
}

func (w *world) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

var errRefused = errors.New("dial tcp 10.0.0.1:443: connect: connection refused")

func statusError(code int32, message string, causes ...metav1.StatusCause) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: message, Details: &metav1.StatusDetails{Causes: causes}}}
}

func denied(why string) error {
	return statusError(http.StatusUnprocessableEntity, "pods \"cart\" is forbidden: ValidatingAdmissionPolicy 'evictd-own-node' with binding 'evictd-own-node' denied request: "+why)
}

// PatchPodStatus implements API, as the API server does it.
func (w *world) PatchPodStatus(ctx context.Context, namespace, name string, body []byte, dryRun bool) (*v1.Pod, error) {
	w.mu.Lock()
	latency := w.latency
	w.mu.Unlock()
	if !pause(ctx, latency) {
		return nil, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if dryRun {
		w.dryRuns++
	} else {
		w.asked.patches++
	}
	if w.fails != nil {
		return nil, w.fails
	}
	if w.pod == nil || namespace != "shop" || name != "cart" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
	}
	var p patch
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	if w.refuses != nil {
		form := "annotated"
		if p.Metadata.Labels != nil {
			form = "labeled"
			if p.Status.Conditions == nil {
				form = "bare"
			}
		}
		if err := w.refuses(form); err != nil {
			return nil, err
		}
	}
	if p.Metadata.ResourceVersion != "" && p.Metadata.ResourceVersion != w.pod.ResourceVersion {
		return nil, statusError(http.StatusConflict, "the object has been modified")
	}
	if p.Metadata.UID != w.pod.UID {
		return nil, statusError(http.StatusUnprocessableEntity, `Pod "cart" is invalid: metadata.uid: Invalid value: "`+string(p.Metadata.UID)+`": field is immutable`,
			metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: "metadata.uid", Message: "Invalid value: field is immutable"})
	}
	marks := changes(w.pod.Annotations, p.Metadata.Annotations) || changes(w.pod.Labels, p.Metadata.Labels)
	again := hasEnded(w.pod) && w.pod.Status.Reason == victim.ReasonEvicted
	switch {
	case !w.policy:
	case isDeleted(w.pod):
		return nil, denied(deletedAlready)
	case hasEnded(w.pod) && !again && (!marks || w.pod.Status.Phase == v1.PodSucceeded):
		return nil, denied(endedAlready)
	case !marks && !again:
		return nil, denied("the annotation evictd.io/evicted has to be set to another value")
	}
	former, err := json.Marshal(w.pod)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(former, body, v1.Pod{})
	if err != nil {
		return nil, err
	}
	next := &v1.Pod{}
	if err := json.Unmarshal(merged, next); err != nil {
		return nil, err
	}
	if dryRun {
		return next, nil
	}
	w.tell("patched")
	w.patches = append(w.patches, patched{at: time.Since(w.began), body: p})
	w.pod = next
	if w.owner != nil {
		w.owner(w.pod)
	}
	if k := &w.kubelet; marks && !k.down && !k.deaf && !k.terminating {
		k.terminating = true
		go w.terminate()
	}
	return next.DeepCopy(), nil
}

// changes reports whether a patch changes annotations or labels of a pod, without which no kubelet
// acts on it.
func changes(is, patch map[string]string) bool {
	for key, value := range patch {
		if is[key] != value {
			return true
		}
	}
	return false
}

// mayDelete reports whether the account has the right to delete pods.
func (w *world) mayDelete(context.Context, string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refuses == nil || w.refuses("right") == nil
}

// DeletePod implements API.
func (w *world) DeletePod(_ context.Context, _, _ string, uid types.UID, graceSeconds int64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.fails != nil:
		return w.fails
	case w.refuses != nil && w.refuses("deleted") != nil:
		return w.refuses("deleted")
	case w.pod == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "cart")
	case w.pod.UID != uid:
		return statusError(http.StatusConflict, "the UID in the precondition does not match")
	}
	w.tell("deleted")
	now := metav1.Now()
	w.pod.DeletionTimestamp, w.pod.DeletionGracePeriodSeconds = &now, &graceSeconds
	if k := &w.kubelet; !k.down && !k.terminating {
		k.terminating = true
		go w.terminate()
	}
	return nil
}

// CreateEvent implements API.
func (w *world) CreateEvent(_ context.Context, event *v1.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked.events++
	if err := cmp.Or(w.fails, w.failsEvents); err != nil {
		return err
	}
	if slices.ContainsFunc(w.events, func(e *v1.Event) bool { return e.Name == event.Name }) {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, event.Name)
	}
	w.events = append(w.events, event)
	return nil
}

// terminate plays the kubelet's end of a pod that it finds to have failed.
func (w *world) terminate() {
	stuck := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.kubelet.stuck
	}
	for stuck() {
		w.change(func() {
			if w.kubelet.stuck {
				w.pod.Status.Phase, w.pod.Status.Reason = v1.PodPending, ""
			}
		})
		if !pause(w.ctx, time.Second) {
			return
		}
	}
	if !pause(w.ctx, 2*w.latency) {
		return
	}
	if late := w.kubelet.writesAfter; late > 0 {
		time.AfterFunc(late, func() { w.change(w.hasFailed) })
	} else {
		w.change(w.hasFailed)
	}
	graceEnds := time.Now().Add(time.Duration(w.spec.grace) * time.Second)
	if w.spec.preStop > 0 {
		w.tell("preStop")
		hook := time.NewTimer(min(w.spec.preStop, time.Until(graceEnds)))
		defer hook.Stop()
		for alive := true; alive; {
			select {
			case <-w.ctx.Done():
				return
			case <-hook.C:
				w.tell("preStop ended")
				alive = false
			case <-time.After(50 * time.Millisecond):
				alive = w.cri.Running(uid)
			}
		}
	}
	stop := func(name string) {
		list, err := w.cri.Client().ListContainers(w.ctx, ofThePod)
		if err != nil {
			return
		}
		for _, c := range list.GetContainers() {
			if c.GetMetadata().GetName() == name {
				left := max(lastGraceSeconds, int64(time.Until(graceEnds).Seconds()))
				_, _ = w.cri.Client().StopContainer(w.ctx, &runtimeapi.StopContainerRequest{ContainerId: c.GetId(), Timeout: left})
			}
		}
	}
	stop("main")
	stop("side")
	if list, err := w.cri.Client().ListPodSandbox(w.ctx, itsSandboxes); err == nil {
		for _, s := range list.GetItems() {
			_, _ = w.cri.Client().StopPodSandbox(w.ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: s.GetId()})
		}
	}
	w.change(func() {
		if w.pod != nil {
			w.pod.Status.Phase, w.pod.Status.Reason = v1.PodFailed, victim.ReasonEvicted
		}
	})
}

func (w *world) hasFailed() {
	if w.pod == nil {
		return
	}
	w.pod.Status.Phase, w.pod.Status.Reason = v1.PodFailed, ""
	for i := range w.pod.Status.Conditions {
		if c := &w.pod.Status.Conditions[i]; c.Type == v1.PodReady {
			c.Status, c.Reason = v1.ConditionFalse, "PodFailed"
		}
	}
}

// SaveKill implements victim.Journal.
func (w *world) SaveKill(k victim.Kill) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.journal[k.UID] = k
	return nil
}

// RemoveKill implements victim.Journal.
func (w *world) RemoveKill(uid string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.journal, uid)
	return nil
}

func (w *world) noted() (k victim.Kill, there bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, there = w.journal[uid]
	return k, there
}

// ofController returns the events about the pod's controller.
func (w *world) ofController() []*v1.Event {
	return slices.DeleteFunc(slices.Clone(w.events), func(e *v1.Event) bool { return e.InvolvedObject.Kind == "Pod" })
}

// pods returns the pods as the API server last sent them: nothing new while it is away.
func (w *world) pods() []*v1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stale != nil {
		return []*v1.Pod{w.stale.DeepCopy()}
	}
	if w.pod == nil {
		return nil
	}
	return []*v1.Pod{w.pod.DeepCopy()}
}

// made returns an evictd that does not run yet.
func (w *world) made() *Killer {
	return New(Options{
		Options: victimcri.Options{Runtime: w.cri.Client(), Log: slog.New(slog.NewTextHandler(&w.log, nil))},
		API:     w, NodeName: "node-1", Refused: func(pods.Pod, error) { w.change(func() { w.refusals++ }) }, Journal: w, Pods: w.pods, MayDelete: w.mayDelete, DryRun: func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.dryRun
		}, Short: func(resource string) (known, is bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.looked, w.short == resource
		},
		OwnerEvent: func(about v1.ObjectReference, annotations map[string]string, message string) {
			w.change(func() {
				w.events = append(w.events, &v1.Event{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, InvolvedObject: about, Message: message})
			})
		},
	})
}

// killer runs an evictd until the story ends, or until end is called.
func (w *world) killer() (k *Killer, end context.CancelFunc) {
	k = w.made()
	ctx, cancel := context.WithCancel(w.ctx)
	go k.Run(ctx)
	return k, cancel
}

// victim returns the pod as it is now, with so long a grace.
func (w *world) victim(graceSeconds int64) victim.Victim {
	pod := pods.Pod{API: w.pods()[0], Row: eviction.Pod{UID: uid, Namespace: "shop", Name: "cart"}, HasManifest: true}
	list, err := w.cri.Client().ListContainers(w.ctx, ofThePod)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range list.GetContainers() {
		pod.ContainerIDs = append(pod.ContainerIDs, c.GetId())
	}
	v := victim.New(pod, eviction.MemoryAvailable, graceSeconds, "The node was low on resource: memory. ", nil)
	v.Hard = graceSeconds == 1
	return v
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// evict does what a victim.Set does with a victim, and returns what the kill did and how
// long it took.
func (w *world) evict(k *Killer, v victim.Victim) (time.Duration, error) {
	w.t.Helper()
	w.must(k.SaveKill(v.Kill))
	began := time.Now()
	err := k.Kill(w.ctx, v)
	took := time.Since(began)
	for !finished(w, k, v) {
		if !pause(w.ctx, firstLook) || time.Since(began) > 5*time.Minute {
			w.t.Error("the pod does not end")
			break
		}
	}
	w.must(k.RemoveKill(v.UID))
	return took, err
}

func finished(w *world, k *Killer, v victim.Victim) bool {
	done, err := k.Finished(w.ctx, v)
	return done && err == nil
}

// status returns the pod's status in the API server.
func (w *world) status() v1.PodStatus { return w.pods()[0].Status }

func evicted(w *world) bool {
	p := w.pods()[0]
	return p.Annotations[victim.AnnotationEvicted] != "" && p.Status.Phase == v1.PodFailed &&
		slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
		})
}

// loses has an API server do what it is asked for, and loses the first answers.
type loses struct {
	*world
	n int
}

func (l *loses) PatchPodStatus(ctx context.Context, namespace, name string, body []byte, dryRun bool) (*v1.Pod, error) {
	pod, err := l.world.PatchPodStatus(ctx, namespace, name, body, dryRun)
	if l.n > 0 && !dryRun {
		l.n--
		pause(ctx, time.Second)
		return nil, errors.New("read: connection reset by peer")
	}
	return pod, err
}
