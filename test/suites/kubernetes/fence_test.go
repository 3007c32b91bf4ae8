package kubernetes_test

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"

	"github.com/evictd/evictd/test/harness/fence"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A real API server lets all writes of evictd pass and refuses all others, with tokens that
// are bound to a pod and to a node, although the account may do more by its role.
func TestTheAPIServerRefusesWhatIsNotEvictds(t *testing.T) {
	if os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("test/suites/admission shows the same by the API server's own code: part of make nightly")
	}
	c := start(t, cluster.Options{})
	account(t, c)
	must(t, c.Apply(t.Context(), "apiVersion: v1\nkind: Node\nmetadata: {name: "+fence.Node+"}\n"))
	rules := append(fence.Broad(), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"}, Verbs: []string{"patch", "delete"}})
	broad := metav1.ObjectMeta{Name: "broad"}
	_, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: broad, Rules: rules}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: broad, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "broad"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "evictd", Name: "evictd"}},
	}, metav1.CreateOptions{})
	must(t, err)

	s := &fenced{c: c, tokens: map[fence.Token]rest.Interface{}}
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), fence.Node, metav1.GetOptions{})
	must(t, err)
	s.tokens[fence.PodBound] = s.asker(t, "pod-bound", cluster.ToPod(s.holder(t, fence.Node)))
	s.tokens[fence.NodeBound] = s.asker(t, "node-bound", cluster.ToNode(node))
	s.tokens[fence.Unscheduled] = s.asker(t, "unscheduled", cluster.ToPod(s.holder(t, "")))
	s.tokens[fence.Unbound] = s.asker(t, "unbound", nil)
	s.awaitPolicies(t)

	t.Run("requests come among those of nodes", func(t *testing.T) { s.flow(t) })
	t.Run("pods", func(t *testing.T) { fence.Run(t, s, slices.Concat(fence.Pods(), fence.NoDeletions())) })
	t.Run("a write of a status has no managedFields", func(t *testing.T) { s.managed(t) })
	t.Run("events", func(t *testing.T) { fence.Run(t, s, fence.Events()) })
	t.Run("nodes", func(t *testing.T) { fence.Run(t, s, fence.Nodes()) })
	t.Logf("  %d writes tried", len(fence.Pods())+len(fence.NoDeletions())+len(fence.Events())+len(fence.Nodes()))
}

// managed fails the test if managedFields of others can be taken away by way of a pod's status: no policy refuses that.
func (s *fenced) managed(t *testing.T) {
	w := fence.Pods()[0]
	w.Body = strings.Replace(w.Body, `"metadata":{`, `"metadata":{"managedFields":[{}],`, 1)
	if err := fence.Ask(t, s, "fence-managed", w); err != nil {
		t.Error(err)
	}
	pod, err := s.c.Client.CoreV1().Pods(fence.Namespace).Get(t.Context(), "fence-managed", metav1.GetOptions{})
	must(t, err)
	if !slices.ContainsFunc(pod.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager != "evictd" }) {
		t.Errorf("managedFields %v, want those of others in them", pod.ManagedFields)
	}
}

