package generate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A podMaker makes the pods of a scenario.
type podMaker struct {
	dice
	// born counts all pods there ever were.
	born int
	// limits is the percentage of containers and volumes with limits for local storage. Where
	// pods go for them none goes for pressure.
	limits int
}

// next makes the next active pod.
func (m *podMaker) next() *v1.Pod {
	m.born++
	p := m.anyPod(fmt.Sprintf("pod-%d", m.born), fmt.Sprintf("uid-%05d", m.born))
	p.Status.Phase = v1.PodRunning
	if m.in(10) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue})
	}
	if m.in(5) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: pick(m.dice, v1.ConditionTrue, v1.ConditionFalse), Reason: "PreemptionByScheduler",
		})
	}
	return p
}

func (m *podMaker) anyPod(name, uid string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: pick(m.dice, "default", "kube-system", "prod"), UID: types.UID(uid), Generation: int64(m.IntN(4)),
	}}
	m.origin(p)
	switch m.IntN(10) {
	case 0, 1, 2, 3:
	case 4:
		p.Spec.Priority = new(2000000000 + int32(m.IntN(2))*1000)
	default:
		p.Spec.Priority = new(pick[int32](m.dice, 0, 0, 100, 100, 1000, -10, 1999999999))
	}
	if m.in(85) {
		p.Spec.TerminationGracePeriodSeconds = new(pick[int64](m.dice, 0, 1, 30, 30, 45, 600))
	}
	m.containers(p)
	m.volumes(p)
	if m.in(8) {
		p.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi"), v1.ResourceCPU: resource.MustParse("50m")}
		if m.in(40) {
			p.Spec.Overhead[v1.ResourceEphemeralStorage] = resource.MustParse("128Mi")
		}
	}
	if m.in(12) {
		m.podLevel(p)
	}
	if m.in(5) {
		p.Status.QOSClass = pick(m.dice, v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSGuaranteed)
	}
	return p
}

// origin says where the kubelet has p from.
func (m *podMaker) origin(p *v1.Pod) {
	switch n := m.IntN(100); {
	case n < 5:
		p.Annotations = map[string]string{"kubernetes.io/config.source": pick(m.dice, "file", "http")}
	case n < 9:
		p.Annotations = map[string]string{"kubernetes.io/config.mirror": "0123", "kubernetes.io/config.source": "api"}
	case n < 60:
		p.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
	}
}

