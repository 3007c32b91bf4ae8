package admission

import (
	"slices"
	"testing"

	"github.com/evictd/evictd/test/harness/fence"
)

const rbac = "../../../deploy/rbac/"

func TestWhatEvictdMayWriteOfPods(t *testing.T) {
	fence.Run(t, load(t, rbac+"policy.yaml"), fence.Pods())
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
	writes := slices.Concat(fence.Pods(), fence.Events(), fence.Nodes())
	s := load(t, rbac+"policy.yaml", rbac+"node-conditions.yaml")
	for i, p := range s.policies {
		for j, v := range p.Spec.Validations {
			if j == 0 {
				continue
			}
			without := p.DeepCopy()
			without.Spec.Validations = slices.Delete(without.Spec.Validations, j, j+1)
			weak := &server{policies: slices.Clone(s.policies), objects: map[string]fence.Object{}}
			weak.policies[i] = policy{without, compile(t, without)}
			if !passes(t, weak, writes) {
				t.Errorf("policy %s: nothing shows that this is needed: %s", p.Name, v.Message)
			}
		}
	}
}

// passes reports whether s lets a foreign write pass.
func passes(t *testing.T, s *server, writes []fence.Write) bool {
	t.Helper()
	return slices.ContainsFunc(writes, func(w fence.Write) bool {
		return w.Refused != "" && fence.Ask(t, s, "fence", w) == nil
	})
}
