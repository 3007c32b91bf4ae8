package admission

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	registration "k8s.io/api/admissionregistration/v1"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/evictd/evictd/test/harness/fence"
)

const rbac = "../../../deploy/rbac/"

func TestWhatEvictdMayWriteOfPods(t *testing.T) {
	fence.Run(t, load(t, rbac+"policy.yaml"), slices.Concat(fence.Pods(), fence.NoDeletions()))
}

func TestWhatEvictdMayWriteOfPodsWhereItMayDeleteThem(t *testing.T) {
	fence.Run(t, load(t, rbac+"delete-pods.yaml"), slices.Concat(fence.Pods(), fence.Deletions()))
}

func TestWhichEventsEvictdMayWrite(t *testing.T) {
	fence.Run(t, load(t, rbac+"policy.yaml"), fence.Events())
}

func TestWhatEvictdMayWriteOfNodes(t *testing.T) {
	fence.Run(t, load(t, rbac+"node-conditions.yaml"), fence.Nodes())
}

// Each validation refuses something that all others let pass: one that does not could be
// taken out, or is wrong, and nobody would see. The first of each only says in plain words
// what all others refuse for want of anything to look at.
func TestEveryValidationIsNeeded(t *testing.T) {
	for _, pods := range []string{"policy.yaml", "delete-pods.yaml"} {
		everyValidationIsNeeded(t, load(t, rbac+pods, rbac+"node-conditions.yaml"), slices.Concat(fence.Pods(), deletions[pods](), fence.Events(), fence.Nodes()))
	}
}

// deletions has what the policies in a file say of deletions.
var deletions = map[string]func() []fence.Write{"policy.yaml": fence.NoDeletions, "delete-pods.yaml": fence.Deletions}

func everyValidationIsNeeded(t *testing.T, s *server, writes []fence.Write) {
	t.Helper()
	for i, p := range s.policies {
		for j, v := range p.Spec.Validations {
			if j == 0 {
				continue
			}
			without := p.DeepCopy()
			without.Spec.Validations = slices.Delete(without.Spec.Validations, j, j+1)
			weak := &server{policies: slices.Clone(s.policies), objects: map[string]fence.Object{}}
			weak.policies[i] = compile(t, without)
			named := slices.DeleteFunc(slices.Clone(writes), func(w fence.Write) bool {
				return w.Refused == "" || v.MessageExpression == "" && !strings.Contains(v.Message, w.Refused)
			})
			if !passes(t, weak, named) {
				t.Errorf("policy %s: nothing shows that this is needed: %s", p.Name, v.Message)
			}
		}
	}
}

// passes reports whether s lets one of the writes pass.
func passes(t *testing.T, s *server, writes []fence.Write) bool {
	t.Helper()
	return slices.ContainsFunc(writes, func(w fence.Write) bool {
		return fence.Ask(t, s, "fence", w) == nil
	})
}

// The API server gives up on a policy whose expressions cost too much, and refuses the write: whoever owns a pod must not
// be able to make them so. The largest objects that it takes are among the writes.
func TestNoExpressionCostsMoreThanATenthOfTheLimit(t *testing.T) {
	for pods, deletions := range deletions {
		noExpressionCostsMore(t, load(t, rbac+pods, rbac+"node-conditions.yaml"), slices.Concat(fence.Pods(), deletions(), fence.Events(), fence.Nodes()))
	}
}

func noExpressionCostsMore(t *testing.T, s *server, writes []fence.Write) {
	t.Helper()
	most, slowest, where := int64(0), time.Duration(0), ""
	for _, w := range writes {
		s.costs = func(p *registration.ValidatingAdmissionPolicy, i int, cost int64, took time.Duration) {
			if took > slowest {
				slowest = took
			}
			if cost > most {
				most, where = cost, fmt.Sprintf("policy %s, %q, for %s", p.Name, p.Spec.Validations[i].Message, w.Name)
			}
			if cost > celconfig.PerCallLimit/10 {
				t.Errorf("policy %s, %q: %d for %s, want at most %d", p.Name, p.Spec.Validations[i].Message, cost, w.Name, celconfig.PerCallLimit/10)
			}
		}
		_ = fence.Ask(t, s, "fence", w) // what it says is another test's
	}
	t.Logf("  the most is %d of %d: %s; the slowest took %v", most, celconfig.PerCallLimit, where, slowest)
}
