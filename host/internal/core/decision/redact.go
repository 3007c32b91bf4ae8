package decision

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	// qualified matches what may be the namespace and the name of a pod. A namespace has no dots, unlike the first
	// part of a custom signal or of an image.
	qualified = regexp.MustCompile(`(^|[^A-Za-z0-9./_-])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?`)
	// uuid matches a uid, also as in the name of a cgroup.
	uuid = regexp.MustCompile(`[0-9a-f]{8}(?:[-_]?[0-9a-f]{4}){3}[-_]?[0-9a-f]{12}`)
)

// ForNamespace returns copies of decisions for readers of a namespace. A pod of another namespace is "another pod 1"
// or so, the same in all of them, and has nothing but the figures that the order is made of. The error names a
// decision that is damaged.
func ForNamespace(all []*Decision, namespace string) ([]*Decision, error) {
	r := &redaction{namespace: namespace, names: map[string]string{}, own: map[string]bool{}}
	out := make([]*Decision, len(all))
	for i, d := range all {
		if err := again(d, &out[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", d.ID, err)
		}
		r.pods(out[i])
	}
	known := slices.SortedFunc(maps.Keys(r.names), func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	pairs := make([]string, 0, 2*len(known))
	for _, name := range known {
		pairs = append(pairs, name, r.names[name])
	}
	r.replacer = strings.NewReplacer(pairs...)
	for _, d := range out {
		var document any
		if err := again(d, &document); err != nil {
			return nil, fmt.Errorf("%s: %w", d.ID, err)
		}
		*d = Decision{}
		if err := again(r.text(document), d); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// again decodes the document of from into a value. Numbers keep their digits.
func again(from, into any) error {
	document, err := json.Marshal(from)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	return d.Decode(into)
}

// A redaction replaces the names of pods of other namespaces than one.
type redaction struct {
	namespace string
	// names has the text that stands for a pod, replacer replaces them in texts.
	names    map[string]string
	replacer *strings.Replacer
	// own has the uids of pods of the namespace.
	own map[string]bool
}

// another replaces the name and the uid of a pod of another namespace, and reports whether it was one.
func (r *redaction) another(pod, uid *string) bool {
	if strings.HasPrefix(*pod, r.namespace+"/") {
		r.own[*uid] = true
		return false
	}
	if *pod == "" {
		return false
	}
	name, known := r.names[*pod]
	if !known {
		name = fmt.Sprintf("another pod %d", len(r.names)+1)
		r.names[*pod] = name
	}
	*pod, *uid = name, name
	return true
}

// pods replaces pods where a record has fields for them.
func (r *redaction) pods(d *Decision) {
	for i := range d.Candidates {
		if c := &d.Candidates[i]; r.another(&c.Pod, &c.UID) {
			*c = Candidate{
				UID: c.UID, Pod: c.Pod, Priority: c.Priority, QoS: c.QoS, Started: c.Started, MemoryRequest: c.MemoryRequest,
				StorageRequest: c.StorageRequest, State: c.State, Usage: c.Usage, AtMost: c.AtMost,
			}
		}
	}
	for i := range d.Protected {
		r.another(&d.Protected[i].Pod, &d.Protected[i].UID)
	}
	if v := d.Victim; v != nil && r.another(&v.Pod, &v.UID) {
		v.Message, v.Owner = "", ""
	}
	for i := range d.Curves {
		r.another(&d.Curves[i], new(string))
	}
	for i := range d.Usage {
		r.another(&d.Usage[i].First, new(string))
	}
	if d.Growth == nil {
		return
	}
	for i := range d.Growth.Most {
		r.another(&d.Growth.Most[i].Pod, &d.Growth.Most[i].UID)
	}
}

// text replaces pods in all texts of a document.
func (r *redaction) text(value any) any {
	switch value := value.(type) {
	case string:
		text := uuid.ReplaceAllStringFunc(r.replacer.Replace(value), func(found string) string {
			if r.own[strings.ReplaceAll(found, "_", "-")] {
				return found
			}
			return "another uid"
		})
		return qualified.ReplaceAllStringFunc(text, func(found string) string {
			parts := qualified.FindStringSubmatch(found)
			if parts[2] == r.namespace {
				return found
			}
			return parts[1] + "another pod"
		})
	case []any:
		for i := range value {
			value[i] = r.text(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = r.text(value[key])
		}
	}
	return value
}
