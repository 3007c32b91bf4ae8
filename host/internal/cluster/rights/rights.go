// Package rights checks in advance whether the API server permits what evictd needs. It reviews
// the account's rights and makes a dry run of an eviction.
//
// Its caller provides the connection to the API server and the patch of an eviction.
package rights

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/evictd/evictd/host/internal/core/policy"
)

// API is the part of the API server that Check uses.
type API interface {
	// SelfSubjectAccessReview reports whether the account may do verb to a resource, such as pods
	// or tokenreviews.authentication.k8s.io, in namespace, "" for all, and why not; list and watch
	// of pods means those of this node.
	SelfSubjectAccessReview(ctx context.Context, verb, resource, subresource, namespace string) (allowed bool, reason string, err error)
	// PatchPodStatus sends a strategic merge patch of pods/status and returns the resulting pod.
	// Errors are the API server's.
	PatchPodStatus(ctx context.Context, namespace, name string, body []byte, dryRun bool) (*v1.Pod, error)
}

// Options configures Check. API, Node and Patch are required.
type Options struct {
	API API
	// Node is the nodeName of the configuration.
	Node string
	// Conditions: evictd writes its own conditions to the Node object. Taints: also taints.
	Conditions, Taints bool
	// Reviews: evictd authenticates and authorizes remote readers of its metrics.
	Reviews bool
	// Observe: evictd is to have no right to evict.
	Observe bool
	// Running: a daemon reads its pods and its node anyway, and reports what is refused of that.
	Running bool
	// Pods of this node as received from the API server, in the order in which to try them.
	Pods []*v1.Pod
	// Patch returns the body of an eviction of a pod.
	Patch func(pod *v1.Pod) ([]byte, error)
}

// A permission is a verb that evictd's account needs.
type permission struct {
	verb, resource, subresource string
	// without describes what does not work without it.
	without string
	// optional: evictd can evict without it.
	optional bool
	// running: a daemon sends this request anyway.
	running bool
}

func (n permission) String() string {
	if n.subresource != "" {
		return n.verb + " " + n.resource + "/" + n.subresource
	}
	return n.verb + " " + n.resource
}

// evicts is the permission without which no eviction is reported.
var evicts = permission{"patch", "pods", "status", "evictions are not reported, and the kubelet restarts the containers that evictd stops", false, false}

// always lists the permissions in deploy/rbac/role.yaml.
var always = []permission{
	{"list", "pods", "", "no pod is known, and none evicted", false, true},
	{"watch", "pods", "", "no pod is known, and none evicted", false, true},
	evicts,
	{"get", "nodes", "", "the kubelet's version is not known, and compatibility: auto is the newest", true, true},
	{"create", "events", "", "evictions are in the log and in /status, and no event tells of them", true, false},
	{"patch", "events", "", "an event that is repeated is not counted", true, false},
}

func (o Options) needs() []permission {
	needs := slices.DeleteFunc(slices.Clone(always), func(n permission) bool { return o.Running && n.running || o.Observe && n == evicts })
	if o.Conditions {
		needs = append(needs, permission{"patch", "nodes", "status", "nodeConditions writes no condition; want deploy/rbac/node-conditions.yaml", true, false})
	}
	if o.Taints {
		needs = append(needs, permission{"patch", "nodes", "", "nodeConditions writes no taint; want deploy/rbac/node-conditions.yaml", true, false})
	}
	if o.Reviews {
		const without = "requests to metricsBindAddress from other machines are refused; want deploy/rbac/metrics.yaml"
		needs = append(needs, permission{"create", "tokenreviews.authentication.k8s.io", "", without, true, false}, permission{"create", "subjectaccessreviews.authorization.k8s.io", "", without, true, false})
	}
	return needs
}

// triedPods bounds the pods tried in a dry run: one may end meanwhile.
const triedPods = 3

// Check returns as errors what prevents evictions, and as warnings what else will not work or
// permits too much. It changes nothing.
func Check(ctx context.Context, o Options) (errs []error, warnings []string) {
	for _, n := range o.needs() {
		allowed, reason, err := o.API.SelfSubjectAccessReview(ctx, n.verb, n.resource, n.subresource, "")
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("ask whether %s is allowed: %w", n, err))
		case allowed:
		case n.optional:
			warnings = append(warnings, fmt.Sprintf("%s is not allowed%s: %s", n, because(reason), n.without))
		default:
			errs = append(errs, fmt.Errorf("%s is not allowed%s: %s; want the role of deploy/rbac", n, because(reason), n.without))
		}
	}
	try := o.dryRun
	if o.Observe {
		try = o.refused
	}
	reported, err := try(ctx)
	if err != nil {
		errs = append(errs, err)
	}
	return errs, append(warnings, reported...)
}

// refused warns of an account that could evict although it is to observe alone.
func (o Options) refused(ctx context.Context) (warnings []string, err error) {
	for _, verb := range [][2]string{{"patch", "status"}, {"delete", ""}} {
		n := permission{verb: verb[0], resource: "pods", subresource: verb[1]}
		if allowed, _, err := o.API.SelfSubjectAccessReview(ctx, n.verb, n.resource, n.subresource, ""); err == nil && allowed {
			warnings = append(warnings, fmt.Sprintf("%s is allowed, and observe: true needs no right to it", n))
		}
	}
	return warnings, nil
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + reason + ")"
}

// dryRun evicts a pod in a dry run, and then tries a write that is not an eviction.
func (o Options) dryRun(ctx context.Context) (warnings []string, err error) {
	pods := slices.DeleteFunc(slices.Clone(o.Pods), func(p *v1.Pod) bool { return !mayGo(p) })
	if len(o.Pods) == 0 {
		return []string{fmt.Sprintf("nodeName: %q: the API server tells of no pod of this node, and no eviction was tried: want the name of its Node object, as kubectl get nodes has it", o.Node)}, nil
	}
	if len(pods) == 0 {
		return []string{"no eviction was tried: no pod of this node may be evicted"}, nil
	}
	for _, p := range pods[:min(len(pods), triedPods)] {
		if err = o.evict(ctx, p); err == nil {
			return o.more(ctx, p)
		}
		if !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			break
		}
	}
	return nil, err
}

// more tries a write that is not an eviction, which should be refused.
func (o Options) more(ctx context.Context, p *v1.Pod) (warnings []string, err error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "annotations": map[string]string{"evictd.io/check": "dry run"}}})
	if err != nil {
		return nil, err
	}
	switch _, err := o.API.PatchPodStatus(ctx, p.Namespace, p.Name, body, true); {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // as expected
		return nil, nil
	case err != nil:
		return []string{fmt.Sprintf("whether deploy/rbac/policy.yaml is in force was not found out: %v", err)}, nil
	}
	return []string{"the account may write more of a pod than an eviction: deploy/rbac/policy.yaml is not in force, or the credentials are others than those it is about, such as the node's"}, nil
}

func (o Options) evict(ctx context.Context, p *v1.Pod) error {
	body, err := o.Patch(p)
	if err == nil {
		_, err = o.API.PatchPodStatus(ctx, p.Namespace, p.Name, body, true)
	}
	if err != nil {
		return fmt.Errorf("evict pod %s/%s, as a dry run: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// mayGo reports whether a pod has not ended and could be evicted.
func mayGo(p *v1.Pod) bool {
	return policy.Evictable(p) && p.DeletionTimestamp == nil && p.Status.Phase != v1.PodFailed && p.Status.Phase != v1.PodSucceeded
}
