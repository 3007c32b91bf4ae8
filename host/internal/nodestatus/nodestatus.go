// Package nodestatus holds conditions and taints of evictd's own on its node: of disks,
// whose standard condition a kubelet cannot keep without danger, and of custom signals,
// which it does not know.
//
// The conditions of the kubelet are not its business: it would write over them.
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

// Domain prefixes the types of all conditions and the keys of all taints that evictd owns.
const Domain = "evictd.io/"

const (
	// An API server that is away is asked again soon, and then ever more seldom.
	firstRetry, maxRetry = time.Second, 30 * time.Second
	// heldUpFor is the pause after a refusal.
	heldUpFor = time.Minute
	// lookAgain is the time between two checks that the node still has what was written.
	lookAgain = 5 * time.Minute
	// settleFor bounds the wait for a first try to write what was set.
	settleFor = time.Second
)

// API writes to the node. PatchNode sends a strategic merge patch for the node, or a
// subresource of it, and returns the node as it is then. Its errors are the API server's.
type API interface {
	PatchNode(ctx context.Context, subresource string, body []byte) (*v1.Node, error)
}

// A Keeper keeps the node at the conditions that were set last. Set may be called from anywhere,
// and never waits.
type Keeper struct {
	api API
	// taints: a taint goes with each condition.
	taints bool
	dryRun func() bool
	log    *slog.Logger
	wake   chan struct{}

	mu     sync.Mutex
	wanted []eviction.Condition
	known  bool // by a first Set
	// tried is closed when wanted was written or could not be.
	tried chan struct{}
}

// New returns a keeper, which writes while it is run. dryRun reports whether the node is to
// have nothing of evictd's for now.
func New(api API, taints bool, dryRun func() bool, log *slog.Logger) *Keeper {
	k := &Keeper{api: api, taints: taints, dryRun: dryRun, log: log, wake: make(chan struct{}, 1), tried: make(chan struct{})}
	close(k.tried)
	return k
}

// Set has the node be under these conditions and no others, but for the kubelet's of memory
// and process ids. It is to be called again when it changes whether this is a dry run. One
// that was a dry run from the start asks and writes nothing; what was held before one is
// taken away.
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

// Settle waits until the API server has what was set last, or has not taken it, for a second
// at most: a controller that hears of an eviction is to find the node's taint.
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

// Run writes what was set, at the start whatever the node has, until ctx ends. What is
// there then stays. What others take away, or a node that is registered again has not, is
// written again.
func (k *Keeper) Run(ctx context.Context) {
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = firstRetry, maxRetry
	again := time.NewTimer(0)
	defer again.Stop()
	again.Stop() // nothing is known yet
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

// Hold has the node have these conditions of evictd's, with taints if they are asked for,
// and no others of evictd's. Without conditions it removes all that evictd has ever written.
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
	// The list is one value: taints that others have written meanwhile are not written over.
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

// Name returns the type of the node's condition, and the key of its taint, for a condition of
// evictd.
func Name(c eviction.Condition) string {
	name := string(c)
	return Domain + name[strings.LastIndex(name, "/")+1:]
}

func named(wanted []eviction.Condition, name string) bool {
	return slices.ContainsFunc(wanted, func(c eviction.Condition) bool { return Name(c) == name })
}

// A removal takes a condition away in a strategic merge patch.
type removal struct {
	Patch string `json:"$patch"`
	Type  string `json:"type"`
}

// conditionChanges returns the conditions for the patch: conditions merge by type.
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

// taintsOf returns the taints of others, as they are, and evictd's.
func taintsOf(is []v1.Taint, wanted []eviction.Condition) []v1.Taint {
	out := slices.DeleteFunc(slices.Clone(is), func(t v1.Taint) bool { return strings.HasPrefix(t.Key, Domain) && !named(wanted, t.Key) })
	for _, c := range wanted {
		if !slices.ContainsFunc(out, func(t v1.Taint) bool { return t.Key == Name(c) }) {
			out = append(out, v1.Taint{Key: Name(c), Effect: v1.TaintEffectNoSchedule})
		}
	}
	return out
}
