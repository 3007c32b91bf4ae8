// Package kubeapi accesses the API server for one node: pods and their status, evictd's ConfigMap,
// events and reviews of permissions.
//
// It knows neither what runs (host/internal/cluster/podsource) nor when a pod is evicted
// (host/internal/core/victim).
package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/ground/kubeconfig"
)

const (
	// queriesPerSecond and burst are far above what a node needs: they protect the API server from a bug.
	queriesPerSecond, burst = 20, 50
	// writeTimeout bounds a write. It takes milliseconds, or seconds with a slow etcd.
	writeTimeout = 10 * time.Second
	// nodesPerPage bounds the nodes of one answer. Each goneEvery a deleted object is looked for.
	nodesPerPage, goneEvery = 100, time.Second
	// fieldManager is the name of the writer in the API server.
	fieldManager = "evictd"
)

// Options configures the account and the node.
type Options struct {
	// Kubeconfig is the path of a kubeconfig, "" for the ServiceAccount of this process's pod. Both
	// are read again when replaced.
	Kubeconfig string
	NodeName   string
	UserAgent  string
	Log        *slog.Logger

	wanted *atomic.Pointer[pods.Wanted]
}

// A Client is safe for concurrent use. Its errors are the API server's (apierrors), or say why the
// request could not be sent.
type Client struct {
	options Options

	mu     sync.Mutex
	with   credentials
	unread string // why the present kubeconfig is not used, empty if it is
}

// credentials holds the clients of one account, and the file they were read from.
type credentials struct {
	file         fs.FileInfo // of the kubeconfig, nil for a ServiceAccount
	core, review rest.Interface
	tokens       rest.Interface
}

// New returns a client. The error reports an invalid kubeconfig. It sends no request.
func New(o Options) (*Client, error) {
	o.wanted = &atomic.Pointer[pods.Wanted]{}
	with, err := o.credentials()
	if err != nil {
		return nil, err
	}
	return &Client{options: o, with: with}, nil
}

// Want sets the labels and annotations of pods to keep, none but evictd's own at first.
func (c *Client) Want(w *pods.Wanted) { c.options.wanted.Store(w) }

func (o Options) credentials() (credentials, error) {
	config, file, err := o.restConfig()
	if err != nil {
		return credentials{}, err
	}
	config.QPS, config.Burst, config.UserAgent = queriesPerSecond, burst, o.UserAgent
	config.AcceptContentTypes, config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/json"
	core, errCore := o.clientFor(config, v1.SchemeGroupVersion, "/api")
	review, errReview := o.clientFor(config, authorizationv1.SchemeGroupVersion, "/apis")
	tokens, errTokens := o.clientFor(config, authenticationv1.SchemeGroupVersion, "/apis")
	return credentials{file: file, core: core, review: review, tokens: tokens}, errors.Join(errCore, errReview, errTokens)
}

func (o Options) restConfig() (*rest.Config, fs.FileInfo, error) {
	if o.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, nil, fmt.Errorf("no kubeconfig is given and there is no ServiceAccount here: %w", err)
		}
		return config, nil, nil
	}
	file, err := os.Stat(o.Kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	config, err := kubeconfig.Read(o.Kubeconfig)
	return config, file, err
}

// codecs is made when a client is: plugins that are in the same program have none.
var codecs = sync.OnceValue(func() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, authorizationv1.AddToScheme, authenticationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two types with one name: a bug
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return serializer.NewCodecFactory(scheme)
})

var parameters = runtime.NewParameterCodec(func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, v1.SchemeGroupVersion)
	return scheme
}())

func (o Options) clientFor(config *rest.Config, of schema.GroupVersion, path string) (rest.Interface, error) {
	own := rest.CopyConfig(config)
	own.GroupVersion, own.APIPath = &of, path
	own.NegotiatedSerializer = bounded{serializer.WithoutConversionCodecFactory{CodecFactory: codecs()}, o.wanted}
	return rest.RESTClientFor(own)
}

// current returns the present credentials. It reads a replaced kubeconfig again; client-go follows
// the files that it names and a ServiceAccount's token. A kubeconfig that cannot be read now is
// ignored: it may be half written.
func (c *Client) current() credentials {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.with.file != nil && replaced(c.options.Kubeconfig, c.with.file) {
		with, err := c.options.credentials()
		switch {
		case err == nil:
			c.with, c.unread = with, ""
		case err.Error() != c.unread:
			c.unread = err.Error()
			c.options.Log.Warn("kubeconfig was replaced and cannot be used, the former one is", "kubeconfig", c.options.Kubeconfig, "error", err)
		}
	}
	return c.with
}

func replaced(path string, was fs.FileInfo) bool {
	is, err := os.Stat(path)
	return err == nil && (!os.SameFile(is, was) || is.Size() != was.Size() || !is.ModTime().Equal(was.ModTime()))
}

// PatchPodStatus patches the status of a pod, and annotations and labels in the same body, by
// strategic merge. With dryRun the API server checks everything and writes nothing. The caller sets
// the timeout: webhooks may take long.
func (c *Client) PatchPodStatus(ctx context.Context, namespace, name string, body []byte, dryRun bool) (*v1.Pod, error) {
	options := metav1.PatchOptions{FieldManager: fieldManager}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	pod := &v1.Pod{}
	err := ofPods(c.current().core.Patch(types.StrategicMergePatchType)).Namespace(namespace).Name(name).SubResource("status").
		VersionedParams(&options, parameters).Body(body).Do(ctx).Into(pod)
	return pod, err
}

