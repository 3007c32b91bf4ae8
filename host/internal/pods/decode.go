package pods

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/host/internal/quantity"
)

// maxIdentity bounds names and uids: Kubernetes allows 253 bytes in a name.
const maxIdentity = 253

// decode reads one v1.Pod from YAML or JSON and fills in the API's defaults.
// warning is what the API server would refuse and the kubelet overlooks: unknown
// fields and duplicate keys. It does not cost the pod its manifest, because a
// manifest of a newer Kubernetes must not make a pod safe from eviction.
func decode(data []byte, isJSON bool) (pod *v1.Pod, warning, err error) {
	if !isJSON {
		if data, warning, err = yamlToJSON(data); err != nil {
			return nil, nil, err
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
	return pod, errors.Join(append([]error{warning}, strict...)...), nil
}

// yamlToJSON converts the one document of a YAML file.
func yamlToJSON(data []byte) (out []byte, warning, err error) {
	doc, err := onlyDocument(data)
	if err != nil {
		return nil, nil, err
	}
	if out, err = yaml.YAMLToJSONStrict(doc); err == nil {
		return out, nil, nil
	}
	warning = err
	if out, err = yaml.YAMLToJSON(doc); err != nil {
		return nil, nil, err
	}
	return out, warning, nil
}

// onlyDocument refuses a file with several documents: a YAML parser would read
// the first and say nothing of the others.
func onlyDocument(data []byte) ([]byte, error) {
	var doc []byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		next, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if isBlank(next) {
			continue
		}
		if doc != nil {
			return nil, errors.New("has more than one document, want one pod in a file")
		}
		doc = next
	}
	if doc == nil {
		return nil, errors.New("is empty, want a v1.Pod")
	}
	return doc, nil
}

// isBlank reports whether a document has nothing but comments and separators.
func isBlank(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
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
