package kubernetes_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// maxAnnotationBytes is the API server's limit for keys and values together.
const maxAnnotationBytes = 256 << 10

// A shield is something by which a pod might keep evictd from evicting it.
type shield struct {
	name  string
	raise func(t *testing.T, c *cluster.Cluster, pod *v1.Pod)
	// within bounds the time until the kubelet has to end the pod.
	within time.Duration
	// deleted: the pod is deleted, and not marked as evicted.
	deleted, nightly bool
}

// Whatever its owner, or a webhook, does to a pod: it is stopped at once, and the kubelet does not start it again for ever.
func TestNoPodIsImmune(t *testing.T) {
	kubelet := narrow(t)
	c := start(t, cluster.Options{Kubelet: kubelet})
	calm := deploy(t, c, "calm", sleeper())
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		evictShielded(t, c, calm, nil, shield{name: "the kubelet alone, of full annotations", raise: annotateFully, within: maxWait})
	}

	config := map[string]any{
		"mode": "kubernetes", "kubeconfig": account(t, c), "evictionPressureTransitionPeriod": "1s",
		"evictionHard": leaveToEvictd(t, c, kubelet), "runDir": filepath.Join(c.Dir, "evictd-run"),
	}
	letDelete(t, c)
	p := startEvictd(t, c, config)
	for _, s := range []shield{
		{name: "full annotations", raise: annotateFully, within: 10 * time.Second},
		{name: "65,000 annotations", raise: annotateOften, within: 45 * time.Second, nightly: true}, // a second for each write of such a pod
		{name: "marked by its owner", raise: mark, within: 10 * time.Second, nightly: true},
		{name: "a policy that lets no condition be added", raise: limitConditions, within: 10 * time.Second},
		{name: "a webhook that refuses", raise: webhook(0), within: 100 * time.Second, deleted: true, nightly: true},
		{name: "a webhook that hangs", raise: webhook(time.Minute), within: 150 * time.Second, deleted: true, nightly: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			if s.nightly && os.Getenv("EVICTD_NIGHTLY") == "" {
				t.Skip("its minutes are part of make nightly")
			}
			evictShielded(t, c, calm, p, s)
		})
	}
	must(t, p.Stop())
}

// evictShielded lets a hog with a shield cross the threshold and waits for its end.
func evictShielded(t *testing.T, c *cluster.Cluster, calm *v1.Pod, p *evictd.Process, s shield) {
	t.Helper()
	app := "immune-" + strconv.FormatInt(time.Now().UnixMilli(), 36)
	spec, station := newHog(t, c, app, 1536)
	hog := deploy(t, c, app, spec)
	awaitMeasured(soon(t), t, c, calm, hog)
	s.raise(t, c, hog)
	hog, err := c.Client.CoreV1().Pods(hog.Namespace).Get(t.Context(), hog.Name, metav1.GetOptions{})
	must(t, err)
	began := time.Now()
	must(t, station.Release(soon(t)))
	must(t, (&scene{Cluster: c, t: t, hog: hog}).hogEnded())
	stopped := time.Since(began)
	ctx := soon(t)
	if s.within > maxWait {
		ctx = t.Context()
	}
	_, err = c.AwaitPod(ctx, hog.Namespace, "", func(pod *v1.Pod) (bool, error) { // the replacement: its owner knows
		return pod.Labels["app"] == app && pod.UID != hog.UID, nil
	})
	must(t, err)
	took := time.Since(began)
	t.Logf("  %-45s stopped after %5.1f s, given up by its owner after %5.1f s", s.name, stopped.Seconds(), took.Seconds())
	if took > s.within {
		t.Errorf("took %v, want at most %v", took, s.within)
	}
	if p != nil {
		awaitEvent(soon(t), t, c, hog, "Evicted")
		spared(t, c, calm, p)
	}
	if !s.deleted {
		const key = "evictd.io/evicted" // another value than the owner's
		victim := awaitPod(soon(t), t, c, app, func(pod *v1.Pod) bool { return pod.UID == hog.UID && ended(pod) })
		if victim.Status.Phase != v1.PodFailed || p != nil && victim.Annotations[key] == hog.Annotations[key] && victim.Labels[key] == hog.Labels[key] {
			t.Errorf("pod %s is %s, labels %v", victim.Name, victim.Status.Phase, victim.Labels)
		}
	}
	_, err = c.Kubectl(soon(t), "", "delete", "deployment", app, "--cascade=foreground", "--wait")
	must(t, err)
}

func annotateFully(t *testing.T, c *cluster.Cluster, pod *v1.Pod) {
	t.Helper()
	used := len("pad")
	for key, value := range pod.Annotations {
		used += len(key) + len(value)
	}
	annotate(t, c, pod, map[string]string{"pad": strings.Repeat("x", maxAnnotationBytes-used-20)})
}

