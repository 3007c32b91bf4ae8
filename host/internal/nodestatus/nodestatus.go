// Package nodestatus writes evictd's own conditions and taints to its node: for disks, whose
// standard condition a kubelet cannot report without danger, and for custom signals, which it does
// not know.
//
// It does not write the kubelet's conditions: the kubelet would overwrite them.
package nodestatus

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Domain prefixes the types of all conditions and the keys of all taints owned by evictd.
const Domain = "evictd.io/"

const (
	// An unreachable API server is retried soon, and then with growing pauses.
	firstRetry, maxRetry = time.Second, 30 * time.Second
	// heldUpFor is the pause after a refusal.
	heldUpFor = time.Minute
	// lookAgain is the interval for checking that the node still has what was written.
	lookAgain = 5 * time.Minute
	// settleFor bounds the wait for the first attempt to write what was set.
	settleFor = time.Second
)

// API patches the node. PatchNode sends a strategic merge patch for the node, or a subresource of
// it, and returns the resulting node. Its errors are the API server's.
type API interface {
	PatchNode(ctx context.Context, subresource string, body []byte) (*v1.Node, error)
}

// A Keeper keeps the node's conditions at those set last. Set may be called from anywhere, and
// never blocks.
type Keeper struct {
	api API
	// taints: each condition has a taint.
	taints bool
	dryRun func() bool
	log    *slog.Logger
	wake   chan struct{}

	mu     sync.Mutex
	wanted []eviction.Condition
	known  bool // after the first Set
	// tried is closed when wanted was written, or the attempt failed.
	tried chan struct{}
}

// New returns a keeper, which writes while Run runs. dryRun reports whether the node must have none
// of evictd's conditions now.
func New(api API, taints bool, dryRun func() bool, log *slog.Logger) *Keeper {
	k := &Keeper{api: api, taints: taints, dryRun: dryRun, log: log, wake: make(chan struct{}, 1), tried: make(chan struct{})}
	close(k.tried)
	return k
}

// Set sets the conditions of the node, except for the kubelet's of memory and process ids. It must
// be called again when dryRun changes. A keeper that has been in dry run from the start sends no
// requests; one that enters it later removes its conditions.
func (k *Keeper) Set(conditions []eviction.Condition) {
	wanted := slices.DeleteFunc(slices.Clone(conditions), func(c eviction.Condition) bool {
		return c == eviction.MemoryPressure || c == eviction.PIDPressure
	})
	slices.Sort(wanted)
	dryRun := k.dryRun()
	k.mu.Lock()
	defer k.mu.Unlock()
	if dryRun {
		if !k.known {
			return
		}
		wanted = nil
	}
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
// remove conditions at the end. It writes again what others remove, or what a newly registered node
// lacks.
func (k *Keeper) Run(ctx context.Context) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = firstRetry, maxRetry
	again := time.NewTimer(0)
	defer again.Stop()
	again.Stop() // not needed yet
	said := ""
	for {
		select {
		case <-k.wake:
			pace.Reset()
		case <-again.C:
		case <-ctx.Done():
			return
		}
		wanted, tried := k.now()
		err := Hold(ctx, k.api, wanted, k.taints)
		if latest, _ := k.now(); slices.Equal(latest, wanted) && !closed(tried) {
			close(tried)
		}
		if err == nil {
			pace.Reset()
			said = ""
			again.Reset(lookAgain)
			continue
		}
		if err.Error() != said && ctx.Err() == nil {
			said = err.Error()
			k.log.Error("node conditions not written, retrying", "conditions", wanted, "error", err)
		}
		wait := pace.NextBackOff()
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			wait = heldUpFor
		}
		again.Reset(wait)
	}
}

// Hold sets evictd's conditions of this node, with taints if requested, and removes all others of
// evictd's. Without conditions it removes everything that evictd ever wrote.
func Hold(ctx context.Context, api API, wanted []eviction.Condition, taints bool) error {
	node, err := api.PatchNode(ctx, "status", []byte("{}")) // to see what is there takes no other right
	if err != nil {
		return fmt.Errorf("look at the node's conditions: %w", err)
	}
	if changes := conditionChanges(node, wanted, time.Now()); len(changes) > 0 {
		body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": changes}})
		if err != nil {
			return err
		}
		if node, err = api.PatchNode(ctx, "status", body); err != nil {
			return fmt.Errorf("write the node's conditions: %w", err)
		}
	}
	if !taints {
		wanted = nil
	}
	is := node.Spec.Taints
	want := taintsOf(is, wanted)
	if slices.EqualFunc(is, want, func(a, b v1.Taint) bool { return a.Key == b.Key && a.Effect == b.Effect }) {
		return nil
	}
	// The resource version prevents overwriting others' taints: the list is one value.
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion}, "spec": map[string]any{"taints": want},
	})
	if err == nil {
		_, err = api.PatchNode(ctx, "", body)
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("write the node's taints, which takes a ServiceAccount with the role of deploy/rbac/node-conditions.yaml (node credentials may not): %w", err)
	case err != nil:
		return fmt.Errorf("write the node's taints: %w", err)
	}
	return nil
}

// Name returns the type of the node condition, and the key of the taint, for a condition of evictd.
func Name(c eviction.Condition) string {
	name := string(c)
	return Domain + name[strings.LastIndex(name, "/")+1:]
}

func named(wanted []eviction.Condition, name string) bool {
	return slices.ContainsFunc(wanted, func(c eviction.Condition) bool { return Name(c) == name })
}

// A removal removes a condition in a strategic merge patch.
type removal struct {
	Patch string `json:"$patch"`
	Type  string `json:"type"`
}

// conditionChanges returns the conditions of the patch, which are merged by type.
func conditionChanges(node *v1.Node, wanted []eviction.Condition, now time.Time) (changes []any) {
	stands := map[string]bool{}
	for _, c := range node.Status.Conditions {
		kind := string(c.Type)
		switch {
		case !strings.HasPrefix(kind, Domain):
		case !named(wanted, kind):
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

// taintsOf returns others' taints unchanged, with evictd's.
func taintsOf(is []v1.Taint, wanted []eviction.Condition) []v1.Taint {
	out := slices.DeleteFunc(slices.Clone(is), func(t v1.Taint) bool { return strings.HasPrefix(t.Key, Domain) && !named(wanted, t.Key) })
	for _, c := range wanted {
		if !slices.ContainsFunc(out, func(t v1.Taint) bool { return t.Key == Name(c) }) {
			out = append(out, v1.Taint{Key: Name(c), Effect: v1.TaintEffectNoSchedule})
		}
	}
	return out
}
