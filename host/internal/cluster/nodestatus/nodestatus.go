// Package nodestatus writes evictd's own conditions and taints (below evictd.io/) to its node.
// They tell the scheduler of a shortage at evictd's threshold, and are written only while the
// kubelet does not report the same.
//
// It does not write the kubelet's conditions: the kubelet would overwrite them.
package nodestatus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Domain prefixes the types of all conditions and the keys of all taints owned by evictd.
const Domain = "evictd.io/"

const (
	// An unreachable API server is retried soon, and then with growing pauses.
	firstRetry, maxRetry = time.Second, 30 * time.Second
	// heldUpFor is the pause after a refusal.
	heldUpFor = time.Minute
	// lookAgain is the interval, under pressure, for checking that the node still has what was
	// written, and what the kubelet reports.
	lookAgain = 10 * time.Second
	// jitter is the random part of the pause after a refusal.
	jitter = 0.2
	// conflicts bounds the attempts to write taints while others write the node.
	conflicts = 5
	// settleFor bounds the wait for the first attempt to write what was set.
	settleFor = time.Second
)

// API reads and patches the node. PatchNode sends a strategic merge patch for the node, or a
// subresource of it. Both return the node; their errors are the API server's.
type API interface {
	Node(ctx context.Context) (*v1.Node, error)
	PatchNode(ctx context.Context, subresource string, body []byte) (*v1.Node, error)
}

// A Level says how much is written to the node.
type Level int

// The levels. None only removes what was written before.
const (
	None Level = iota
	Conditions
	Taints
)

// A Keeper keeps the node's conditions at those set last. Set may be called from anywhere, and
// never blocks.
type Keeper struct {
	api    API
	level  Level
	dryRun func() bool
	log    *slog.Logger
	wake   chan struct{}

	mu sync.Mutex
	// latest holds what was set last, wanted the part of it that is written.
	latest, wanted []eviction.Condition
	known          bool // after the first Set
	// tried is closed when wanted was written, or the attempt failed.
	tried chan struct{}
}

// New returns a keeper, which writes while Run runs. dryRun reports whether the node must have none
// of evictd's conditions now.
func New(api API, level Level, dryRun func() bool, log *slog.Logger) *Keeper {
	k := &Keeper{api: api, level: level, dryRun: dryRun, log: log, wake: make(chan struct{}, 1), tried: make(chan struct{})}
	close(k.tried)
	return k
}