func annotateOften(t *testing.T, c *cluster.Cluster, pod *v1.Pod) {
	t.Helper()
	many := map[string]string{}
	for i := range 65000 {
		many[strconv.FormatInt(int64(i), 36)] = ""
	}
	annotate(t, c, pod, many)
}

// mark marks a pod like evictd does, for a time to come.
func mark(t *testing.T, c *cluster.Cluster, pod *v1.Pod) {
	t.Helper()
	write(t, c, pod, map[string]any{
		"annotations": map[string]string{"evictd.io/evicted": "2030-01-01T00:00:00Z"}, "labels": map[string]string{"evictd.io/evicted": "20300101T000000.000000000Z"},
	})
}

func annotate(t *testing.T, c *cluster.Cluster, pod *v1.Pod, annotations map[string]string) {
	t.Helper()
	write(t, c, pod, map[string]any{"annotations": annotations})
}

func write(t *testing.T, c *cluster.Cluster, pod *v1.Pod, metadata map[string]any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	must(t, err)
	_, err = c.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, body, metav1.PatchOptions{})
	must(t, err)
}

// shielded are the writes that a shield refuses: evictd's, and those that look whether it is in force.
const shielded = `request.userInfo.username in ['system:serviceaccount:evictd:evictd', 'prober']`

// awaitShield waits until a condition more is refused.
func awaitShield(t *testing.T, c *cluster.Cluster, pod *v1.Pod) {
	t.Helper()
	config, err := c.Config(cluster.Admin)
	must(t, err)
	config.Impersonate.UserName, config.Impersonate.Groups = "prober", []string{"system:masters"}
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	for ctx := soon(t); err == nil; {
		_, err = client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType,
			[]byte(`{"status": {"conditions": [{"type": "example.com/Probed", "status": "True"}]}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		must(t, ctx.Err())
	}
}

func limitConditions(t *testing.T, c *cluster.Cluster, pod *v1.Pod) {
	t.Helper()
	registration, meta := c.Client.AdmissionregistrationV1(), metav1.ObjectMeta{Name: "conditions"}
	_, err := registration.ValidatingAdmissionPolicies().Create(t.Context(), &registrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: registrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &registrationv1.MatchResources{ResourceRules: []registrationv1.NamedRuleWithOperations{{RuleWithOperations: statusUpdates()}}},
			MatchConditions:  []registrationv1.MatchCondition{{Name: "evictd", Expression: shielded}},
			Validations:      []registrationv1.Validation{{Expression: "size(object.status.conditions) <= size(oldObject.status.conditions)", Message: "no condition more"}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = registration.ValidatingAdmissionPolicyBindings().Create(t.Context(), &registrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: meta,
		Spec:       registrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: meta.Name, ValidationActions: []registrationv1.ValidationAction{registrationv1.Deny}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, registration.ValidatingAdmissionPolicyBindings().Delete(context.Background(), meta.Name, metav1.DeleteOptions{}))
		must(t, registration.ValidatingAdmissionPolicies().Delete(context.Background(), meta.Name, metav1.DeleteOptions{}))
	})
	awaitShield(t, c, pod)
}

func statusUpdates() registrationv1.RuleWithOperations {
	return registrationv1.RuleWithOperations{
		Operations: []registrationv1.OperationType{registrationv1.Update},
		Rule:       registrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/status"}},
	}
}

// webhook refuses evictd's writes of a pod's status, after so long.
func webhook(after time.Duration) func(*testing.T, *cluster.Cluster, *v1.Pod) {
	return func(t *testing.T, c *cluster.Cluster, pod *v1.Pod) {
		t.Helper()
		end := make(chan struct{})
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			var review admissionv1.AdmissionReview
			if err != nil || json.Unmarshal(body, &review) != nil {
				http.Error(w, "no review", http.StatusBadRequest)
				return
			}
			select {
			case <-time.After(after):
			case <-r.Context().Done():
			case <-end:
			}
			review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{Message: "this pod stays"}}
			_ = json.NewEncoder(w).Encode(review) // the API server may be gone
		}))
		t.Cleanup(server.Close)
		t.Cleanup(func() { close(end) })
		none, fail, name := registrationv1.SideEffectClassNone, registrationv1.Fail, fmt.Sprintf("shield-%d", after/time.Second)
		hooks := c.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		_, err := hooks.Create(t.Context(), &registrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Webhooks: []registrationv1.ValidatingWebhook{{
				Name: "shield.example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
				ClientConfig: registrationv1.WebhookClientConfig{
					URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
				},
				Rules:           []registrationv1.RuleWithOperations{statusUpdates()},
				MatchConditions: []registrationv1.MatchCondition{{Name: "evictd", Expression: shielded}},
			}},
		}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() { must(t, hooks.Delete(context.Background(), name, metav1.DeleteOptions{})) })
		awaitShield(t, c, pod)
	}
}
