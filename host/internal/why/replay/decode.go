package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
)

const (
	// maxErrors bounds the errors reported for an invalid file.
	maxErrors = 30

	// Defaults of a scenario: the kubelet's interval between passes, and its transition period.
	defaultAdvanceSeconds   = 10
	defaultTransitionPeriod = 5 * time.Minute
	defaultNodeName         = "node"
)

// defaultStart is the start time of scenarios that have none.
var defaultStart = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

// Decode decodes a trace or a bare scenario from JSON. The error has a line for each problem, with
// the field, the value and what is expected.
func Decode(data []byte) (*Trace, error) {
	var top map[string]json.RawMessage
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &top); err != nil {
		return nil, fmt.Errorf("not a trace or scenario: %w", err)
	}
	d := decoder{recorded: len(top["decisions"]) > 0}
	trace := &Trace{Scenario: blank()}
	if _, whole := top["scenario"]; whole {
		d.value("", data, reflect.ValueOf(trace).Elem())
	} else {
		d.value("", data, reflect.ValueOf(trace.Scenario).Elem())
	}
	if len(d.problems) == 0 {
		d.problems = trace.problems()
	}
	if len(d.problems) > 0 {
		return nil, printable.ClipAll(d.problems, maxErrors)
	}
	if c := &trace.Scenario.Config; c.Compatibility == "" && trace.Decisions != nil {
		if v := kubernetesVersion.FindStringSubmatch(trace.Decisions.Oracle); v != nil {
			c.Compatibility = v[1]
		}
	}
	return trace, nil
}

// kubernetesVersion matches the oracle of a recorded trace, such as "k8s.io/kubernetes v1.37.2".
var kubernetesVersion = regexp.MustCompile(`^k8s\.io/kubernetes v(\d+\.\d+)\.`)

func blank() *Scenario {
	return &Scenario{
		SchemaVersion:    SchemaVersion,
		StartTime:        metav1.NewTime(defaultStart),
		NodeName:         defaultNodeName,
		FilesystemLayout: LayoutShared,
		Config: Config{
			EvictionPressureTransitionPeriod: metav1.Duration{Duration: defaultTransitionPeriod},
			LocalStorageCapacityIsolation:    true,
		},
	}
}

// decoder decodes a document field by field, so that one wrong value does not hide another.
type decoder struct {
	problems
	// recorded: the pods are as the recorded manager had them, without defaults of an API server.
	recorded bool
}

// value decodes raw into v. Null leaves v unchanged.
func (d *decoder) value(path string, raw json.RawMessage, v reflect.Value) {
	t := v.Type()
	switch {
	case string(raw) == "null":
	case t == reflect.TypeFor[json.RawMessage]():
		if raw[0] != '{' {
			d.add(path, "%s: want the kubelet's stats summary, an object", shown(raw))
			return
		}
		v.SetBytes(raw)
	case t.Kind() == reflect.Pointer && ours(t.Elem()):
		if v.IsNil() {
			v.Set(reflect.New(t.Elem()))
		}
		d.object(path, raw, v.Elem())
	case ours(t):
		d.object(path, raw, v)
	case t.Kind() == reflect.Slice && (ours(t.Elem()) || t.Elem() == reflect.TypeFor[*v1.Pod]()):
		d.list(path, raw, v)
	default:
		d.leaf(path, raw, v)
	}
}

// ours reports whether a struct's fields are decoded one by one. Recorded decisions are not, as
// they are not written by hand.
func ours(t reflect.Type) bool {
	return slices.Contains([]reflect.Type{
		reflect.TypeFor[Trace](), reflect.TypeFor[Scenario](), reflect.TypeFor[Config](), reflect.TypeFor[Step](), reflect.TypeFor[Reclaim](),
	}, t)
}

func (d *decoder) object(path string, raw json.RawMessage, v reflect.Value) {
	var fields map[string]json.RawMessage
	twice, err := kjson.UnmarshalStrict(raw, &fields, kjson.DisallowDuplicateFields)
	if err != nil {
		d.add(path, "%s: want an object with some of %s", shown(raw), strings.Join(keysOf(v.Type()), ", "))
		return
	}
	for _, err := range twice {
		d.add(path, "%v", err)
	}
	if step, ok := reflect.TypeAssert[*Step](v.Addr()); ok {
		step.AdvanceSeconds = defaultAdvanceSeconds
	}
	for i, key := range keysOf(v.Type()) {
		if raw, ok := fields[key]; ok {
			d.value(join(path, key), raw, v.Field(i))
			delete(fields, key)
		}
	}
	for _, key := range sortedKeys(fields) {
		d.add(join(path, key), "unknown field, want one of %s", strings.Join(keysOf(v.Type()), ", "))
	}
}

func (d *decoder) list(path string, raw json.RawMessage, v reflect.Value) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		d.add(path, "%s: want a list", shown(raw))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		if string(item) == "null" {
			d.add(at, "null: want %s", form(v.Type().Elem()))
			continue
		}
		d.value(at, item, v.Index(i))
	}
}

func (d *decoder) leaf(path string, raw json.RawMessage, v reflect.Value) {
	strict, err := input.Decode(raw, v.Addr().Interface())
	if err != nil {
		strict = append(strict, err)
	} else if pod, ok := reflect.TypeAssert[*v1.Pod](v); ok && !d.recorded {
		pods.SetDefaults(pod)
	}
	for _, err := range strict {
		d.add(path, "%s: %v: want %s", shown(raw), err, form(v.Type()))
	}
}

// forms describes the values of types; all others are whole numbers.
var forms = map[reflect.Type]string{
	reflect.TypeFor[*v1.Pod]():           "a v1.Pod",
	reflect.TypeFor[Step]():              "a step",
	reflect.TypeFor[*Decisions]():        "recorded decisions",
	reflect.TypeFor[metav1.Time]():       "a time such as 2026-01-31T12:00:00Z",
	reflect.TypeFor[metav1.Duration]():   `a duration such as "5m0s"`,
	reflect.TypeFor[map[string]string](): `texts by name, such as {"memory.available": "100Mi"}`,
	reflect.TypeFor[map[string]bool]():   "true or false by name",
	reflect.TypeFor[[]string]():          "a list of texts",
	reflect.TypeFor[string]():            "a text",
	reflect.TypeFor[bool]():              "true or false",
	reflect.TypeFor[float64]():           "a number of seconds",
	reflect.TypeFor[*float64]():          "a number of seconds",
}

func form(t reflect.Type) string { return cmp.Or(forms[t], "a whole number") }

// keysOf returns the keys of a struct's fields, in order, but for fields outside of the format.
func keysOf(t reflect.Type) []string {
	keys := make([]string, 0, t.NumField())
	for f := range t.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

func join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

func shown(raw []byte) string { return printable.Shown(strings.Join(strings.Fields(string(raw)), " ")) }
