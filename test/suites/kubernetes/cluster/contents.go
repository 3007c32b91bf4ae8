package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/evictd/evictd/test/harness/stack"
)

// Contents record the objects of a cluster after its start, its Node, and the files in its directories.
type Contents struct {
	client  kubernetes.Interface
	objects metadata.Interface
	kinds   []schema.GroupVersionResource
	known   map[types.UID]bool
	node    *v1.Node
	dirs    []string
	files   []string
}

// ownKinds are made and removed by the control plane itself.
var ownKinds = []string{
	"leases", "events", "endpoints", "endpointslices", "controllerrevisions", "apiservices", "csinodes", "ipaddresses", "servicecidrs", "componentstatuses",
}

// contentsOf records the contents of a cluster with one node.
func contentsOf(ctx context.Context, config *rest.Config, client kubernetes.Interface, node string, dirs []string) (*Contents, error) {
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	c := &Contents{client: client, objects: objects, known: map[types.UID]bool{}, dirs: dirs}
	lists, err := client.Discovery().ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("kinds of objects: %w", err)
	}
	removable, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, lists))
	if err != nil {
		return nil, fmt.Errorf("kinds of objects: %w", err)
	}
	c.kinds = slices.DeleteFunc(slices.Collect(maps.Keys(removable)), func(kind schema.GroupVersionResource) bool {
		return slices.Contains(ownKinds, kind.Resource)
	})
	if err := c.each(ctx, func(_ schema.GroupVersionResource, o *metav1.PartialObjectMetadata) error {
		c.known[o.UID] = true
		return nil
	}); err != nil {
		return nil, err
	}
	c.files = c.found()
	c.node, err = client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	return c, err
}

// each calls do for each object of the cluster.
func (c *Contents) each(ctx context.Context, do func(schema.GroupVersionResource, *metav1.PartialObjectMetadata) error) error {
	for _, kind := range c.kinds {
		list, err := c.objects.Resource(kind).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			err = errors.Join(err, do(kind, &list.Items[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// found returns the files directly in the directories.
func (c *Contents) found() (files []string) {
	for _, dir := range c.dirs {
		in, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is right
		files = append(files, in...)
	}
	return files
}

// Restore removes what has been made in the cluster since: objects of any kind, changes of the Node, and files. The kubelet
// ends the pods, if it runs.
func (c *Contents) Restore(ctx context.Context, kubeletRuns bool) error {
	for {
		left, err := c.remove(ctx, kubeletRuns)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			break
		}
		if err := stack.Pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("still there: %s: %w", strings.Join(left, ", "), err)
		}
	}
	namespaces, err := c.client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range namespaces.Items { // the API server has no call for those of all namespaces
		if err := c.client.CoreV1().Events(n.Name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("delete events of namespace %s: %w", n.Name, err)
		}
	}
	for _, file := range c.found() {
		if !slices.Contains(c.files, file) {
			if err := os.RemoveAll(file); err != nil {
				return err
			}
		}
	}
	return c.restoreNode(ctx)
}

// remove deletes objects that are not known and returns which were still there.
func (c *Contents) remove(ctx context.Context, kubeletRuns bool) (left []string, err error) {
	err = c.each(ctx, func(kind schema.GroupVersionResource, o *metav1.PartialObjectMetadata) error {
		if c.known[o.UID] {
			return nil
		}
		left = append(left, strings.Trim(kind.Resource+" "+o.Namespace+"/"+o.Name, "/"))
		if kind.Resource == "pods" {
			pod, err := c.client.CoreV1().Pods(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
			if err != nil {
				return gone(err)
			}
			if !kubeletRuns || pod.Spec.NodeName != c.node.Name {
				return c.forget(ctx, pod)
			}
		}
		if o.DeletionTimestamp != nil || metav1.GetControllerOf(o) != nil {
			return nil // the garbage collector deletes it
		}
		background := metav1.DeletePropagationBackground
		options := metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions(string(o.UID))}
		if kind.Resource == "pods" {
			options.GracePeriodSeconds = new(int64(1))
		}
		return gone(c.objects.Resource(kind).Namespace(o.Namespace).Delete(ctx, o.Name, options))
	})
	return left, err
}

// forget deletes a pod that no kubelet ends.
func (c *Contents) forget(ctx context.Context, pod *v1.Pod) error {
	pods := c.client.CoreV1().Pods(pod.Namespace)
	if len(pod.Finalizers) > 0 {
		if _, err := pods.Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); gone(err) != nil {
			return err
		}
	}
	return gone(pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

// gone returns the error of a request about an object unless it says that the object is gone, or another by now.
func gone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// restoreNode takes from the Node what was not there.
func (c *Contents) restoreNode(ctx context.Context) error {
	nodes, was := c.client.CoreV1().Nodes(), c.node
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(ctx, was.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Labels, node.Annotations = was.Labels, was.Annotations
		node.Spec.Taints, node.Spec.Unschedulable = was.Spec.Taints, was.Spec.Unschedulable
		if node, err = nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(condition v1.NodeCondition) bool {
			return !slices.ContainsFunc(was.Status.Conditions, func(w v1.NodeCondition) bool { return w.Type == condition.Type })
		})
		_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		return err
	})
}
