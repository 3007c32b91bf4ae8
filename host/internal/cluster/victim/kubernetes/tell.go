package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// An unreachable API server is retried soon at first: the kubelet restarts what was stopped
	// until it has received the eviction.
	firstRetry = 50 * time.Millisecond
	maxRetry   = 5 * time.Second
	// maxEventRetry is the longest pause before an event is created again that an API server with too
	// much to do has rejected.
	maxEventRetry = time.Minute
	// callTimeout bounds one API call: the API server waits for a webhook for up to 30 s.
	callTimeout = 35 * time.Second
	// refusedFor bounds the retries of a refused eviction: an API server that has just started
	// knows neither roles nor policies for some seconds.
	refusedFor = time.Minute
	// conflicts bounds the retries for a pod that has changed meanwhile: after an outage the API
	// server sends changes late.
	conflicts = 3
)

// A teller writes evictions to the API server.
type teller struct {
	records *records
	log     *slog.Logger
	api     API
	node    string
	pods    func() []*v1.Pod
	dryRun  func() bool
	// mayDelete asks whether the account may delete pods of a namespace: by default none may be.
	mayDelete func(ctx context.Context, namespace string) bool
	before    func(context.Context)
	refused   func(pod pods.Pod, why error)
	// ownerEvent sends the event of a pod's controller.
	ownerEvent func(about v1.ObjectReference, annotations map[string]string, message string)
}

// A refusal tracks how long the API server has refused: it becomes final after a while.
type refusal struct{ since time.Time }

// final records an answer and reports whether it is a refusal that is not expected to change.
func (r *refusal) final(says answer) bool {
	if says != refused {
		return false
	}
	if r.since.IsZero() {
		r.since = time.Now()
	}
	return time.Since(r.since) >= refusedFor
}

// tell sends r to the API server until it has answered.
func (k teller) tell(ctx context.Context, r *record) {
	var refusal refusal
	newPace(maxRetry).retry(ctx, func() error {
		if k.dryRun() {
			return errDryRun
		}
		tried := time.Now()
		err := k.patch(ctx, r)
		says := meaning(err)
		final := refusal.final(says)
		if final {
			if err = k.deleteInstead(ctx, r, err); err == nil {
				says = accepted
			}
		}
		if ctx.Err() != nil {
			return err
		}
		if says == over && k.isTold(r) { // the answer was lost, or a former evictd received it
			says = accepted
		}
		if !k.records.answered(r, says, err, time.Since(tried), final) {
			return err
		}
		if says == refused {
			k.refused(pods.Pod{API: k.known(r), Row: eviction.Pod{UID: r.kill.UID, Namespace: r.kill.Namespace, Name: r.kill.Name}}, err)
		}
		return nil
	})
}

// patch sends the eviction of r, in the first form that the API server accepts.
func (k teller) patch(ctx context.Context, r *record) (err error) {
	version, tried := "", 0
	for f := annotated; f < forms; {
		if p := k.known(r); p != nil && tried < conflicts {
			if p.Status.Phase == v1.PodSucceeded {
				return errOver
			}
			version = p.ResourceVersion
		} else {
			version = ""
		}
		failed := k.ask(ctx, r.kill, f, version)
		switch meaning(failed) {
		case conflict:
			tried++
			pause(ctx, firstRetry<<tried)
		case refused:
			err = cmp.Or(err, failed) // the error of the form that should pass
			if f++; lacksRight(failed) {
				return err
			}
		default:
			return failed
		}
	}
	return err
}

// deleteInstead deletes the pod of r, whose eviction is refused, if the account has the right to. It
// terminates as it would when evicted, but only the event records why.
func (k teller) deleteInstead(ctx context.Context, r *record, refusal error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kill := r.kill
	if !k.mayDelete(ctx, kill.Namespace) {
		return refusal
	}
	err := k.api.DeletePod(ctx, kill.Namespace, kill.Name, types.UID(kill.UID), max(1, k.records.grace(r)))
	if says := meaning(err); says != accepted && says != gone && says != conflict { // a conflict is one of uids
		return errors.Join(refusal, fmt.Errorf("delete pod %s: %w", kill.Key(), err))
	}
	k.log.Warn("pod is deleted, the API server refuses its eviction", "pod", kill.Key(), "uid", kill.UID, "error", inWords(refusal))
	return nil
}

// announce creates the event of r, retrying until the API server has it, then sends that of the pod's controller.
func (k teller) announce(ctx context.Context, r *record) {
	var refusal refusal
	newPace(maxEventRetry).retry(ctx, func() error {
		if k.dryRun() {
			return errDryRun
		}
		call, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err := k.api.CreateEvent(call, eventOf(r.kill, k.node))
		switch says := meaning(err); {
		case ctx.Err() != nil:
			return ctx.Err()
		case says == away, says == refused && !refusal.final(says):
			return err
		case says == conflict: // it exists
			err = nil
		}
		k.records.announced(r, err)
		if o := r.kill.Owner; o != nil {
			message, annotations := ownerEvent(r.kill, k.node)
			k.ownerEvent(v1.ObjectReference{APIVersion: o.APIVersion, Kind: o.Kind, Namespace: r.kill.Namespace, Name: o.Name, UID: o.UID}, annotations, message)
		}
		return nil
	})
}

// known returns the pod of r as last received from the API server, nil if there is none.
func (k teller) known(r *record) *v1.Pod {
	uid := types.UID(r.kill.UID)
	for _, p := range k.pods() {
		if p.UID == uid {
			return p
		}
	}
	return nil
}

// isTold reports whether the API server has sent back r's eviction.
func (k teller) isTold(r *record) bool {
	p := k.known(r)
	return p != nil && marked(p, r.kill.EvictedAt)
}

// ask sends the eviction in one form, for the pod with this resourceVersion, or with any if that is empty.
func (k teller) ask(ctx context.Context, kill victim.Kill, f form, version string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if k.before != nil {
		k.before(ctx)
	}
	body, err := patchOf(kill, f, version)
	if err == nil {
		_, err = k.api.PatchPodStatus(ctx, kill.Namespace, kill.Name, body, false)
	}
	if err != nil {
		return fmt.Errorf("patch status of pod %s: %w", kill.Key(), err)
	}
	return nil
}

// A pace holds the growing pauses between requests about one eviction.
type pace struct {
	*backoff.ExponentialBackOff
	// failed is the last error. rejected is the longest pause after a rejection by an API server with
	// too much to do.
	failed   error
	rejected time.Duration
}

func newPace(rejected time.Duration) *pace {
	p := &pace{ExponentialBackOff: backoff.NewExponentialBackOff(), rejected: rejected}
	p.InitialInterval, p.MaxInterval = firstRetry, maxRetry
	return p
}

// NextBackOff implements backoff.BackOff. A rejection may ask for a pause, which gets a random part:
// other nodes are asked for the same.
func (p *pace) NextBackOff() time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(p.failed)
	p.MaxInterval = maxRetry
	if errors.As(p.failed, new(apierrors.APIStatus)) && meaning(p.failed) == away {
		p.MaxInterval = p.rejected
	}
	return max(p.ExponentialBackOff.NextBackOff(), wait.Jitter(min(time.Duration(seconds)*time.Second, p.MaxInterval), 1))
}

// retry calls f until it succeeds or ctx ends.
func (p *pace) retry(ctx context.Context, f func() error) {
	_, _ = backoff.Retry(ctx, func() (struct{}, error) { // the outcome is reported
		p.failed = f()
		return struct{}{}, p.failed
	}, backoff.WithBackOff(p), backoff.WithMaxElapsedTime(0))
}
