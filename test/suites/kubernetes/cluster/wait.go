package cluster

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Await watches objects of a resource, such as "pods", until done reports true of one of
// them, or an error, and returns that one. It lives through restarts of the API
// server. All namespaces are "", all names too.
func Await[T runtime.Object](ctx context.Context, c *Cluster, client cache.Getter, resource, namespace, name string, done func(T) (bool, error)) (T, error) {
	selector := fields.Everything()
	if name != "" {
		selector = fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	}
	var none, last T
	event, err := watchtools.UntilWithSync(ctx, cache.NewListWatchFromClient(client, resource, namespace, selector), none, nil, func(e watch.Event) (bool, error) {
		object, ok := e.Object.(T)
		if !ok || e.Type == watch.Deleted {
			return false, nil
		}
		last = object
		return done(object)
	})
	if err != nil {
		return last, fmt.Errorf("wait for %s %s/%s: %w", resource, namespace, name, err)
	}
	return event.Object.(T), nil
}

// AwaitNode watches the node until done reports true of it.
func (c *Cluster) AwaitNode(ctx context.Context, done func(*v1.Node) bool) (*v1.Node, error) {
	return Await(ctx, c, c.Client.CoreV1().RESTClient(), "nodes", "", c.Node, func(n *v1.Node) (bool, error) { return done(n), nil })
}

// NodeCondition is the status of a condition of the node, "" if it has none of the type.
func NodeCondition(n *v1.Node, kind v1.NodeConditionType) v1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// awaitNode waits until the node takes pods, and pods can be made.
func (c *Cluster) awaitNode(ctx context.Context) error {
	_, err := c.AwaitNode(ctx, func(n *v1.Node) bool {
		return NodeCondition(n, v1.NodeReady) == v1.ConditionTrue && len(n.Spec.Taints) == 0
	})
	if err != nil {
		return fmt.Errorf("%w: %s", err, c.parts[len(c.parts)-1].tail())
	}
	return c.AwaitNamespace(ctx, metav1.NamespaceDefault)
}

// AwaitNamespace waits until a namespace has what pods in it need.
func (c *Cluster) AwaitNamespace(ctx context.Context, namespace string) error {
	core := c.Client.CoreV1().RESTClient()
	_, err := Await(ctx, c, core, "serviceaccounts", namespace, "default", func(*v1.ServiceAccount) (bool, error) { return true, nil })
	if err != nil {
		return err
	}
	_, err = Await(ctx, c, core, "configmaps", namespace, "kube-root-ca.crt", func(*v1.ConfigMap) (bool, error) { return true, nil })
	return err
}

// AwaitPod watches a pod until done reports true of it.
func (c *Cluster) AwaitPod(ctx context.Context, namespace, name string, done func(*v1.Pod) (bool, error)) (*v1.Pod, error) {
	return Await(ctx, c, c.Client.CoreV1().RESTClient(), "pods", namespace, name, done)
}
