package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	registration "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/evictd/evictd/test/harness/fence"
)

// server makes the decision of an API server on a write once authorization has let it pass.
type server struct {
	policies []policy
	objects  map[string]fence.Object
	// costs, if set, gets what each validation of a policy costs.
	costs func(p *registration.ValidatingAdmissionPolicy, validation int, cost int64, took time.Duration)
}

type policy struct {
	*registration.ValidatingAdmissionPolicy
	validator validating.Validator
	each      []cel.ConditionEvaluator // of a validation alone
}

// load has the policies of files in force, those that a binding denies by.
func load(t *testing.T, files ...string) *server {
	t.Helper()
	s := &server{objects: map[string]fence.Object{}}
	denied := map[string]bool{}
	for _, file := range files {
		for _, doc := range documents(t, file) {
			switch o := doc.(type) {
			case *registration.ValidatingAdmissionPolicy:
				s.policies = append(s.policies, compile(t, o))
			case *registration.ValidatingAdmissionPolicyBinding:
				if o.Spec.MatchResources == nil && len(o.Spec.ValidationActions) == 1 && o.Spec.ValidationActions[0] == registration.Deny {
					denied[o.Spec.PolicyName] = true
				}
			}
		}
	}
	for _, p := range s.policies {
		if !denied[p.Name] {
			t.Errorf("no binding has policy %s deny everywhere", p.Name)
		}
	}
	return s
}

// documents are the policies and bindings in a file.
func documents(t *testing.T, file string) []runtime.Object {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []runtime.Object
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var raw runtime.RawExtension
		if d.Decode(&raw) != nil {
			return all
		}
		var kind struct{ Kind string }
		if err := json.Unmarshal(raw.Raw, &kind); err != nil {
			t.Fatal(err)
		}
		var o runtime.Object
		switch kind.Kind {
		case "ValidatingAdmissionPolicy":
			o = &registration.ValidatingAdmissionPolicy{}
		case "ValidatingAdmissionPolicyBinding":
			o = &registration.ValidatingAdmissionPolicyBinding{}
		default:
			continue
		}
		if err := json.Unmarshal(raw.Raw, o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// compile makes of a policy what the API server does
// (k8s.io/apiserver/pkg/admission/plugin/policy/validating/plugin.go), and fails where an
// expression cannot be compiled.
func compile(t *testing.T, p *registration.ValidatingAdmissionPolicy) policy {
	t.Helper()
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	options := cel.OptionalVariableDeclarations{HasAuthorizer: true}
	var variables []cel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &validating.Variable{Name: v.Name, Expression: v.Expression})
	}
	for _, v := range variables {
		if r := compiler.CompileAndStoreVariable(v, options, environment.NewExpressions); r.Error != nil {
			t.Errorf("policy %s: variable %s: %v", p.Name, v.GetName(), r.Error)
		}
	}
	var conditions, validations, messages []cel.ExpressionAccessor
	for i := range p.Spec.MatchConditions {
		conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
	}
	for _, v := range p.Spec.Validations {
		validations = append(validations, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message, Reason: v.Reason})
		var message cel.ExpressionAccessor
		if v.MessageExpression != "" {
			message = &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression}
		}
		messages = append(messages, message)
	}
	for _, all := range [][]cel.ExpressionAccessor{conditions, validations, messages} {
		for _, e := range all {
			if e == nil {
				continue
			}
			if r := compiler.CompileCELExpression(e, options, environment.NewExpressions); r.Error != nil {
				t.Errorf("policy %s: %s: %v", p.Name, e.GetExpression(), r.Error)
			}
		}
	}
	evaluator := func(all []cel.ExpressionAccessor) cel.ConditionEvaluator {
		return compiler.CompileCondition(all, options, environment.StoredExpressions)
	}
	matcher := matchconditions.NewMatcher(evaluator(conditions), p.Spec.FailurePolicy, "policy", "validate", p.Name)
	compiled := policy{p, validating.NewValidator(evaluator(validations), matcher, evaluator(nil), evaluator(messages), p.Spec.FailurePolicy, nil), nil}
	for i := range validations {
		compiled.each = append(compiled.each, evaluator(validations[i:i+1]))
	}
	return compiled
}

// Have implements fence.API.
func (s *server) Have(_ *testing.T, object fence.Object) types.UID {
	uid := types.UID("uid-of-" + object.GetName())
	object.SetUID(uid)
	object.SetResourceVersion("1")
	object.SetCreationTimestamp(metav1.Now())
	s.objects[object.GetName()] = object
	return uid
}

// Write implements fence.API.
func (s *server) Write(t *testing.T, name string, w fence.Write) error {
	t.Helper()
	a := s.attributes(t, name, w)
	versioned := &admission.VersionedAttributes{Attributes: a, VersionedKind: a.GetKind(), VersionedObject: admission.NewLazyObject(a.GetObject()), VersionedOldObject: admission.NewLazyObject(a.GetOldObject())}
	var errs []error
	for _, p := range s.policies {
		if !matches(p, a) {
			continue
		}
		if s.costs != nil {
			s.measure(t, p, versioned)
			continue
		}
		result := p.validator.Validate(t.Context(), a.GetResource(), versioned, nil, &v1.Namespace{}, celconfig.RuntimeCELCostBudget, nil)
		for _, d := range result.Decisions {
			if d.Evaluation == validating.EvalError {
				t.Errorf("policy %s cannot tell: %s", p.Name, d.Message)
			}
			if d.Action == validating.ActionDeny {
				errs = append(errs, fmt.Errorf("policy %s: %s", p.Name, d.Message))
			}
		}
	}
	return errors.Join(errs...)
}

