package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// Fields are the values of an object by their paths, such as
// "pod.status.conditions[Ready].status".
type Fields map[string]string

// nameless are fields that do not depend on the eviction: managedFields names the writers of
// fields, and versions are the API server's.
var nameless = map[string]bool{"managedFields": true, "resourceVersion": true}

// keys are the fields that can name an element of a list, in order of preference.
var keys = []string{"type", "name", "mountPath", "key", "uid", "ip"}

// flatten adds all fields of a decoded JSON value below path.
func (f Fields) flatten(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if !nameless[name] {
				f.flatten(path+"."+name, field)
			}
		}
	case []any:
		for i, element := range v {
			f.flatten(path+"["+elementName(element, i)+"]", element)
		}
	default:
		f[path] = fmt.Sprint(v)
	}
}

func elementName(element any, index int) string {
	if object, ok := element.(map[string]any); ok {
		for _, key := range keys {
			if name, ok := object[key].(string); ok {
				return name
			}
		}
	}
	return fmt.Sprint(index)
}

// object adds all fields of an API object.
func (f Fields) object(path string, object any) error {
	raw, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("record %s: %w", path, err)
	}
	var decoded any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return fmt.Errorf("record %s: %w", path, err)
	}
	f.flatten(path, decoded)
	return nil
}

// varying are patterns of texts that differ between runs.
var varying = []stand{
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\b(containerd://)?[0-9a-f]{64}\b`), "HASH"},
	{regexp.MustCompile(`\bkube-api-access-[a-z0-9]{5}\b`), "kube-api-access"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(Ki|Mi|Gi)\b`), "AMOUNT"},
	// Other pods of the owner, whose name has been replaced before.
	{regexp.MustCompile(`\bOWNER-[a-z0-9]{5}\b`), "SIBLING"},
}

// A stand replaces a name that differs between runs.
type stand struct {
	name *regexp.Regexp
	with string
}

// stands returns stands for pairs of a name and its replacement, the longest name first, since
// pod names begin with their owner's. It skips empty names.
func stands(pairs ...string) []stand {
	sorted := slices.Collect(slices.Chunk(pairs, 2))
	slices.SortStableFunc(sorted, func(a, b []string) int { return cmp.Compare(len(b[0]), len(a[0])) })
	var out []stand
	for _, pair := range sorted {
		if pair[0] != "" {
			out = append(out, stand{regexp.MustCompile(`\b` + regexp.QuoteMeta(pair[0]) + `\b`), pair[1]})
		}
	}
	return out
}

// alike replaces what differs between runs in a text.
func alike(text string, names []stand) string {
	for _, n := range names {
		text = n.name.ReplaceAllString(text, n.with)
	}
	for _, v := range varying {
		text = v.name.ReplaceAllString(text, v.with)
	}
	return text
}

// element matches the name of an element in a path.
var element = regexp.MustCompile(`\[[^]]*\]`)

// normal replaces what differs between runs in values and in the names of elements.
func (f Fields) normal(names []stand) Fields {
	out := Fields{}
	for path, value := range f {
		path = element.ReplaceAllStringFunc(path, func(name string) string { return alike(name, names) })
		out[path] = alike(value, names)
	}
	return out
}
