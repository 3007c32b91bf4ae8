package fence

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The nodes that the table uses. They need not exist.
const (
	Node  = "node-a"
	Other = "node-b"
)

// Namespace is the namespace of all pods of the table.
const Namespace = "default"

// Username is the user name of evictd's account.
const Username = "system:serviceaccount:evictd:evictd"

// A Token selects the object to which a token of evictd's account is bound.
type Token int

// The tokens.
const (
	// PodBound is bound to a pod on Node, like that of a DaemonSet.
	PodBound Token = iota
	// NodeBound is bound to Node itself.
	NodeBound
	// Unscheduled is bound to a pod without a node.
	Unscheduled
	// Unbound is bound to nothing.
	Unbound
)

// An Object is a pod, an event or a node.
type Object interface {
	runtime.Object
	metav1.Object
}

// A Write is a request of evictd's account.
type Write struct {
	Name  string
	Token Token
	// Verb is "patch", "create" or "delete".
	Verb string
	// Resource is "pods", "events" or "nodes"; Subresource may be "".
	Resource, Subresource string
	// Was is the object before the write, nil for none. All but nodes get a unique name.
	Was Object
	// Patch is the type of the patch.
	Patch types.PatchType
	// Body is the request; UID and NAME in it stand for those of Was.
	Body string
	// Refused is a part of the refusal's text, "" if the write must pass.
	Refused string
	// Early: an API server refuses the write before it evaluates policies, with another text.
	Early bool
}

// An API is a server with the policies of deploy/rbac in force.
type API interface {
	// Have creates an object exactly as given, with its status, in any way; to set a deletion
	// timestamp, delete it while a finalizer keeps it. It returns the object's UID.
	Have(t *testing.T, object Object) types.UID
	// Write sends w and returns the API's refusal.
	Write(t *testing.T, name string, w Write) error
}

// Broad returns the rules to grant the account in addition to its own role, so that the policies
// and not RBAC refuse the writes.
func Broad() []rbac.PolicyRule {
	return []rbac.PolicyRule{{
		APIGroups: []string{""}, Verbs: []string{"create", "patch", "delete"},
		Resources: []string{"pods", "pods/status", "pods/resize", "pods/ephemeralcontainers", "pods/eviction", "pods/binding", "events"},
	}}
}

// Run tries writes at api.
func Run(t *testing.T, api API, writes []Write) {
	t.Helper()
	for i, w := range writes {
		t.Run(w.Name, func(t *testing.T) {
			err := Ask(t, api, fmt.Sprintf("fence-%s-%d-of-%d", w.Resource, i, len(writes)), w)
			switch {
			case w.Refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case w.Refused != "" && err == nil:
				t.Errorf("passed, want a refusal that says %q", w.Refused)
			case w.Refused != "" && !w.Early && !strings.Contains(err.Error(), w.Refused):
				t.Errorf("refused with %q, want %q", err, w.Refused)
			}
		})
	}
}

// Ask creates w.Was, under the given name unless it is a node, and returns the refusal of w.
func Ask(t *testing.T, api API, name string, w Write) error {
	t.Helper()
	var uid types.UID
	if w.Was != nil {
		object := w.Was.DeepCopyObject().(Object)
		if w.Resource != "nodes" {
			object.SetName(name)
		}
		name = object.GetName()
		uid = api.Have(t, object)
	}
	w.Body = strings.NewReplacer("UID", string(uid), "NAME", name).Replace(w.Body)
	return api.Write(t, name, w)
}

// pod returns a pod that runs on a node and may be evicted, after the given changes.
func pod(node string, change ...func(*v1.Pod)) *v1.Pod {
	began := metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: Namespace, Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"team": "a"},
			Finalizers: []string{"example.com/kept"}, Generation: 1,
		},
		Spec: v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "main", Image: "example.com/web:1"}}},
		Status: v1.PodStatus{
			Phase: v1.PodRunning, HostIP: "192.0.2.1", HostIPs: []v1.HostIP{{IP: "192.0.2.1"}},
			PodIP: "192.0.2.2", PodIPs: []v1.PodIP{{IP: "192.0.2.2"}}, StartTime: &began, QOSClass: v1.PodQOSBestEffort, ObservedGeneration: 1,
			Conditions: []v1.PodCondition{
				{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: began},
				{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: began},
			},
			ContainerStatuses: []v1.ContainerStatus{{
				Name: "main", Ready: true, Image: "example.com/web:1", ImageID: "sha256:1", ContainerID: "containerd://1",
				State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: began}},
			}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}
