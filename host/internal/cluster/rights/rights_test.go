package rights_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evictd/evictd/host/internal/cluster/rights"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/harness/fence"
)

// api is an API server that withholds verbs, separated by commas, and answers patches by pod.
type api struct {
	withheld string // such as "patch pods/status"
	broken   error
	answers  map[string]error // of an eviction, by the pod's name
	open     bool             // anything may be written of a pod
	silent   error            // of a write that is no eviction
	tried    []string
}

func (a *api) SelfSubjectAccessReview(_ context.Context, verb, resource, subresource, namespace string) (bool, string, error) {
	if namespace != "" {
		return false, "", fmt.Errorf("asked for namespace %q only", namespace)
	}
	name := verb + " " + resource
	if subresource != "" {
		name += "/" + subresource
	}
	return !slices.Contains(strings.Split(a.withheld, ","), name), "", a.broken
}

func (a *api) PatchPodStatus(_ context.Context, _, name string, body []byte, dryRun bool) (*v1.Pod, error) {
	if !dryRun {
		return nil, errors.New("that was no dry run")
	}
	a.tried = append(a.tried, name)
	if !strings.Contains(string(body), "Evicted") && !a.open {
		if a.silent != nil {
			return nil, a.silent
		}
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("denied"))
	}
	return &v1.Pod{}, a.answers[name]
}

func pod(name string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "0f"}, Status: v1.PodStatus{Phase: v1.PodRunning}}
	for _, c := range change {
		c(p)
	}
	return p
}

func evict(p *v1.Pod) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": map[string]any{"reason": "Evicted"}})
}

func denied(message string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web", errors.New(message))
}

