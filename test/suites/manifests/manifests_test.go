package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	registration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigs "sigs.k8s.io/yaml"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/fence"
)

const deploy = "../../../deploy/"

// read decodes the objects in a file of deploy strictly: an unknown field is as fatal as it is
// with kubectl.
func read(t *testing.T, file string) []metav1.Object {
	t.Helper()
	text := testos.ReadFile(t, deploy+file)
	var all []metav1.Object
	for r := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		var kind metav1.TypeMeta
		if err := sigs.Unmarshal(doc, &kind); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		o := object(kind)
		if o == nil {
			t.Fatalf("%s: apiVersion %q, kind %q: nobody knows what that is", file, kind.APIVersion, kind.Kind)
		}
		if err := sigs.UnmarshalStrict(doc, o); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		all = append(all, o)
	}
}

// object is an empty one of a kind, nil of those that are not used here.
func object(kind metav1.TypeMeta) metav1.Object {
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Namespace":
		return &v1.Namespace{}
	case "v1 ServiceAccount":
		return &v1.ServiceAccount{}
	case "apps/v1 DaemonSet":
		return &apps.DaemonSet{}
	case "v1 ConfigMap":
		return &v1.ConfigMap{}
	case "rbac.authorization.k8s.io/v1 Role":
		return &rbac.Role{}
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return &rbac.RoleBinding{}
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return &rbac.ClusterRole{}
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return &rbac.ClusterRoleBinding{}
	case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicy":
		return &registration.ValidatingAdmissionPolicy{}
	case "flowcontrol.apiserver.k8s.io/v1 FlowSchema":
		return &flowcontrol.FlowSchema{}
	case "flowcontrol.apiserver.k8s.io/v1 PriorityLevelConfiguration":
		return &flowcontrol.PriorityLevelConfiguration{}
	case "admissionregistration.k8s.io/v1 ValidatingAdmissionPolicyBinding":
		return &registration.ValidatingAdmissionPolicyBinding{}
	}
	return nil
}

// only are the objects of one type.
func only[T metav1.Object](all []metav1.Object) []T {
	var some []T
	for _, o := range all {
		if o, ok := o.(T); ok {
			some = append(some, o)
		}
	}
	return some
}

func TestTheKustomizationHasWhatIsThere(t *testing.T) {
	text := testos.ReadFile(t, deploy+"rbac/kustomization.yaml")
	var k struct {
		metav1.TypeMeta `json:",inline"`
		Resources       []string `json:"resources"`
	}
	if err := sigs.UnmarshalStrict(text, &k); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(deploy + "rbac/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range files {
		if name := filepath.Base(f); !slices.Contains([]string{"kustomization.yaml", "metrics.yaml", "delete-pods.yaml"}, name) { // an option
			want = append(want, name)
		}
	}
	slices.Sort(k.Resources)
	if diff := cmp.Diff(want, k.Resources); diff != "" {
		t.Errorf("resources (-files +kustomization):\n%s", diff)
	}
}