// measure evaluates each validation alone, with the variables that it uses.
func (s *server) measure(t *testing.T, p policy, versioned *admission.VersionedAttributes) {
	t.Helper()
	request := cel.CreateAdmissionRequest(versioned.Attributes, metav1.GroupVersionResource(versioned.GetResource()), metav1.GroupVersionKind(versioned.VersionedKind))
	for i, e := range p.each {
		began := time.Now()
		_, left, err := e.ForInput(t.Context(), versioned, request, cel.OptionalVariableBindings{}, &v1.Namespace{}, celconfig.RuntimeCELCostBudget)
		if err != nil {
			t.Errorf("policy %s, %q: %v", p.Name, p.Spec.Validations[i].Message, err)
			continue
		}
		s.costs(p.ValidatingAdmissionPolicy, i, celconfig.RuntimeCELCostBudget-left, time.Since(began))
	}
}

func matches(p policy, a admission.Attributes) bool {
	for _, r := range p.Spec.MatchConstraints.ResourceRules {
		m := rules.Matcher{Rule: r.RuleWithOperations, Attr: a}
		if m.Matches() {
			return true
		}
	}
	return false
}

func (s *server) attributes(t *testing.T, name string, w fence.Write) admission.Attributes {
	t.Helper()
	kind := map[string]string{"pods": "Pod", "events": "Event", "nodes": "Node"}[w.Resource]
	operation := map[string]admission.Operation{"patch": admission.Update, "create": admission.Create, "delete": admission.Delete}[w.Verb]
	who := &user.DefaultInfo{Name: fence.Username, Extra: map[string][]string{}}
	switch w.Token {
	case fence.PodBound:
		who.Extra["authentication.kubernetes.io/node-name"] = []string{fence.Node}
		who.Extra["authentication.kubernetes.io/pod-name"] = []string{"evictd-token-x"}
	case fence.NodeBound:
		who.Extra["authentication.kubernetes.io/node-name"] = []string{fence.Node}
	case fence.Unscheduled:
		who.Extra["authentication.kubernetes.io/pod-name"] = []string{"evictd-token-x"}
	}
	var was, is runtime.Object
	if operation != admission.Create {
		was = s.objects[name]
	}
	switch operation {
	case admission.Update:
		is = patched(t, was, w)
		manage(t, was, is, w.Subresource)
	case admission.Create:
		is = map[string]runtime.Object{"Pod": &v1.Pod{}, "Event": &v1.Event{}}[kind]
		if err := json.Unmarshal([]byte(w.Body), is); err != nil {
			t.Fatal(err)
		}
		is.(metav1.Object).SetCreationTimestamp(metav1.Now())
	}
	namespace := fence.Namespace
	if kind == "Node" {
		namespace = ""
	}
	var options runtime.Object
	if operation == admission.Delete {
		deletion := &metav1.DeleteOptions{}
		if w.Body != "" {
			if err := json.Unmarshal([]byte(w.Body), deletion); err != nil {
				t.Fatal(err)
			}
		}
		options = deletion
	}
	return admission.NewAttributesRecord(is, was, schema.GroupVersionKind{Version: "v1", Kind: kind}, namespace, name,
		schema.GroupVersionResource{Version: "v1", Resource: w.Resource}, w.Subresource, operation, options, false, who)
}

// patched returns the object that the API server makes of a write: of a status also what cannot
// be written by way of it.
func patched(t *testing.T, was runtime.Object, w fence.Write) runtime.Object {
	t.Helper()
	before, err := json.Marshal(was)
	if err != nil {
		t.Fatal(err)
	}
	is := map[string]runtime.Object{"pods": &v1.Pod{}, "events": &v1.Event{}, "nodes": &v1.Node{}}[w.Resource]
	var after []byte
	switch w.Patch {
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, []byte(w.Body), is)
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, []byte(w.Body))
	default:
		t.Fatalf("patch of type %q", w.Patch)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(after, is); err != nil {
		t.Fatal(err)
	}
	return is
}

// manage sets managedFields as the API server does before it asks the policies: those of a status stay, others are taken
// from the write unless they are empty, evictd has an entry of now, and what it changes belongs to no one else.
func manage(t *testing.T, was, is runtime.Object, subresource string) {
	t.Helper()
	before, after := was.(fence.Object), is.(fence.Object)
	all := after.GetManagedFields()
	if subresource != "" {
		all = before.GetManagedFields()
	}
	all = slices.DeleteFunc(slices.Clone(all), func(m metav1.ManagedFieldsEntry) bool {
		event, isEvent := is.(*v1.Event)
		lost := isEvent && event.Message != was.(*v1.Event).Message && m.FieldsV1.GetRawString() == `{"f:message": {}}`
		return m.Manager == "" || m.Manager == "evictd" || lost
	})
	now := metav1.Now()
	after.SetManagedFields(append(all, metav1.ManagedFieldsEntry{
		Manager: "evictd", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Subresource: subresource, Time: &now,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:status": {}}`),
	}))
}