// flow fails the test unless the API server takes a request of evictd's by its FlowSchema. It learns of a new one in a moment.
func (s *fenced) flow(t *testing.T) {
	t.Helper()
	schema, err := s.c.Client.FlowcontrolV1().FlowSchemas().Get(t.Context(), "evictd", metav1.GetOptions{})
	must(t, err)
	config, err := s.c.Config(cluster.Admin)
	must(t, err)
	config.Impersonate.UserName = fence.Username
	seen := ""
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil {
				seen = answer.Header.Get("X-Kubernetes-PF-FlowSchema-UID")
			}
			return answer, err
		})
	})
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	for ctx := soon(t); seen != string(schema.UID); {
		_, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
		must(t, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// fenced is the API server with the policies in force.
type fenced struct {
	c      *cluster.Cluster
	tokens map[fence.Token]rest.Interface
}

// holder is a pod for a token to be bound to, which nobody runs.
func (s *fenced) holder(t *testing.T, node string) *v1.Pod {
	t.Helper()
	pod, err := s.c.Client.CoreV1().Pods("evictd").Create(t.Context(), &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "holder-"},
		Spec: v1.PodSpec{
			ServiceAccountName: "evictd", NodeName: node, SchedulerName: "nobody",
			Containers: []v1.Container{{Name: "main", Image: "example.com/none:1"}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	return pod
}

func (s *fenced) asker(t *testing.T, name string, bound *authenticationv1.BoundObjectReference) rest.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", tokenOf(t, s.c, name, bound))
	must(t, err)
	config.QPS, config.UserAgent = -1, "evictd" // its manager in managedFields
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client.CoreV1().RESTClient()
}

// awaitPolicies waits until each of them refuses a write with a token that is bound to
// nothing: those that were just made take a moment to be in force.
func (s *fenced) awaitPolicies(t *testing.T) {
	t.Helper()
	ctx, client := soon(t), s.tokens[fence.Unbound]
	create := func(resource, body string) func() error {
		return func() error {
			return client.Post().Namespace(fence.Namespace).Resource(resource).SetHeader("Content-Type", "application/json").Body([]byte(body)).Do(ctx).Error()
		}
	}
	for policy, try := range map[string]func() error{
		"evictd-pods":   create("pods", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]}}`),
		"evictd-events": create("events", `{"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "x"}, "involvedObject": {"kind": "Pod", "namespace": "default"}}`),
		"evictd-nodes": func() error {
			return client.Patch(types.StrategicMergePatchType).Resource("nodes").Name(fence.Node).SubResource("status").Body([]byte("{}")).Do(ctx).Error()
		},
	} {
		for err := try(); err == nil || !strings.Contains(err.Error(), policy); err = try() {
			if ctx.Err() != nil {
				t.Fatalf("policy %s is not in force: %v", policy, err)
			}
		}
	}
}

// Have implements fence.API.
func (s *fenced) Have(t *testing.T, object fence.Object) types.UID {
	t.Helper()
	core, ctx := s.c.Client.CoreV1(), t.Context()
	object.SetResourceVersion("")
	switch object := object.(type) {
	case *v1.Pod:
		gone, status := object.DeletionTimestamp != nil, object.Status
		object.DeletionTimestamp, object.DeletionGracePeriodSeconds = nil, nil
		object.Spec.SchedulerName = "nobody"
		// The garbage collector deletes pods whose owner has another UID, and a pod that is being
		// deleted is deleted again without a question to the policies.
		object.OwnerReferences = nil
		made, err := core.Pods(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
		must(t, err)
		must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // controllers write it too
			now, err := core.Pods(object.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			now.Status = status
			_, err = core.Pods(object.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
			return err
		}))
		if gone {
			must(t, core.Pods(object.Namespace).Delete(ctx, object.Name, metav1.DeleteOptions{}))
		}
		return made.UID
	case *v1.Event:
		made, err := core.Events(object.Namespace).Create(ctx, object, metav1.CreateOptions{})
		must(t, err)
		return made.UID
	case *v1.Node:
		var uid types.UID
		// An object that was never applied, and has no managedFields, gets none by updates.
		_, err := core.Nodes().Apply(ctx, corev1.Node(object.Name).WithLabels(object.Labels), metav1.ApplyOptions{FieldManager: "labeler", Force: true})
		must(t, err)
		must(t, retry.RetryOnConflict(retry.DefaultRetry, func() error { // the node controllers write it too
			made, err := core.Nodes().Get(ctx, object.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			uid = made.UID
			made.Spec.Taints, made.Labels = object.Spec.Taints, object.Labels
			if made, err = core.Nodes().Update(ctx, made, metav1.UpdateOptions{}); err != nil {
				return err
			}
			made.Status.Conditions = object.Status.Conditions
			_, err = core.Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
			return err
		}))
		return uid
	}
	t.Fatalf("%T is none that can be made", object)
	return ""
}

// Write implements fence.API.
func (s *fenced) Write(t *testing.T, name string, w fence.Write) error {
	t.Helper()
	client := s.tokens[w.Token]
	var r *rest.Request
	switch w.Verb {
	case "patch":
		r = client.Patch(w.Patch)
	case "create":
		r = client.Post()
	case "delete":
		r = client.Delete()
	}
	r = r.Resource(w.Resource)
	if w.Resource != "nodes" {
		r = r.Namespace(fence.Namespace)
	}
	if w.Verb != "create" || w.Subresource != "" {
		r = r.Name(name)
	}
	if w.Subresource != "" {
		r = r.SubResource(w.Subresource)
	}
	if w.Body != "" {
		r = r.Body([]byte(w.Body))
	}
	if w.Verb == "create" {
		r = r.SetHeader("Content-Type", "application/json")
	}
	return r.Do(t.Context()).Error()
}
