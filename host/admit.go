package host

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/policy"
)

// Admission is the answer to a pod that wants to start on the node, with the
// kubelet's reason and message if it may not.
type Admission = policy.Admission

// Admit decides whether pod may start under the conditions that the last pass
// reported. While none is reported every pod may. Otherwise critical pods may,
// and under memory pressure alone all that are not BestEffort or that tolerate
// it. A condition of an own signal is like disk pressure: critical pods only. It
// reads a snapshot, so that it may be called at any time and never waits for a
// pass.
func (m *Manager) Admit(pod *v1.Pod) Admission {
	return policy.Admit(pod, rules(m.config()).QoSClass(pod), m.loop.Snapshot().Conditions)
}
