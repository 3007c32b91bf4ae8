package kubeapi

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// podNode is the field with the name of a pod's node.
const podNode = "spec.nodeName"

// ListPods lists the node's pods.
func (c *Client) ListPods(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	body, err := ofPods(c.current().core.Get()).VersionedParams(c.ofNode(options), parameters).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it has been read
	list, err := readPods(body, c.options.wanted.Load(), func(bytes uint64) {
		c.options.Log.Warn("pod in the API server is too large and left out", "bytes", bytes, "wantAtMost", maxPodBytes)
	})
	if err != nil {
		return nil, fmt.Errorf("read the list of pods: %w", err)
	}
	return list, nil
}

// WatchPods watches the node's pods.
func (c *Client) WatchPods(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return ofPods(c.current().core.Get()).VersionedParams(c.ofNode(options), parameters).Watch(ctx)
}

// ofPods makes a request one about pods, of which only protobuf is decoded. The caller repeats it: client-go
// repeats requests in step on all nodes, after exactly Retry-After.
func ofPods(request *rest.Request) *rest.Request {
	return request.Resource("pods").SetHeader("Accept", runtime.ContentTypeProtobuf).MaxRetries(0)
}

// ofNode selects the pods of this node: its credentials permit no others, and a cluster has many.
func (c *Client) ofNode(options metav1.ListOptions) *metav1.ListOptions {
	options.FieldSelector = fields.OneTermEqualSelector(podNode, c.options.NodeName).String()
	return &options
}

// A ConfigMap names a ConfigMap to follow.
type ConfigMap struct {
	Namespace, Name string
	// Selector is a label selector. Without these labels the ConfigMap counts as gone.
	Selector string
	// Changed is called with its data at first and after each change; the next one waits for it.
	Changed func(ctx context.Context, data map[string]string)
}

// FollowConfigMap watches a ConfigMap until ctx ends. One that is gone changes nothing.
func (c *Client) FollowConfigMap(ctx context.Context, of ConfigMap) {
	request := func(options metav1.ListOptions) *rest.Request {
		options.FieldSelector, options.LabelSelector = fields.OneTermEqualSelector("metadata.name", of.Name).String(), of.Selector
		return c.current().core.Get().Namespace(of.Namespace).Resource("configmaps").VersionedParams(&options, parameters).MaxRetries(0)
	}
	requests := Spread(cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list := &v1.ConfigMapList{}
			err := request(options).Do(ctx).Into(list)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			return request(options).Watch(ctx)
		},
	}, func(error) {})
	changed := func(object any) error { //nolint:unparam // as a store has it
		of.Changed(ctx, object.(*v1.ConfigMap).Data)
		return nil
	}
	store := &cache.FakeCustomStore{AddFunc: changed, UpdateFunc: changed, ReplaceFunc: func(objects []any, _ string) error {
		for _, object := range objects {
			_ = changed(object) // returns none
		}
		return nil
	}}
	cache.NewReflectorWithOptions(requests, &v1.ConfigMap{}, store, ReflectorOptions("configmaps", c.options.Log)).RunWithContext(ctx)
}
