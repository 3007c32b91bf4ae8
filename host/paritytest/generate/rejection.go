package generate

import (
	"fmt"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1resource "k8s.io/kubernetes/pkg/api/v1/resource"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"

	"github.com/evictd/evictd/host/paritytest/kubelet"
)

// extended is a resource that only some pods have.
const extended = "example.com/gpu"

// Rejection makes a pod that was not admitted, and the pods that are there.
func Rejection(seed int64, gates map[string]bool) *kubelet.Rejection {
	m := &podMaker{dice: dice{rand.New(rand.NewPCG(uint64(seed), 1))}, limits: 10} //nolint:gosec // it must be repeatable
	r := &kubelet.Rejection{FeatureGates: gates}
	for range pick(m.dice, 0, 1, 3, 5, 8, 12, 25) {
		p := m.next()
		if m.in(15) {
			extend(m.dice, p)
		}
		r.Active = append(r.Active, p)
	}
	r.Pod = m.anyPod("critical", "uid-critical")
	if m.in(90) {
		r.Pod.Spec.Priority = new(pick[int32](m.dice, 2000000000, 2000001000, 2000000500, 1999999999))
	}
	if m.in(20) {
		r.Pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	}
	for range pick(m.dice, 0, 1, 1, 1, 2, 2, 3) {
		r.Reasons = append(r.Reasons, shortage(m.dice, r.Active))
	}
	if m.in(8) {
		r.Reasons = append(r.Reasons, &lifecycle.PredicateFailureError{PredicateName: "NodeName", PredicateDesc: "another node"})
		m.Shuffle(len(r.Reasons), func(i, j int) { r.Reasons[i], r.Reasons[j] = r.Reasons[j], r.Reasons[i] })
	}
	if m.in(15) && len(r.Active) > 0 {
		r.KillErrors = map[string]string{string(pick(m.dice, r.Active...).UID): "container does not stop"}
	}
	return r
}

func extend(d dice, p *v1.Pod) {
	c := &p.Spec.Containers[0]
	q := resource.MustParse(fmt.Sprint(d.between(1, 3)))
	for _, l := range []*v1.ResourceList{&c.Resources.Requests, &c.Resources.Limits} {
		if *l == nil {
			*l = v1.ResourceList{}
		}
		(*l)[extended] = q
	}
}

// shortage is about what some of the pods request together, so that they are just
// enough, or just not.
func shortage(d dice, active []*v1.Pod) lifecycle.PredicateFailureReason {
	name := pick(d, v1.ResourceMemory, v1.ResourceMemory, v1.ResourceCPU, v1.ResourcePods, v1.ResourceEphemeralStorage, extended)
	var sum int64
	share := pick(d, 10, 30, 30, 60, 100)
	for _, p := range active {
		if d.in(share) {
			sum += v1resource.GetResourceRequest(p, name)
		}
	}
	sum += pick[int64](d, 0, 0, -1, 1)
	used := int64(d.IntN(1000))
	return &lifecycle.InsufficientResourceError{ResourceName: name, Requested: sum, Used: used, Capacity: used}
}
