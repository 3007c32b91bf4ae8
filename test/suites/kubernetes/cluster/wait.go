package cluster

import (
	"context"
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Await watches the selected objects of a resource, such as "pods", until done reports
// true of one of them, or an error, and returns that one. It lives through restarts
// of the API server. All namespaces are "".
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

// named selects the object with the name, all if it is empty.
func named(name string) fields.Selector {
	if name == "" {
		return fields.Everything()
	}
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name)
}

// AwaitNode watches the node until done reports true of it.
func (a *Access) AwaitNode(ctx context.Context, done func(*v1.Node) bool) (*v1.Node, error) {
	return Await(ctx, a.Client.CoreV1().RESTClient(), "nodes", "", named(a.Node), func(n *v1.Node) (bool, error) { return done(n), nil })
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
func (a *Access) AwaitNamespace(ctx context.Context, namespace string) error {
	core := a.Client.CoreV1().RESTClient()
	_, err := Await(ctx, core, "serviceaccounts", namespace, named("default"), func(*v1.ServiceAccount) (bool, error) { return true, nil })
	if err != nil {
		return err
	}
	_, err = Await(ctx, core, "configmaps", namespace, named("kube-root-ca.crt"), func(*v1.ConfigMap) (bool, error) { return true, nil })
	return err
}

// AwaitPod watches a pod, or all if name is empty, until done reports true of one.
func (a *Access) AwaitPod(ctx context.Context, namespace, name string, done func(*v1.Pod) (bool, error)) (*v1.Pod, error) {
	return Await(ctx, a.Client.CoreV1().RESTClient(), "pods", namespace, named(name), done)
}

// Summary asks the kubelet for the working sets of its pods, in bytes. A pod that it has
// not measured yet is not among them.
func (c *Cluster) Summary(ctx context.Context) (map[types.UID]uint64, error) {
	var summary struct {
		Pods []struct {
			PodRef struct{ UID types.UID }
			Memory struct{ WorkingSetBytes uint64 }
		}
	}
	page, err := c.AskKubelet(ctx, "/stats/summary")
	if err == nil {
		err = json.Unmarshal(page, &summary)
	}
	if err != nil {
		return nil, err
	}
	measured := map[types.UID]uint64{}
	for _, pod := range summary.Pods {
		measured[pod.PodRef.UID] = pod.Memory.WorkingSetBytes
	}
	return measured, nil
}

// KubeletPods returns the pods that the kubelet has received from the API server, and its
// static ones.
func (c *Cluster) KubeletPods(ctx context.Context) ([]v1.Pod, error) {
	var pods v1.PodList
	page, err := c.AskKubelet(ctx, "/pods")
	if err == nil {
		err = json.Unmarshal(page, &pods)
	}
	return pods.Items, err
}

// AskKubelet returns the page that the kubelet serves at a path.
func (c *Cluster) AskKubelet(ctx context.Context, path string) ([]byte, error) {
	page, err := get(ctx, c.admin, c.KubeletURL()+path)
	if err != nil {
		return nil, fmt.Errorf("%s of the kubelet: %w", path, err)
	}
	return page, nil
}