// A verb more is one that a stolen token has.
func TestTheRolesGrantWhatEvictdDoesAndNoMore(t *testing.T) {
	for file, want := range map[string][]string{
		"rbac/role.yaml":            {"list pods", "watch pods", "patch pods/status", "create events", "patch events", "get nodes"},
		"rbac/delete-pods.yaml":     {"list pods", "watch pods", "delete pods", "patch pods/status", "create events", "patch events", "get nodes"},
		"rbac/node-conditions.yaml": {"patch nodes", "patch nodes/status"},
		"rbac/metrics.yaml":         {"create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io"},
	} {
		var roles []*rbac.ClusterRole // that evictd has
		for _, b := range only[*rbac.ClusterRoleBinding](read(t, file)) {
			for _, r := range only[*rbac.ClusterRole](read(t, file)) {
				if r.Name == b.RoleRef.Name {
					roles = append(roles, r)
				}
			}
		}
		if len(roles) != 1 {
			t.Fatalf("%s binds %d roles, want 1", file, len(roles))
		}
		var got []string
		for _, rule := range roles[0].Rules {
			if len(rule.APIGroups) != 1 || len(rule.ResourceNames)+len(rule.NonResourceURLs) > 0 {
				t.Errorf("%s: a rule for %v", file, rule)
			}
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					got = append(got, strings.TrimSuffix(verb+" "+resource+"."+rule.APIGroups[0], "."))
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// Other ConfigMaps of the namespace are not evictd's to read.
func TestOnlyItsOwnConfigMapIsRead(t *testing.T) {
	all := read(t, "manifests/evictd.yaml")
	own, roles, bindings := only[*v1.ConfigMap](all)[0], only[*rbac.Role](all), only[*rbac.RoleBinding](all)
	want := []rbac.PolicyRule{{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{own.Name}}}
	if len(roles) != 1 || roles[0].Namespace != own.Namespace || !cmp.Equal(want, roles[0].Rules) {
		t.Errorf("roles %v, want one with %v in %s", roles, want, own.Namespace)
	}
	account := only[*v1.ServiceAccount](all)[0]
	subjects := []rbac.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}
	if len(bindings) != 1 || bindings[0].Namespace != own.Namespace || bindings[0].RoleRef.Name != roles[0].Name || !cmp.Equal(subjects, bindings[0].Subjects) {
		t.Errorf("bindings %v, want one of %v", bindings, subjects)
	}
}

// Who reads the metrics reads nothing else.
func TestReadersOfMetricsReadMetrics(t *testing.T) {
	roles := only[*rbac.ClusterRole](read(t, "rbac/metrics.yaml"))
	want := []rbac.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}
	if last := roles[len(roles)-1]; last.Name != "evictd-metrics-reader" || !cmp.Equal(want, last.Rules) {
		t.Errorf("%s has %v, want %v", last.Name, last.Rules, want)
	}
}

// With one different name the policies are about an account that does not exist.
func TestAllAreAboutTheSameAccount(t *testing.T) {
	account := only[*v1.ServiceAccount](read(t, "rbac/account.yaml"))[0]
	if namespace := only[*v1.Namespace](read(t, "rbac/account.yaml"))[0]; namespace.Name != account.Namespace {
		t.Errorf("the account is in namespace %q, made is %q", account.Namespace, namespace.Name)
	}
	username := "system:serviceaccount:" + account.Namespace + ":" + account.Name
	if username != fence.Username {
		t.Errorf("the account is %s, tested is %s", username, fence.Username)
	}
	for _, file := range []string{"rbac/role.yaml", "rbac/delete-pods.yaml", "rbac/node-conditions.yaml", "rbac/metrics.yaml"} {
		role, binding := only[*rbac.ClusterRole](read(t, file))[0], only[*rbac.ClusterRoleBinding](read(t, file))[0]
		want := []rbac.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}
		if diff := cmp.Diff(want, binding.Subjects); diff != "" || binding.RoleRef.Name != role.Name || binding.RoleRef.Kind != "ClusterRole" {
			t.Errorf("%s binds %v (-want +got):\n%s", file, binding.RoleRef, diff)
		}
	}
	policies := slices.Concat(read(t, "rbac/policy.yaml"), read(t, "rbac/delete-pods.yaml"), read(t, "rbac/node-conditions.yaml"))
	for _, p := range only[*registration.ValidatingAdmissionPolicy](policies) {
		if c := p.Spec.MatchConditions; len(c) != 1 || c[0].Expression != "request.userInfo.?username.orValue('') == '"+username+"'" {
			t.Errorf("policy %s is about %v", p.Name, c)
		}
		if f := p.Spec.FailurePolicy; f == nil || *f != registration.Fail {
			t.Errorf("policy %s lets pass what it cannot tell", p.Name)
		}
	}
	for _, f := range only[*flowcontrol.FlowSchema](read(t, "rbac/flowschema.yaml")) {
		if s := f.Spec.Rules[0].Subjects[0].ServiceAccount; s.Name != account.Name || s.Namespace != account.Namespace {
			t.Errorf("the FlowSchema is about %s/%s", s.Namespace, s.Name)
		}
	}
	pod := only[*apps.DaemonSet](read(t, "daemonset.yaml"))[0]
	if s := pod.Spec.Template.Spec.ServiceAccountName; s != account.Name || pod.Namespace != account.Namespace {
		t.Errorf("the token is of account %s in %s", s, pod.Namespace)
	}
}

// The lists of 1,500 evictds took the places of kubelets' leases, which then took 1.9 s.
func TestRequestsOfAFleetTakeNoPlacesOfKubelets(t *testing.T) {
	all := read(t, "rbac/flowschema.yaml")
	schema, level := only[*flowcontrol.FlowSchema](all)[0], only[*flowcontrol.PriorityLevelConfiguration](all)[0]
	if schema.Spec.PriorityLevelConfiguration.Name != level.Name || strings.HasPrefix(level.Name, "node-") {
		t.Errorf("level %q of the FlowSchema, want evictd's own", schema.Spec.PriorityLevelConfiguration.Name)
	}
	if by := schema.Spec.DistinguisherMethod; by == nil || by.Type != flowcontrol.FlowDistinguisherMethodByNamespaceType {
		t.Error("evictions queue behind lists: all nodes have one user")
	}
	for _, rule := range schema.Spec.Rules[0].ResourceRules {
		if slices.Contains(rule.Resources, "events") {
			t.Error("events go before those of other accounts")
		}
	}
	l := level.Spec.Limited
	q := l.LimitResponse.Queuing
	if shares := *l.NominalConcurrencyShares; shares > 5 || q.HandSize*q.QueueLengthLimit < 1500 || q.HandSize*8 > q.Queues {
		t.Errorf("%d shares, %+v; want few, and room for the lists of many nodes in a part of the queues", shares, *q)
	}
}

// The token of a pod ends with the pod: one that evictd evicts takes evictd's token with it.
func TestWhatBringsTheTokenIsNotEvicted(t *testing.T) {
	d := only[*apps.DaemonSet](read(t, "daemonset.yaml"))[0]
	spec := d.Spec.Template.Spec
	if spec.PriorityClassName != "system-node-critical" {
		t.Errorf("priority class %q", spec.PriorityClassName)
	}
	if diff := cmp.Diff([]v1.Toleration{{Operator: v1.TolerationOpExists}}, spec.Tolerations); diff != "" {
		t.Errorf("it does not stand every taint (-want +got):\n%s", diff)
	}
	script := strings.Join(spec.Containers[0].Command, "\n")
	for _, want := range []string{"umask 077", spec.Containers[0].VolumeMounts[0].MountPath, spec.Containers[0].VolumeMounts[1].MountPath} {
		if !strings.Contains(script, want) {
			t.Errorf("the script does not have %q", want)
		}
	}
}
