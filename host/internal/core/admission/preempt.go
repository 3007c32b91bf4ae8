package admission

import (
	"errors"
	"fmt"
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// A Requirement is the amount of a resource that a pod lacks for admission: cpu in millicores,
// everything else in whole units.
type Requirement struct {
	Resource v1.ResourceName
	Quantity int64
}

// Preemptible is a pod that may be preempted.
type Preemptible struct {
	Pod      *v1.Pod
	QoSClass eviction.QoSClass
	// Requests are the effective requests, in the units of Requirement. Each pod counts as one of
	// "pods" without an entry.
	Requests map[v1.ResourceName]int64
}

func (p *Preemptible) request(name v1.ResourceName) int64 {
	if name == v1.ResourcePods {
		return 1
	}
	return p.Requests[name]
}

// Preempt returns the pods to kill, in order, so that preemptor, which is critical and lacks only
// what is listed, can be admitted (preemption, getPodsToPreempt). Guaranteed pods are chosen only
// if all others together are not enough, and burstable ones only if best-effort ones are not. A
// critical pod is chosen only for one of higher priority. It is an error if all eligible pods are
// not enough; then none is returned. active is in the order of the pod source and is not modified.
func Preempt(preemptor *v1.Pod, active []Preemptible, lacks []Requirement) ([]*v1.Pod, error) {
	if !policy.IsCritical(preemptor) {
		return nil, errors.New("preemption: the pod to admit is not critical")
	}
	candidates := map[eviction.QoSClass][]Preemptible{}
	for _, p := range active {
		if preemptable(preemptor, p.Pod) {
			candidates[p.QoSClass] = append(candidates[p.QoSClass], p)
		}
	}
	bestEffort, burstable, guaranteed := candidates[eviction.BestEffort], candidates[eviction.Burstable], candidates[eviction.Guaranteed]
	if short := unmet(lacks, bestEffort, burstable, guaranteed); len(short) > 0 {
		return nil, fmt.Errorf("preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: %s", requirementsText(short))
	}
	guaranteed = nearest(guaranteed, unmet(lacks, bestEffort, burstable))
	burstable = nearest(burstable, unmet(lacks, bestEffort, guaranteed))
	bestEffort = nearest(bestEffort, unmet(lacks, burstable, guaranteed))

	var victims []*v1.Pod
	for _, class := range [][]Preemptible{bestEffort, burstable, guaranteed} {
		for _, p := range class {
			victims = append(victims, p.Pod)
		}
	}
	return victims, nil
}

// preemptable is like types.Preemptable, for a critical preemptor.
func preemptable(preemptor, pod *v1.Pod) bool {
	if policy.Evictable(pod) {
		return true
	}
	return pod != nil && preemptor.Spec.Priority != nil && pod.Spec.Priority != nil && *preemptor.Spec.Priority > *pod.Spec.Priority
}

// unmet returns what is still lacking after pods are killed.
func unmet(lacks []Requirement, pods ...[]Preemptible) []Requirement {
	var left []Requirement
	for _, r := range lacks {
		for _, class := range pods {
			for i := range class {
				if r.Quantity > 0 { // further subtraction could overflow
					r.Quantity -= class[i].request(r.Resource)
				}
			}
		}
		if r.Quantity > 0 {
			left = append(left, r)
		}
	}
	return left
}

// nearest takes pods, which it reorders, until nothing is lacking, each time the one that leaves
// the smallest distance. Of equals it takes the smaller one, else the last. Like the kubelet it
// moves the last pod into the place of the taken one, because the next tie depends on that.
func nearest(pods []Preemptible, lacks []Requirement) []Preemptible {
	var taken []Preemptible
	for len(lacks) > 0 && len(pods) > 0 {
		best, least := 0, math.Inf(1)
		for i := range pods {
			d := distance(&pods[i], lacks)
			if d < least || d == least && notLarger(&pods[i], &pods[best]) {
				best, least = i, d
			}
		}
		taken = append(taken, pods[best])
		lacks = unmet(lacks, pods[best:best+1])
		last := len(pods) - 1
		pods[best] = pods[last]
		pods = pods[:last]
	}
	return taken
}

// distance measures the requirements that p does not meet, as the sum of the squares of the missing
// fractions: all resources have the same weight, whatever their units.
func distance(p *Preemptible, lacks []Requirement) float64 {
	var d float64
	for _, r := range lacks {
		if left := r.Quantity - p.request(r.Resource); left > 0 {
			d += math.Pow(float64(left)/float64(r.Quantity), 2)
		}
	}
	return d
}

// notLarger compares memory, then cpu.
func notLarger(a, b *Preemptible) bool {
	if x, y := a.request(v1.ResourceMemory), b.request(v1.ResourceMemory); x != y {
		return x < y
	}
	return a.request(v1.ResourceCPU) <= b.request(v1.ResourceCPU)
}

// requirementsText returns the kubelet's text, with a comma after the last one too.
func requirementsText(requirements []Requirement) string {
	var text strings.Builder
	for _, r := range requirements {
		fmt.Fprintf(&text, "(res: %s, q: %d), ", r.Resource, r.Quantity)
	}
	return "[" + text.String() + "]"
}
