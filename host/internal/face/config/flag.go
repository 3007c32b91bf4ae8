package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/ground/quantity"
	"github.com/evictd/evictd/host/internal/node/programs"
)

// OwnFile is the path of evictd's own file in packages and the chart.
const OwnFile = "/etc/evictd/evictd.yaml"

// Flags holds the configuration from the command line. The kubelet's flags have the kubelet's names
// and syntax.
type Flags struct {
	// file is --config, kubeletFile --kubelet-config, kubeletDir --kubelet-config-dir.
	file, kubeletFile, kubeletDir source
	// text stands in for the content of file, nil to read it.
	text []byte
	// values and only hold the values of flags, by the fields' names; given says which were set.
	values map[string]reflect.Value
	only   kubeletFlags
	given  layer
	errs   []error
}

// AddFlags defines the flags on fs.
func AddFlags(fs *pflag.FlagSet) *Flags {
	f := &Flags{values: map[string]reflect.Value{}, given: layer{keys: map[string]string{}}}
	setDefaults(&f.only)
	f.file, f.kubeletFile, f.kubeletDir = source{flags: f, name: "config"}, source{flags: f, name: "kubelet-config"}, source{flags: f, name: "kubelet-config-dir"}
	fs.Var(&f.file, f.file.name, "configuration file (YAML); flags beat it (default "+OwnFile+" if it exists)")
	fs.Var(&f.kubeletFile, f.kubeletFile.name, "the kubelet's configuration file; --config beats it")
	fs.Var(&f.kubeletDir, f.kubeletDir.name, "the kubelet's directory of drop-ins, as its --config-dir; they are laid over --kubelet-config")
	for _, row := range tables[reflect.TypeFor[Config]()] {
		f.define(fs, row, reflect.New(row.typ).Elem())
	}
	for _, row := range tables[reflect.TypeFor[kubeletFlags]()] {
		f.define(fs, row, row.in(reflect.ValueOf(&f.only).Elem()))
	}
	now := fs.Lookup("kernel-memcg-notification")
	former := fs.VarPF(now.Value, "experimental-kernel-memcg-notification", "", "the former spelling of --"+now.Name)
	former.NoOptDefVal = now.NoOptDefVal
	return f
}

// define defines the flag of a field, if it has one, with its value in at.
func (f *Flags) define(fs *pflag.FlagSet, row field, at reflect.Value) {
	if row.usage == "" {
		return
	}
	defined := fs.VarPF(&flagValue{flags: f, field: row, at: at, text: row.def}, row.flag(), "", row.usage)
	if row.typ == reflect.TypeFor[bool]() {
		defined.NoOptDefVal = "true"
	}
}

// KeyOf returns the field of the file whose name in kebab case is flag, "" if there is none.
func KeyOf(flag string) string {
	for _, row := range tables[reflect.TypeFor[Config]()] {
		if row.flag() == flag {
			return row.name
		}
	}
	return ""
}

func (f *Flags) apply(c *Config) {
	to := reflect.ValueOf(c).Elem()
	for _, row := range tables[to.Type()] {
		if value, given := f.values[row.name]; given {
			row.lay(to, value)
		}
	}
	if f.only.IgnoreEviction {
		c.EnforceNodeAllocatable = []string{}
	}
}

// source implements pflag.Value for the name of a file or directory. A second value is an error, as
// the last would silently win.
type source struct {
	flags *Flags
	name  string
	given bool
	text  string
}

// Type implements pflag.Value.
func (*source) Type() string { return "string" }

// Set implements pflag.Value.
func (v *source) Set(s string) error {
	if v.given {
		v.flags.errs = append(v.flags.errs, fmt.Errorf("--%s: given twice, %q and %q: want one", v.name, printable.Shown(v.text), printable.Shown(s)))
	}
	v.given, v.text = true, s
	return nil
}

// String implements pflag.Value.
func (v *source) String() string { return v.text }

