package cri

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/quantity"
)

// maxIdentity bounds names and uids: Kubernetes allows 253 bytes in a name.
const maxIdentity = 253

// maxWarnings bounds what a manifest of rubbish can make us say.
const maxWarnings = 10

// decode reads one v1.Pod from YAML or JSON and fills in the API's defaults.
// warning is what the API server would refuse and the kubelet overlooks: unknown
// fields and duplicate keys. It does not cost the pod its manifest, because a
// manifest of a newer Kubernetes must not make a pod safe from eviction.
func decode(data []byte, isJSON bool) (pod *v1.Pod, warning, err error) {
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
		return nil, nil, err
	}
	if err := checkIdentity(pod); err != nil {
		return nil, nil, err
	}
	setDefaults(pod)
	return pod, input.ClipAll(append(warnings, strict...), maxWarnings), nil
}

// wantPod completes what was said of a file that has nothing in it.
func wantPod(err error) error {
	if errors.Is(err, input.ErrEmpty) || errors.Is(err, input.ErrNoMapping) {
		return fmt.Errorf("%w, want a v1.Pod", err)
	}
	return err
}

func checkIdentity(pod *v1.Pod) error {
	if pod.APIVersion != "v1" || pod.Kind != "Pod" {
		return fmt.Errorf("is apiVersion %q, kind %q, want apiVersion \"v1\", kind \"Pod\"", clip(pod.APIVersion), clip(pod.Kind))
	}
	return errors.Join(
		checkName("metadata.uid", string(pod.UID), true),
		checkName("metadata.name", pod.Name, true),
		checkName("metadata.namespace", pod.Namespace, false),
	)
}

func checkName(field, value string, required bool) error {
	switch {
	case value == "" && required:
		return fmt.Errorf("%s is missing, want the one that the runtime knows the pod by", field)
	case len(value) > maxIdentity:
		return fmt.Errorf("%s %q has %d bytes, want at most %d", field, clip(value), len(value), maxIdentity)
	case strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' }):
		return fmt.Errorf("%s %q has characters that no name in Kubernetes has", field, clip(value))
	}
	return nil
}

// clip keeps a hostile value from filling the log.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
