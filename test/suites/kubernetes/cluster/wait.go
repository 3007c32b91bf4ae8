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

// Await watches the selected objects of a resource, such as "pods", until done returns true for
// one of them, which it returns, or an error. It survives restarts of the API server. The
// namespace "" means all.
func Await[T runtime.Object](ctx context.Context, client cache.Getter, resource, namespace string, selected fields.Selector, done func(T) (bool, error)) (T, error) {
	var none T
	event, err := watchtools.UntilWithSync(ctx, cache.NewListWatchFromClient(client, resource, namespace, selected), none, nil, func(e watch.Event) (bool, error) {
		object, ok := e.Object.(T)
		if !ok || e.Type == watch.Deleted {
			return false, nil
		}
		return done(object)
	})
	if err != nil {
		return none, fmt.Errorf("wait for one of %s in %q, %q: %w", resource, namespace, selected, err)
	}
	return event.Object.(T), nil
}

// named selects the object with the given name, or all if that is empty.
func named(name string) fields.Selector {
	if name == "" {
		return fields.Everything()
	}
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name)
}

// AwaitNode watches the node until done returns true.
func (a *Access) AwaitNode(ctx context.Context, done func(*v1.Node) bool) (*v1.Node, error) {
	return Await(ctx, a.Client.CoreV1().RESTClient(), "nodes", "", named(a.Node), func(n *v1.Node) (bool, error) { return done(n), nil })
}

// NodeCondition returns the status of a condition of the node, "" if the node lacks it.
func NodeCondition(n *v1.Node, kind v1.NodeConditionType) v1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// AwaitNamespace waits until a namespace has the objects that pods in it need.
func (a *Access) AwaitNamespace(ctx context.Context, namespace string) error {
	core := a.Client.CoreV1().RESTClient()
	_, err := Await(ctx, core, "serviceaccounts", namespace, named("default"), func(*v1.ServiceAccount) (bool, error) { return true, nil })
	if err != nil {
		return err
	}
	_, err = Await(ctx, core, "configmaps", namespace, named("kube-root-ca.crt"), func(*v1.ConfigMap) (bool, error) { return true, nil })
	return err
}

// AwaitPod watches a pod, or all if name is empty, until done returns true for one.
func (a *Access) AwaitPod(ctx context.Context, namespace, name string, done func(*v1.Pod) (bool, error)) (*v1.Pod, error) {
	return Await(ctx, a.Client.CoreV1().RESTClient(), "pods", namespace, named(name), done)
}
