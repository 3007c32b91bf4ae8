package kubeapi

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// podNode is the field with the name of a pod's node.
const podNode = "spec.nodeName"

// ListPods lists the node's pods.
func (c *Client) ListPods(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list := &v1.PodList{}
	err := c.current().core.Get().Resource("pods").VersionedParams(c.ofNode(options), parameters).Do(ctx).Into(list)
	return list, err
}

// WatchPods watches the node's pods.
func (c *Client) WatchPods(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return c.current().core.Get().Resource("pods").VersionedParams(c.ofNode(options), parameters).Watch(ctx)
}

// ofNode selects the pods of this node: node credentials permit no others, and a large cluster has
// many.
func (c *Client) ofNode(options metav1.ListOptions) *metav1.ListOptions {
	options.FieldSelector = fields.OneTermEqualSelector(podNode, c.options.NodeName).String()
	return &options
}
