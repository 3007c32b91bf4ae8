// Package stuffed fills pods with what decides nothing, as their owners can: about as much as the API
// server accepts.
package stuffed

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Shapes returns ways to fill a pod, which has a container, with about 1.4 MB.
func Shapes() map[string]func(*v1.Pod) {
	const size = 1_400_000
	text := strings.Repeat("x", size)
	many := func(prefix string, each int) (out []string) {
		for i := range size / (each + len(prefix) + 10) {
			out = append(out, fmt.Sprint(prefix, i, strings.Repeat("x", each)))
		}
		return out
	}
	toMap := func() map[string]string {
		out := map[string]string{}
		for _, key := range many("k", 40) {
			out[key] = ""
		}
		return out
	}
	return map[string]func(*v1.Pod){
		"env":         func(p *v1.Pod) { p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: text}} },
		"args":        func(p *v1.Pod) { p.Spec.Containers[0].Args = many("", 1) },
		"command":     func(p *v1.Pod) { p.Spec.Containers[0].Command = []string{text} },
		"labels":      func(p *v1.Pod) { p.Labels = toMap() },
		"annotations": func(p *v1.Pod) { p.Annotations = toMap() },
		"own marks": func(p *v1.Pod) {
			p.Annotations = map[string]string{"kubernetes.io/config.mirror": text, "evictd.io/evicted": text}
		},
		"managedFields": func(p *v1.Pod) { p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(text)}} },
		"finalizers":    func(p *v1.Pod) { p.Finalizers = many("example.com/", 40) },
		"containers": func(p *v1.Pod) {
			for _, name := range many("c", 10) {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name})
			}
		},
		"initContainers": func(p *v1.Pod) {
			for _, name := range many("c", 10) {
				p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: name})
			}
		},
		"volumes": func(p *v1.Pod) {
			for _, name := range many("v", 1) {
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
			}
		},
		"projected": func(p *v1.Pod) {
			v := v1.ProjectedVolumeSource{}
			for _, name := range many("s", 10) {
				v.Sources = append(v.Sources, v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: name}}})
			}
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Projected: &v}}}
		},
		"preStop": func(p *v1.Pod) {
			p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{text}}}}
		},
		"many hooks": func(p *v1.Pod) {
			for _, name := range many("c", 10000) {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: name[:20], Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{name}}}}})
			}
		},
		"ports": func(p *v1.Pod) {
			for i, name := range many("p", 1) {
				p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{Name: name, ContainerPort: int32(i)})
			}
		},
		"tolerations": func(p *v1.Pod) {
			for _, name := range many("t", 1) {
				p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: name})
			}
		},
		"conditions": func(p *v1.Pod) {
			for _, name := range many("c", 1) {
				p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodConditionType(name)})
			}
		},
		"hostAliases": func(p *v1.Pod) { p.Spec.HostAliases = []v1.HostAlias{{IP: "1.1.1.1", Hostnames: many("h", 10)}} },
		"ownerReferences": func(p *v1.Pod) {
			for _, name := range many("o", 10) {
				p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Name: name})
			}
		},
		"names of resources": func(p *v1.Pod) {
			r := v1.ResourceList{}
			for _, name := range many("example.com/", 10) {
				r[v1.ResourceName(name)] = resource.MustParse("1")
			}
			p.Spec.Containers[0].Resources.Requests = r
		},
		"status message": func(p *v1.Pod) { p.Status.Message = text },
	}
}
