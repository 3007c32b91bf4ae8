package cri

import (
	"maps"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The annotations by which the kubelet knows a static pod and its mirror.
const (
	annotationSource = "kubernetes.io/config.source"
	annotationMirror = "kubernetes.io/config.mirror"
)

// withSource returns pod with what s says of where the pod comes from. Who makes
// the sandbox knows: the kubelet writes the source over what the pod's author has
// written, and hands the pod's annotations to the runtime. A mirror never runs. Of
// a pod whose sandbox is gone, which its author cannot bring about, the manifest is
// believed. It changes nothing and returns pod itself if that says the same.
func withSource(pod *v1.Pod, s *runtimeapi.PodSandbox) *v1.Pod {
	if s == nil {
		return pod
	}
	says, static := s.GetAnnotations()[annotationSource]
	wrote, written := pod.Annotations[annotationSource]
	_, mirror := pod.Annotations[annotationMirror]
	if says == wrote && static == written && !mirror {
		return pod
	}
	changed := *pod
	changed.Annotations = make(map[string]string, len(pod.Annotations)+1)
	maps.Copy(changed.Annotations, pod.Annotations)
	delete(changed.Annotations, annotationMirror)
	delete(changed.Annotations, annotationSource)
	if static {
		changed.Annotations[annotationSource] = says
	}
	return &changed
}
