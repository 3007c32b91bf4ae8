package cri

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
)

// maxIdentity bounds names and uids: Kubernetes allows 253 bytes in a name.
const maxIdentity = 253

// maxWarnings bounds the warnings about one manifest.
const maxWarnings = 10

// decode decodes a v1.Pod from YAML or JSON and applies the API's defaults. A static pod needs no
// uid. warning lists unknown fields and duplicate keys, which the API server would refuse and the
// kubelet ignores. The manifest is used anyway, because one of a newer Kubernetes must not protect
// its pod from eviction.
func decode(data []byte, isJSON, static bool) (pod *v1.Pod, warning, err error) {
	var warnings []error
	if !isJSON {
		data, warnings, err = input.YAML(data, "a v1.Pod")
		if err != nil {
			return nil, nil, err
		}
	}
	pod = &v1.Pod{}
	strict, err := input.Decode(data, pod)
	if err != nil {
		return nil, nil, inPlainWords(err)
	}
	if err := checkIdentity(pod, static); err != nil {
		return nil, nil, err
	}
	warnings = append(append(warnings, strict...), negative(pod)...)
	warnings = append(warnings, setPriority(pod, static)...)
	pods.SetDefaults(pod)
	return pod, printable.ClipAll(warnings, maxWarnings), nil
}

// systemClasses are the classes that each cluster has, with their numbers (pkg/apis/scheduling/types.go).
var systemClasses = map[string]int32{"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

// setPriority sets the number of a system class where pod has none, as the API server does on admission.
// The numbers of other classes are known to a cluster only. A static pod does not need one: no priority
// makes it evictable.
func setPriority(pod *v1.Pod, static bool) []error {
	class := pod.Spec.PriorityClassName
	if class == "" || pod.Spec.Priority != nil {
		return nil
	}
	if number, system := systemClasses[class]; system {
		pod.Spec.Priority = &number
		return nil
	}
	if static {
		return nil
	}
	return []error{fmt.Errorf("spec.priorityClassName: %q has no number here, so the pod has priority 0; want the number of the class in spec.priority", printable.Shown(class))}
}

// negative returns errors for negative amounts, which the API server would refuse.
func negative(pod *v1.Pod) []error {
	var out []error
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil && *s < 0 {
		out = append(out, fmt.Errorf("spec.terminationGracePeriodSeconds: %d is negative", *s))
	}
	check := func(path string, r *v1.ResourceRequirements) {
		for i, list := range []v1.ResourceList{r.Limits, r.Requests} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				if q := list[name]; q.Sign() < 0 {
					out = append(out, fmt.Errorf("%s.resources.%s.%s: %s is negative", path, []string{"limits", "requests"}[i], printable.Shown(string(name)), q.String()))
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

// inPlainWords rewrites err for readers who do not know Go.
func inPlainWords(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "":
		return fmt.Errorf("is of type %s, want a v1.Pod", wrong.Value)
	default:
		return fmt.Errorf("%s: is of type %s, want %s", wrong.Field, wrong.Value, strings.NewReplacer("*", "", "v1.", "", "[]", "list of ").Replace(wrong.Type.String()))
	}
}

func checkIdentity(pod *v1.Pod, static bool) error {
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return fmt.Errorf("is apiVersion %q, kind %q, want apiVersion \"v1\", kind \"Pod\"", printable.Shown(pod.APIVersion), printable.Shown(pod.Kind))
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

// checkName checks a name. It may be missing if want is empty.
func checkName(field, value, want string) error {
	switch {
	case value == "" && want != "":
		return fmt.Errorf("%s is missing, want %s", field, want)
	case len(value) > maxIdentity:
		return fmt.Errorf("%s %q has %d bytes, want at most %d", field, printable.Shown(value), len(value), maxIdentity)
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' }):
		return fmt.Errorf("%s %q has characters that no name in Kubernetes has", field, printable.Shown(value))
	}
	return nil
}
