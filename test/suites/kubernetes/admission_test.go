package kubernetes_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/stack"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// limitedClass is the API server's configuration on GKE.
const limitedClass = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - {resource: pods, matchScopes: [{scopeName: PriorityClass, operator: In, values: [system-node-critical]}]}
`

// A ruled namespace has one rule, which refuses the chart's pods with its default values.
type ruled struct {
	// labels are of the namespace, and objects are made in it.
	labels, objects string
	// policy is an expression that objects of resource must meet.
	resource, policy string
	// refused is part of the reason.
	refused string
	// values are those of the documents for this rule; "" stands for the command of the notes that labels the namespace.
	values string
}

const (
	quota = "resourceQuota.create=true"
	team  = "object.metadata.?labels['team'].hasValue()"
	each  = `(object.spec.containers + object.spec.?initContainers.orValue([])).all(c, ['cpu', 'memory', 'ephemeral-storage'].all(r,
      c.?resources.requests[r].hasValue() && c.?resources.limits[r].hasValue()))`
	local = "resources.requests.ephemeral-storage=64Mi,resources.limits.ephemeral-storage=64Mi"
	small = "apiVersion: v1\nkind: LimitRange\nmetadata: {name: small}\nspec: {limits: [{type: Container, max: {memory: 128Mi}}]}\n"
)

var rules = map[string]ruled{
	"restricted":   {labels: "pod-security.kubernetes.io/enforce: restricted", refused: `violates PodSecurity "restricted:latest"`},
	"baseline":     {labels: "pod-security.kubernetes.io/enforce: baseline", refused: `violates PodSecurity "baseline:latest"`},
	"quota":        {refused: "insufficient quota to match these scopes", values: quota},
	"resources":    {resource: "pods", policy: each, refused: "rule of resources", values: local},
	"labels":       {resource: "pods", policy: team, refused: "rule of labels", values: "podLabels.team=a"},
	"workloads":    {resource: "daemonsets", policy: team, refused: "rule of workloads", values: "commonLabels.team=a"},
	"smaller-pods": {objects: small, refused: "maximum memory usage per Container is 128Mi", values: "resources.requests.memory=128Mi,resources.limits.memory=128Mi"},
}

// An installation that the cluster refused had no pods, and nothing said so. Each rule is named by the command of the notes,
// and the documented value meets it, also for the Job of an uninstallation.
func TestTheChartOnAClusterWithRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admission.yaml")
	must(t, os.WriteFile(file, []byte(limitedClass), 0o600))
	c := start(t, cluster.Options{APIServer: []string{"--admission-control-config-file=" + file}})
	// A node without a kubelet: pods are admitted, and none runs.
	must(t, c.Apply(t.Context(), "apiVersion: v1\nkind: Node\nmetadata: {name: paper, labels: {kubernetes.io/os: linux, kind: paper}}\n"))
	for name, r := range rules {
		must(t, c.Apply(t.Context(), r.manifests(name)))
		must(t, c.AwaitNamespace(soon(t), name))
	}
	for name, r := range rules {
		t.Run(name, func(t *testing.T) { r.try(t, &chart{c: c}, name) })
	}
}

// manifests are the namespace with its rule.
func (r ruled) manifests(name string) string {
	text := fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s, labels: {%s}}\n", name, r.labels)
	if r.objects != "" {
		text += "---\n" + strings.Replace(r.objects, "metadata: {", "metadata: {namespace: "+name+", ", 1)
	}
	if r.policy != "" {
		text += fmt.Sprintf(`---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: [v1], operations: [CREATE], resources: [%[2]s]}]}
  validations:
  - message: rule of %[1]s
    expression: >-
      %[3]s
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec:
  policyName: %[1]s
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}
`, name, r.resource, r.policy)
	}
	return text
}

// try installs the chart with its defaults, asks why it has no pods, and installs it with what the documents say.
func (r ruled) try(t *testing.T, h *chart, name string) {
	t.Helper()
	release := "evictd-" + name
	values := []string{"--namespace", name, "--set", "nodeSelector.kind=paper"}
	if r.values != quota {
		values = append(values, "--set", quota)
	}
	install := func(values []string) (string, error) {
		return h.try(t, time.Minute, "upgrade", release, append([]string{"../../../deploy/chart", "--install", "--wait=hookOnly"}, values...)...)
	}
	// The API server learns of a policy in a moment.
	for ctx := soon(t); r.policy != ""; must(t, stack.Pause(ctx, 100*time.Millisecond)) {
		probe := "apiVersion: v1\nkind: Pod\nmetadata: {generateName: probe-}\nspec: {containers: [{name: c, image: i}]}\n"
		if r.resource == "daemonsets" {
			probe = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {generateName: probe-}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n"
		}
		if _, err := h.c.Kubectl(ctx, probe, "-n", name, "create", "--dry-run=server", "-f", "-"); err != nil && strings.Contains(err.Error(), r.refused) {
			break
		}
	}

	notes, err := install(values)
	if r.resource == "daemonsets" {
		if err == nil || !strings.Contains(notes, r.refused) {
			t.Fatalf("helm: %v, %s, want %q", err, notes, r.refused)
		}
	} else {
		if err != nil {
			t.Fatalf("helm: %v: %s", err, notes)
		}
		why := ""
		for ctx := soon(t); !strings.Contains(why, r.refused); must(t, stack.Pause(ctx, 100*time.Millisecond)) {
			why, err = h.c.Kubectl(ctx, "", noted(t, notes, " events ")...)
			must(t, err)
		}
		t.Logf("  %s", why)
	}

	if r.values == "" {
		_, err := h.c.Kubectl(soon(t), "", noted(t, notes, " label ")...)
		must(t, err)
	} else {
		values = append(values, "--set", r.values)
	}
	if notes, err := install(values); err != nil {
		t.Fatalf("helm: %v: %s", err, notes)
	}
	_, err = h.c.AwaitPod(soon(t), name, "", func(p *v1.Pod) (bool, error) { return true, nil })
	must(t, err)
	r.uninstalls(t, h, release, name, values)
	if out, err := h.try(t, time.Minute, "uninstall", release, "--namespace", name, "--no-hooks"); err != nil {
		t.Errorf("helm uninstall: %v: %s", err, out)
	}
}

// noted are the arguments of the command of kubectl in the notes that has part.
func noted(t *testing.T, notes, part string) []string {
	t.Helper()
	for line := range strings.Lines(notes) {
		if strings.HasPrefix(line, "  kubectl ") && strings.Contains(line, part) {
			return strings.Fields(line)[1:]
		}
	}
	t.Fatalf("no command with %q in the notes: %s", part, notes)
	return nil
}

// uninstalls fails the test if the pod of the uninstallation's Job is refused.
func (r ruled) uninstalls(t *testing.T, h *chart, release, namespace string, values []string) {
	t.Helper()
	args := append([]string{"template", release, "../../../deploy/chart", "--show-only", "templates/uninstall.yaml"}, values...)
	out, err := exec.CommandContext(t.Context(), os.Getenv("EVICTD_HELM"), args...).Output()
	must(t, err)
	documents := strings.Split(string(out), "\n---\n")
	var job batchv1.Job
	must(t, yaml.Unmarshal([]byte(documents[len(documents)-1]), &job))
	pod := &v1.Pod{ObjectMeta: job.Spec.Template.ObjectMeta, Spec: job.Spec.Template.Spec}
	pod.Name, pod.Spec.ServiceAccountName = "uninstall", "default"
	_, err = h.c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Errorf("the Job of an uninstallation: %v", err)
	}
	// kubectl apply of the rendered chart ran it at once.
	if out, err := exec.CommandContext(t.Context(), os.Getenv("EVICTD_HELM"), append(args, "--set", "uninstallHook=false")...).Output(); err == nil {
		t.Errorf("without the hook: %s", out)
	}
}