// Set sets the conditions of the node. It must be called again when dryRun changes. In a dry run,
// and at level None, it removes what was written before, and writes nothing.
func (k *Keeper) Set(conditions []eviction.Condition) {
	latest := slices.Sorted(slices.Values(conditions))
	wanted, dryRun := latest, k.dryRun()
	if dryRun || k.level == None {
		wanted = nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if dryRun && k.level != None && !slices.Equal(k.latest, latest) {
		k.log.Info("node conditions not written, this is a dry run", "conditions", names(latest, Name), "taints", k.taintsOf(latest))
	}
	k.latest = latest
	if k.known && slices.Equal(k.wanted, wanted) {
		return
	}
	k.wanted, k.known = wanted, true
	if closed(k.tried) {
		k.tried = make(chan struct{})
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper) taintsOf(conditions []eviction.Condition) []string {
	if k.level != Taints {
		return nil
	}
	return names(conditions, TaintKey)
}

func (k *Keeper) now() ([]eviction.Condition, chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wanted, k.tried
}

// Settle waits until the API server has accepted or refused what was set last, for a second at
// most: a controller that learns of an eviction should find the node's taint.
func (k *Keeper) Settle(ctx context.Context) {
	_, tried := k.now()
	select {
	case <-tried:
	case <-time.After(settleFor):
	case <-ctx.Done():
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Run writes what was set, at the start regardless of the node's state, until ctx ends. It does not
// remove conditions at the end: the next evictd holds them, or removes them when the pressure is
// over. It writes again what others remove, or what a newly registered node lacks.
func (k *Keeper) Run(ctx context.Context) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = firstRetry, maxRetry
	again := time.NewTimer(0)
	defer again.Stop()
	again.Stop() // not needed yet
	said, next := "", lookAgain
	for {
		select {
		case <-k.wake:
			pace.Reset()
			next = rand.N(lookAgain) // at random: a workload can bring many nodes under pressure together
		case <-again.C:
		case <-ctx.Done():
			return
		}
		wanted, tried := k.now()
		err := Hold(ctx, k.api, wanted, k.level == Taints)
		if latest, _ := k.now(); slices.Equal(latest, wanted) && !closed(tried) {
			close(tried)
		}
		if err == nil {
			pace.Reset()
			said = ""
			if again.Stop(); len(wanted) > 0 {
				again.Reset(next)
				next = lookAgain
			}
			continue
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			k.log.Error("node conditions not written, retrying", "conditions", wanted, "error", err)
		}
		pause := pace.NextBackOff()
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			pause = wait.Jitter(heldUpFor, jitter)
		}
		again.Reset(pause)
	}
}

// Hold sets evictd's conditions of this node, with taints if requested, except for those that the
// kubelet reports itself, and removes all others of evictd's. Without conditions it removes
// everything that evictd ever wrote. Taints come first: the scheduler looks at them.
func Hold(ctx context.Context, api API, wanted []eviction.Condition, taints bool) error {
	node, err := api.Node(ctx)
	if err != nil {
		return fmt.Errorf("read the node: %w", err)
	}
	node, errTaints := holdTaints(ctx, api, node, wanted, taints)
	changes := conditionChanges(node, missing(node, wanted), time.Now())
	if len(changes) == 0 {
		return errTaints
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": changes}})
	if err == nil {
		_, err = api.PatchNode(ctx, "status", body)
	}
	if err != nil {
		return errors.Join(errTaints, fmt.Errorf("write the node's conditions: %w", err))
	}
	return errTaints
}

// Clear removes everything that evictd ever wrote from the nodes of a cluster: each calls a function
// with each node, of returns the API for one.
func Clear(ctx context.Context, each func(context.Context, func(*v1.Node) error) error, of func(node string) API) error {
	var left []error
	err := each(ctx, func(n *v1.Node) error {
		if len(conditionChanges(n, nil, time.Time{})) == 0 && len(taintsWith(n.Spec.Taints, nil)) == len(n.Spec.Taints) {
			return nil
		}
		if err := Hold(ctx, of(n.Name), nil, false); err != nil && !apierrors.IsNotFound(err) {
			left = append(left, fmt.Errorf("node %s: %w", n.Name, err))
		}
		return ctx.Err()
	})
	return errors.Join(append(left, err)...)
}

// holdTaints writes the taints, and returns the node as it is then.
func holdTaints(ctx context.Context, api API, node *v1.Node, wanted []eviction.Condition, taints bool) (*v1.Node, error) {
	for try := 1; ; try++ {
		keep := missing(node, wanted)
		if !taints {
			keep = nil
		}
		is, want := node.Spec.Taints, taintsWith(node.Spec.Taints, keep)
		if slices.EqualFunc(is, want, func(a, b v1.Taint) bool { return a.Key == b.Key && a.Effect == b.Effect }) {
			return node, nil
		}
		// The resource version prevents overwriting others' taints: the list is one value.
		body, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": want},
		})
		var written *v1.Node
		if err == nil {
			written, err = api.PatchNode(ctx, "", body)
		}
		switch {
		case err == nil:
			return written, nil
		case apierrors.IsConflict(err) && try < conflicts:
			now, err := api.Node(ctx)
			if err != nil {
				return node, fmt.Errorf("read the node: %w", err)
			}
			node = now
		case apierrors.IsForbidden(err):
			return node, fmt.Errorf("write the node's taints, which takes a ServiceAccount with the role of deploy/rbac/node-conditions.yaml (node credentials may not): %w", err)
		default:
			return node, fmt.Errorf("write the node's taints: %w", err)
		}
	}
}

// standard holds the taint of evictd's for each condition of the kubelet's, and the taint that the
// node lifecycle controller makes of the latter.
var standard = map[eviction.Condition]struct{ own, kubelets string }{
	eviction.MemoryPressure: {Domain + "memory-pressure", v1.TaintNodeMemoryPressure},
	eviction.DiskPressure:   {Domain + "disk-pressure", v1.TaintNodeDiskPressure},
	eviction.PIDPressure:    {Domain + "pid-pressure", v1.TaintNodePIDPressure},
}

// missing returns those of wanted that the kubelet does not report. A condition of the kubelet's
// replaces one that evictd has written only when its taint is there, too: between the two the
// scheduler would see neither.
func missing(node *v1.Node, wanted []eviction.Condition) []eviction.Condition {
	return slices.DeleteFunc(slices.Clone(wanted), func(c eviction.Condition) bool {
		of, ok := standard[c]
		reported := slices.ContainsFunc(node.Status.Conditions, func(n v1.NodeCondition) bool {
			return string(n.Type) == string(c) && n.Status == v1.ConditionTrue
		})
		return ok && reported && (hasTaint(node, of.kubelets) || !hasTaint(node, of.own))
	})
}

func hasTaint(node *v1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.Key == key })
}

// Name returns the type of the node condition for a condition of evictd.
func Name(c eviction.Condition) string {
	name := string(c)
	return Domain + name[strings.LastIndex(name, "/")+1:]
}

// TaintKey returns the key of the taint for a condition of evictd.
func TaintKey(c eviction.Condition) string {
	if of, ok := standard[c]; ok {
		return of.own
	}
	return Name(c)
}

func names(conditions []eviction.Condition, name func(eviction.Condition) string) (out []string) {
	for _, c := range conditions {
		out = append(out, name(c))
	}
	return out
}

// A removal removes a condition in a strategic merge patch.
type removal struct {
	Patch string `json:"$patch"`
	Type  string `json:"type"`
}

// conditionChanges returns the conditions of the patch, which are merged by type.
func conditionChanges(node *v1.Node, wanted []eviction.Condition, now time.Time) (changes []any) {
	stands, kinds := map[string]bool{}, names(wanted, Name)
	for _, c := range node.Status.Conditions {
		kind := string(c.Type)
		switch {
		case !strings.HasPrefix(kind, Domain):
		case !slices.Contains(kinds, kind):
			changes = append(changes, removal{Patch: "delete", Type: kind})
		case c.Status == v1.ConditionTrue:
			stands[kind] = true
		}
	}
	for _, c := range wanted {
		kind := Name(c)
		if stands[kind] {
			continue
		}
		stands[kind] = true
		text := policy.ConditionText(c, true)
		changes = append(changes, v1.NodeCondition{
			Type: v1.NodeConditionType(kind), Status: v1.ConditionTrue, Reason: "EvictionThresholdMet", Message: "evictd: " + text.Message,
			LastHeartbeatTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
		})
	}
	return changes
}

// taintsWith returns others' taints unchanged, with evictd's for conditions.
func taintsWith(is []v1.Taint, conditions []eviction.Condition) []v1.Taint {
	keys := names(conditions, TaintKey)
	out := slices.DeleteFunc(slices.Clone(is), func(t v1.Taint) bool { return strings.HasPrefix(t.Key, Domain) && !slices.Contains(keys, t.Key) })
	for _, key := range keys {
		if !slices.ContainsFunc(out, func(t v1.Taint) bool { return t.Key == key }) {
			out = append(out, v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
		}
	}
	return out
}