func TestWhatIsSaidOfTheRights(t *testing.T) {
	web := []*v1.Pod{pod("web")}
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", nil)
	for name, c := range map[string]struct {
		api            *api
		pods           []*v1.Pod
		errs, warnings []string
		tried          string
		taints         bool
		reviews        bool
		observe        bool
	}{
		"an observer without rights to evict": {api: &api{withheld: "patch pods/status,delete pods"}, pods: web, observe: true},
		"an observer with rights to evict": {
			api: &api{}, pods: web, observe: true,
			warnings: []string{"patch pods/status is allowed, and observe: true needs no right to it", "delete pods is allowed, and observe: true needs no right to it"},
		},
		"an observer that cannot list pods": {
			api: &api{withheld: "list pods,patch pods/status,delete pods"}, pods: web, observe: true,
			errs: []string{"list pods is not allowed: no pod is known, and none evicted; want the role of deploy/rbac"},
		},
		"all is well": {api: &api{}, pods: web, tried: "web web"},
		"pods cannot be listed": {
			api:      &api{withheld: "list pods"},
			errs:     []string{"list pods is not allowed: no pod is known, and none evicted; want the role of deploy/rbac"},
			warnings: []string{noPods},
		},
		"pods cannot be watched": {
			api:      &api{withheld: "watch pods"},
			errs:     []string{"watch pods is not allowed: no pod is known, and none evicted; want the role of deploy/rbac"},
			warnings: []string{noPods},
		},
		"evictions cannot be told": {
			api: &api{withheld: "patch pods/status", answers: map[string]error{"web": denied(`User "x" cannot patch resource "pods/status"`)}}, pods: web, tried: "web",
			errs: []string{
				"patch pods/status is not allowed: evictions are not reported, and the kubelet restarts the containers that evictd stops; want the role of deploy/rbac",
				`evict pod shop/web, as a dry run: pods "web" is forbidden: User "x" cannot patch resource "pods/status"`,
			},
		},
		"events cannot be made": {
			api: &api{withheld: "create events"}, pods: web, tried: "web web",
			warnings: []string{"create events is not allowed: evictions are in the log and in /status, and no event tells of them"},
		},
		"events cannot be repeated": {
			api: &api{withheld: "patch events"}, pods: web, tried: "web web",
			warnings: []string{"patch events is not allowed: an event that is repeated is not counted"},
		},
		"the token is another node's": {
			api: &api{answers: map[string]error{"web": denied("the pod is on node a, and the token is bound to b")}}, pods: append(web, pod("db")), tried: "web",
			errs: []string{`evict pod shop/web, as a dry run: pods "web" is forbidden: the pod is on node a, and the token is bound to b`},
		},
		"no policy": {
			api: &api{open: true}, pods: web, tried: "web web",
			warnings: []string{"the account may write more of a pod than an eviction: deploy/rbac/policy.yaml is not in force, or the credentials are others than those it is about, such as the node's"},
		},
		"a pod that goes meanwhile": {
			api:  &api{answers: map[string]error{"web": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web"), "db": invalid}},
			pods: append(web, pod("db"), pod("last")), tried: "web db last last",
		},
		"pods that may not go": {
			api: &api{}, tried: "web web",
			pods: []*v1.Pod{
				pod("static", func(p *v1.Pod) { p.Annotations = map[string]string{"kubernetes.io/config.mirror": "0f"} }),
				pod("critical", func(p *v1.Pod) { p.Spec.Priority = new(int32(2000000000)) }),
				pod("deleted", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
				pod("failed", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }),
				pod("ended", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
				pod("web"),
			},
		},
		"nobody knows whether the policy is in force": {
			api: &api{silent: errors.New("connection reset")}, pods: web, tried: "web web",
			warnings: []string{"whether deploy/rbac/policy.yaml is in force was not found out: connection reset"},
		},
		"pods cannot be deleted, and need not":       {api: &api{withheld: "delete pods"}, pods: web, tried: "web web"},
		"conditions cannot be written, and need not": {api: &api{withheld: "patch nodes/status"}, pods: web, tried: "web web"},
		"conditions cannot be written": {
			api: &api{withheld: "patch nodes/status"}, pods: web, tried: "web web", taints: true,
			warnings: []string{"patch nodes/status is not allowed: nodeConditions writes no condition; want deploy/rbac/node-conditions.yaml"},
		},
		"who reads metrics cannot be asked, and need not": {api: &api{withheld: "create tokenreviews.authentication.k8s.io"}, pods: web, tried: "web web"},
		"who reads metrics cannot be asked": {
			api: &api{withheld: "create tokenreviews.authentication.k8s.io"}, pods: web, tried: "web web", reviews: true,
			warnings: []string{"create tokenreviews.authentication.k8s.io is not allowed: requests to metricsBindAddress from other machines are refused; want deploy/rbac/metrics.yaml"},
		},
		"taints cannot be written": {
			api: &api{withheld: "patch nodes"}, pods: web, tried: "web web", taints: true,
			warnings: []string{"patch nodes is not allowed: nodeConditions writes no taint; want deploy/rbac/node-conditions.yaml"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			errs, warnings := rights.Check(t.Context(), rights.Options{API: c.api, Node: "node-1", Pods: c.pods, Patch: evict, Conditions: c.taints, Taints: c.taints, Reviews: c.reviews, Observe: c.observe})
			var texts []string
			for _, err := range errs {
				texts = append(texts, err.Error())
			}
			if diff := cmp.Diff(c.errs, texts); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if got := strings.Join(c.api.tried, " "); got != c.tried {
				t.Errorf("tried %q, want %q", got, c.tried)
			}
		})
	}
}

func TestAnAPIServerThatIsAwayIsAnError(t *testing.T) {
	errs, _ := rights.Check(t.Context(), rights.Options{API: &api{broken: errors.New("connection refused")}, Patch: evict})
	if len(errs) != 6 || errs[2].Error() != "ask whether patch pods/status is allowed: connection refused" {
		t.Errorf("%v", errs)
	}
}

const noPods = `nodeName: "node-1": the API server tells of no pod of this node, and no eviction was tried: want the name of its Node object, as kubectl get nodes has it`

// The admission policy knows evictd's messages by how they begin. With others all
// evictions for that reason would be denied, and nobody would see before it is needed.
func TestTheTableOfWritesHasTheMessagesOfEvictions(t *testing.T) {
	gi := resource.MustParse("1Gi")
	p := pod("web", func(p *v1.Pod) {
		limit := v1.ResourceList{v1.ResourceEphemeralStorage: gi}
		p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Limits: limit}}}
		p.Spec.Volumes = []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &gi}}}}
	})
	much := eviction.Figure{Value: 2 << 30, OK: true}
	low := policy.Threshold{Signal: eviction.MemoryAvailable, Value: policy.Value{Quantity: gi}}
	message, _ := policy.Message(true, p, low, eviction.Observation{Available: 900 << 20, Capacity: 16 << 30}, eviction.Measurement{})
	messages := []string{message}
	for _, m := range []eviction.Measurement{
		{Volumes: []eviction.VolumeMeasurement{{Name: "cache", UsedBytes: much}}},
		{EphemeralStorageUsedBytes: much},
		{Containers: []eviction.ContainerMeasurement{{Name: "main", LogsUsedBytes: much}}},
	} {
		m.State = eviction.Measured
		v, over := policy.CheckLocalLimits(p, m, eviction.LayoutShared, policy.LocalRules{})
		if !over {
			t.Fatalf("%+v is over no limit", m)
		}
		messages = append(messages, v.Message)
	}
	for _, message := range messages {
		text, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, w := range fence.Pods() {
			found = found || w.Refused == "" && strings.Contains(w.Body, string(text))
		}
		if !found {
			t.Errorf("no eviction of the table has the message %s", text)
		}
	}
}

// The inspection of a running daemon asked for the rights that the daemon uses all the time.
func TestADaemonIsNotAskedForWhatItRequestsAnyway(t *testing.T) {
	for running, want := range map[bool]int{false: 6, true: 3} {
		errs, _ := rights.Check(t.Context(), rights.Options{API: &api{broken: errors.New("connection refused")}, Patch: evict, Running: running})
		if len(errs) != want {
			t.Errorf("running %t: %d reviews, want %d: %v", running, len(errs), want, errs)
		}
	}
}