func (m *podMaker) containers(p *v1.Pod) {
	kind := pick(m.dice, v1.PodQOSBestEffort, v1.PodQOSBurstable, v1.PodQOSBurstable, v1.PodQOSGuaranteed)
	for i := range pick(m.dice, 1, 1, 1, 2, 3) {
		p.Spec.Containers = append(p.Spec.Containers, m.container(fmt.Sprintf("c%d", i), kind))
	}
	if m.in(25) {
		for i := range m.between(1, 2) {
			c := m.container(fmt.Sprintf("i%d", i), kind)
			if m.in(50) {
				c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
}

func (m *podMaker) container(name string, kind v1.PodQOSClass) v1.Container {
	c := v1.Container{Name: name}
	set := func(l *v1.ResourceList, r v1.ResourceName, q string) {
		if *l == nil {
			*l = v1.ResourceList{}
		}
		(*l)[r] = resource.MustParse(q)
	}
	bytes := func() string { return pick(m.dice, "100Mi", "200Mi", "200Mi", "500Mi", "1Gi", "123456789", "0") }
	switch kind {
	case v1.PodQOSGuaranteed:
		cpu, memory := pick(m.dice, "100m", "250m", "1"), pick(m.dice, "100Mi", "200Mi", "500Mi", "1Gi")
		set(&c.Resources.Requests, v1.ResourceCPU, cpu)
		set(&c.Resources.Limits, v1.ResourceCPU, cpu)
		set(&c.Resources.Requests, v1.ResourceMemory, memory)
		set(&c.Resources.Limits, v1.ResourceMemory, memory)
	case v1.PodQOSBurstable:
		if m.in(60) {
			set(&c.Resources.Requests, v1.ResourceMemory, bytes())
		}
		if m.in(30) {
			set(&c.Resources.Requests, v1.ResourceCPU, "100m")
		}
		if m.in(15) {
			set(&c.Resources.Limits, v1.ResourceMemory, "2Gi")
		}
	}
	if m.in(25) {
		set(&c.Resources.Requests, v1.ResourceEphemeralStorage, bytes())
	}
	if m.in(m.limits) {
		set(&c.Resources.Limits, v1.ResourceEphemeralStorage, pick(m.dice, "1Gi", "2Gi", "500Mi", "1500M", "0"))
	}
	return c
}

// podLevel sets resources for the pod as a whole, which then count alone.
func (m *podMaker) podLevel(p *v1.Pod) {
	r := &v1.ResourceRequirements{}
	p.Spec.Resources = r
	if m.in(20) {
		return
	}
	if m.in(60) {
		r.Requests = v1.ResourceList{v1.ResourceMemory: resource.MustParse(pick(m.dice, "300Mi", "1Gi"))}
	}
	if m.in(40) {
		if r.Requests == nil {
			r.Requests = v1.ResourceList{}
		}
		r.Requests[v1.ResourceCPU] = resource.MustParse("500m")
	}
	if m.in(40) {
		r.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}
	}
	if m.in(20) {
		r.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi"), v1.ResourceCPU: resource.MustParse("500m")}
	}
}

func (m *podMaker) volumes(p *v1.Pod) {
	for i := range pick(m.dice, 0, 0, 1, 1, 2, 3) {
		v := v1.Volume{Name: fmt.Sprintf("v%d", i)}
		switch m.IntN(12) {
		case 0, 1, 2, 3:
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		case 4, 5:
			v.EmptyDir = &v1.EmptyDirVolumeSource{Medium: pick(m.dice, v1.StorageMediumMemory, v1.StorageMediumMemory, v1.StorageMediumHugePages, v1.StorageMediumHugePagesPrefix+"2Mi")}
		case 6:
			v.HostPath = &v1.HostPathVolumeSource{Path: "/x"}
		case 7:
			v.ConfigMap = &v1.ConfigMapVolumeSource{}
		case 8:
			v.Secret = &v1.SecretVolumeSource{SecretName: "s"}
		case 9:
			v.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}
		case 10:
			v.GitRepo = &v1.GitRepoVolumeSource{Repository: "r"}
		case 11:
			v.Projected = &v1.ProjectedVolumeSource{}
		}
		if v.EmptyDir != nil && m.in(m.limits) {
			v.EmptyDir.SizeLimit = new(resource.MustParse(pick(m.dice, "1Gi", "512Mi", "1500M", "0")))
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
}

// resized is p with other resources, as after a resize in place.
func (m *podMaker) resized(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	p.Generation++
	c := &p.Spec.Containers[m.IntN(len(p.Spec.Containers))]
	if c.Resources.Requests == nil {
		c.Resources.Requests = v1.ResourceList{}
	}
	c.Resources.Requests[v1.ResourceMemory] = resource.MustParse(pick(m.dice, "50Mi", "700Mi", "3Gi"))
	return p
}

// applicant makes a pod that asks to be admitted.
func (m *podMaker) applicant(name string) *v1.Pod {
	p := m.anyPod(name, name)
	if m.in(60) { // those to whom memory pressure matters
		for i := range p.Spec.Containers {
			p.Spec.Containers[i].Resources = v1.ResourceRequirements{}
		}
	}
	for range pick(m.dice, 0, 0, 1, 1, 2) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{
			Key:      pick(m.dice, "", v1.TaintNodeMemoryPressure, v1.TaintNodeMemoryPressure, v1.TaintNodeDiskPressure),
			Operator: pick(m.dice, v1.TolerationOpExists, v1.TolerationOpExists, v1.TolerationOpEqual, "", v1.TolerationOpLt, v1.TolerationOpGt),
			Value:    pick(m.dice, "", "", "x", "5"),
			Effect:   pick(m.dice, "", v1.TaintEffectNoSchedule, v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute),
		})
	}
	return p
}