// DeletePod deletes the pod with this uid, with a grace period. The caller sets the timeout.
func (c *Client) DeletePod(ctx context.Context, namespace, name string, uid types.UID, graceSeconds int64) error {
	options := &metav1.DeleteOptions{GracePeriodSeconds: &graceSeconds, Preconditions: &metav1.Preconditions{UID: &uid}}
	return c.current().core.Delete().Namespace(namespace).Resource("pods").Name(name).Body(options).MaxRetries(0).Do(ctx).Error()
}

// CreateEvent creates an event. The caller sets the timeout.
func (c *Client) CreateEvent(ctx context.Context, event *v1.Event) error {
	return c.current().core.Post().Namespace(event.Namespace).Resource("events").Body(event).MaxRetries(0).Do(ctx).Error()
}

// PatchNode patches the node, or a subresource of it, by strategic merge.
func (c *Client) PatchNode(ctx context.Context, subresource string, body []byte) (*v1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	request := c.current().core.Patch(types.StrategicMergePatchType).Resource("nodes").Name(c.options.NodeName)
	if subresource != "" {
		request = request.SubResource(subresource)
	}
	node := &v1.Node{}
	err := request.VersionedParams(&metav1.PatchOptions{FieldManager: fieldManager}, parameters).Body(body).Do(ctx).Into(node)
	return node, err
}

// KubeletVersion returns the version that the node's kubelet reports in the Node's status.
func (c *Client) KubeletVersion(ctx context.Context) (string, error) {
	node, err := c.Node(ctx)
	return node.Status.NodeInfo.KubeletVersion, err
}

// Node returns the node, an empty one with an error.
func (c *Client) Node(ctx context.Context) (*v1.Node, error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	node := &v1.Node{}
	err := c.current().core.Get().Resource("nodes").Name(c.options.NodeName).Do(ctx).Into(node)
	return node, err
}

// Of returns a client of the same account for another node.
func (c *Client) Of(node string) *Client {
	o := c.options
	o.NodeName = node
	return &Client{options: o, with: c.current()}
}

// EachNode calls do with the nodes of the cluster, page by page, until one returns an error.
func (c *Client) EachNode(ctx context.Context, do func(*v1.Node) error) error {
	for page := (metav1.ListOptions{Limit: nodesPerPage}); ; {
		nodes := &v1.NodeList{}
		if err := c.current().core.Get().Resource("nodes").VersionedParams(&page, parameters).Do(ctx).Into(nodes); err != nil {
			return fmt.Errorf("list nodes: %w", err)
		}
		for i := range nodes.Items {
			if err := do(&nodes.Items[i]); err != nil {
				return err
			}
		}
		if page.Continue = nodes.Continue; page.Continue == "" {
			return nil
		}
	}
}

// DeleteDaemonSet deletes a DaemonSet with its pods, and waits until all are gone.
func (c *Client) DeleteDaemonSet(ctx context.Context, namespace, name string) error {
	path := []string{"/apis/apps/v1/namespaces", namespace, "daemonsets", name}
	err := c.current().core.Delete().AbsPath(path...).Body(&metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}).Do(ctx).Error()
	for err == nil {
		select {
		case <-time.After(goneEvery):
			err = c.current().core.Get().AbsPath(path...).Do(ctx).Error()
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete DaemonSet %s/%s: %w", namespace, name, err)
	}
	return nil
}

// SelfSubjectAccessReview asks whether this account may do verb to a resource, with its group after
// a dot unless it is core, in all namespaces if namespace is "". List and watch of pods means those
// that this client requests. The reason may be "".
func (c *Client) SelfSubjectAccessReview(ctx context.Context, verb, resource, subresource, namespace string) (allowed bool, reason string, err error) {
	of := schema.ParseGroupResource(resource)
	about := &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: of.Group, Resource: of.Resource, Subresource: subresource}
	if resource == "pods" && (verb == "list" || verb == "watch") { // a node may do this for its own pods only
		about.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Key: podNode, Operator: metav1.FieldSelectorOpIn, Values: []string{c.options.NodeName}},
		}}
	}
	if resource == "nodes" { // likewise its own
		about.Name = c.options.NodeName
	}
	asked := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: about}}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	answered := &authorizationv1.SelfSubjectAccessReview{}
	err = c.current().review.Post().Resource("selfsubjectaccessreviews").Body(asked).Do(ctx).Into(answered)
	return answered.Status.Allowed, strings.TrimSpace(answered.Status.Reason + " " + answered.Status.EvaluationError), err
}

// TokenReview returns the user of a token, nil if the token is not valid.
func (c *Client) TokenReview(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	asked, answered := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, &authenticationv1.TokenReview{}
	err := c.current().tokens.Post().Resource("tokenreviews").Body(asked).Do(ctx).Into(answered)
	if err != nil || !answered.Status.Authenticated {
		return nil, err
	}
	return &answered.Status.User, nil
}

// SubjectAccessReview asks whether a user may do verb to a non-resource path.
func (c *Client) SubjectAccessReview(ctx context.Context, user authenticationv1.UserInfo, verb, path string) (allowed bool, err error) {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	asked := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}}
	answered := &authorizationv1.SubjectAccessReview{}
	err = c.current().review.Post().Resource("subjectaccessreviews").Body(asked).Do(ctx).Into(answered)
	return answered.Status.Allowed && !answered.Status.Denied, err
}