// flagValue implements pflag.Value. It collects bad values instead of returning errors: pflag would
// stop at the first.
type flagValue struct {
	flags *Flags
	field field
	at    reflect.Value
	// text is the last value that was set, or the default.
	text string
}

// Type implements pflag.Value.
func (v *flagValue) Type() string {
	switch v.at.Interface().(type) {
	case metav1.Duration:
		return "duration"
	case []string:
		return "strings"
	case map[string]string, map[string]bool:
		return "mapping"
	default:
		return v.at.Kind().String()
	}
}

// Set implements pflag.Value.
func (v *flagValue) Set(s string) error {
	given := &v.flags.given
	if given.keys[v.field.name] == "" {
		v.at.SetZero()
	}
	v.text = s
	want, ok := v.field.parse(v.at, s)
	if ok {
		given.keys[v.field.name], v.flags.values[v.field.name] = v.field.flag(), v.at
		return nil
	}
	v.flags.errs = append(v.flags.errs, given.named(wrong([]string{v.field.name}, strconv.Quote(s), want)))
	given.refused = append(given.refused, []string{v.field.name})
	return nil
}

// String implements pflag.Value.
func (v *flagValue) String() string { return v.text }

// parse adds the value s of a flag to at, which is zero before the first. On failure it returns
// what is expected.
func (f field) parse(at reflect.Value, s string) (want string, ok bool) {
	var err error
	switch value := at.Addr().Interface().(type) {
	case *string:
		*value = s
	case *bool:
		*value, err = strconv.ParseBool(s)
	case *int32:
		var n int64
		n, err = strconv.ParseInt(s, 0, 32)
		*value = int32(n)
	case *metav1.Duration:
		value.Duration, err = time.ParseDuration(s)
	case *resource.Quantity:
		*value, err = quantity.Parse(s)
	case *[]string:
		*value = append([]string{}, *value...) // the empty text makes an empty list
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				*value = append(*value, item)
			}
		}
	case *map[string]string:
		return "signal" + f.separator + "value, comma-separated",
			addPairs(value, s, f.separator, func(s string) (string, error) { return s, nil })
	case *map[string]bool:
		return "Name=true or Name=false, comma-separated", addPairs(value, s, f.separator, strconv.ParseBool)
	}
	return f.want(), err == nil
}

// addPairs adds pairs to a mapping in the kubelet's syntax: comma-separated, spaces and empty parts
// ignored, the last one of a key wins (component-base/cli/flag). The empty text makes an empty
// mapping. If it returns false it has added nothing.
func addPairs[V any](to *map[string]V, s, separator string, read func(string) (V, error)) bool {
	m := make(map[string]V, len(*to))
	maps.Copy(m, *to)
	for part := range strings.SplitSeq(s, ",") {
		if part == "" {
			continue
		}
		key, text, ok := strings.Cut(part, separator)
		value, err := read(strings.TrimSpace(text))
		if !ok || err != nil {
			return false
		}
		m[strings.TrimSpace(key)] = value
	}
	*to = m
	return true
}

// kubeletFlagsIn returns what a kubelet's flags set, by the keys of its file.
func kubeletFlagsIn(args []string) object {
	doc := object{}
	put := func(key string, f field) {
		name, at := kebab(key), reflect.New(f.typ).Elem()
		if key == "staticPodPath" {
			name = "pod-manifest-path"
		}
		given := programs.FlagsOf(args, strings.Replace(name, "-q-o-s", "-qos", 1), f.typ.Kind() == reflect.Bool)
		for _, text := range given {
			f.parse(at, text) // a kubelet with a wrong one does not start
		}
		if value, err := json.Marshal(at.Interface()); err == nil && given != nil {
			doc[key] = value
		}
	}
	for key, f := range kubeletFields() {
		put(key, f)
	}
	for _, key := range []string{"kubeReserved", "systemReserved"} {
		put(key, field{typ: reflect.TypeFor[map[string]string](), separator: "="})
	}
	return doc
}
