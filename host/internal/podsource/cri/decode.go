package cri

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
	kjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/quantity"
)

// maxIdentity bounds names and uids: Kubernetes allows 253 bytes in a name.
const maxIdentity = 253

// maxWarnings bounds what a manifest of rubbish can make us say.
const maxWarnings = 10

// decode reads one v1.Pod from YAML or JSON and fills in the API's defaults. A static
// one needs no uid.
// warning lists unknown fields and duplicate keys, which the API server would refuse and the
// kubelet overlooks. It does not cost the pod its manifest, because a manifest of a newer
// Kubernetes must not make a pod safe from eviction.
func decode(data []byte, isJSON, static bool) (pod *v1.Pod, warning, err error) {
	var warnings []error
	if !isJSON {
		if data, warnings, err = input.YAML(data, maxWarnings, func(path []string) string { return strings.Join(path, ".") }); err != nil {
			return nil, nil, wantPod(err)
		}
	}
	if err := quantity.CheckJSON(data, reflect.TypeFor[v1.Pod]()); err != nil {
		return nil, nil, err
	}
	pod = &v1.Pod{}
	strict, err := kjson.UnmarshalStrict(data, pod)
	if err != nil {
		return nil, nil, inPlainWords(err)
	}
	if err := checkIdentity(pod, static); err != nil {
		return nil, nil, err
	}
	warnings = append(append(warnings, strict...), negative(pod)...)
	setDefaults(pod)
	return pod, input.ClipAll(warnings, maxWarnings), nil
}

// negative returns errors for the amounts below zero that the API server would refuse.
func negative(pod *v1.Pod) []error {
	var out []error
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		out = append(out, fmt.Errorf("spec.terminationGracePeriodSeconds: %d is negative", *s))
	}
	check := func(path string, r *v1.ResourceRequirements) {
		for i, list := range []v1.ResourceList{r.Limits, r.Requests} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				if q := list[name]; q.Sign() < 0 {
					out = append(out, fmt.Errorf("%s.resources.%s.%s: %s is negative", path, []string{"limits", "requests"}[i], input.Shown(string(name)), q.String()))
				}
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		check(fmt.Sprintf("spec.initContainers[%d]", i), &pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		check(fmt.Sprintf("spec.containers[%d]", i), &pod.Spec.Containers[i].Resources)
	}
	if pod.Spec.Resources != nil {
		check("spec", pod.Spec.Resources)
	}
	return out
}

// wantPod completes what was said of a file that has nothing in it.
func wantPod(err error) error {
	if errors.Is(err, input.ErrEmpty) || errors.Is(err, input.ErrNoMapping) {
		return fmt.Errorf("%w, want a v1.Pod", err)
	}
	return err
}

// wrongType matches the decoder's error for a value of another type than the field, which it
// names by Go's types.
var wrongType = regexp.MustCompile(`^json: cannot unmarshal (.+) into Go (?:value of type \S+|struct field \w+\.(\S+) of type (\S+))$`)

// inPlainWords returns err for readers who do not know Go.
func inPlainWords(err error) error {
	m := wrongType.FindStringSubmatch(err.Error())
	switch {
	case m == nil:
		return err
	case m[2] == "":
		return fmt.Errorf("is of type %s, want a v1.Pod", m[1])
	default:
		return fmt.Errorf("%s: is of type %s, want %s", m[2], m[1], strings.NewReplacer("*", "", "v1.", "", "[]", "list of ").Replace(m[3]))
	}
}

func checkIdentity(pod *v1.Pod, static bool) error {
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return fmt.Errorf("is apiVersion %q, kind %q, want apiVersion \"v1\", kind \"Pod\"", input.Shown(pod.APIVersion), input.Shown(pod.Kind))
	}
	const byRuntime = "the one that the runtime knows the pod by"
	wantUID, wantName := byRuntime, byRuntime
	if static {
		wantUID, wantName = "", "the one to which the kubelet adds the node's"
	}
	return errors.Join(
		checkName("metadata.uid", string(pod.UID), wantUID),
		checkName("metadata.name", pod.Name, wantName),
		checkName("metadata.namespace", pod.Namespace, ""),
	)
}

// checkName checks a name that may only be missing if nothing is wanted.
func checkName(field, value, want string) error {
	switch {
	case value == "" && want != "":
		return fmt.Errorf("%s is missing, want %s", field, want)
	case len(value) > maxIdentity:
		return fmt.Errorf("%s %q has %d bytes, want at most %d", field, input.Shown(value), len(value), maxIdentity)
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' }):
		return fmt.Errorf("%s %q has characters that no name in Kubernetes has", field, input.Shown(value))
	}
	return nil
}

// setDefaults fills in what the API server would have: manifests in a directory
// may be written by hand, and the kubelet never decides on a pod without these.
// Only defaults that a decision can depend on are set.
func setDefaults(pod *v1.Pod) {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(v1.DefaultTerminationGracePeriodSeconds))
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			// Who limits a resource and requests nothing requests the limit.
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				request(r, name, limit)
			}
		}
	}
	defaultPodRequests(pod)
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.VolumeSource == (v1.VolumeSource{}) {
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
	}
}

// defaultPodRequests completes the requests of a pod that has limits at pod
// level: from its containers where they request anything, else from the limit.
func defaultPodRequests(pod *v1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return
	}
	ofContainers := resource.AggregateContainerRequests(pod, resource.PodResourcesOptions{})
	for _, from := range []v1.ResourceList{ofContainers, r.Limits} {
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if q, ok := from[name]; ok {
				request(r, name, q)
			}
		}
	}
}

// request has r request an amount of what it requests nothing of.
func request(r *v1.ResourceRequirements, name v1.ResourceName, q apiresource.Quantity) {
	if _, ok := r.Requests[name]; ok {
		return
	}
	if r.Requests == nil {
		r.Requests = v1.ResourceList{}
	}
	r.Requests[name] = q.DeepCopy()
}
