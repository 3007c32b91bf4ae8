package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/typo"
)

// A field is one row of the table in the tags of Config, Summary and Plugin:
//
//	json     its name in the file
//	is       its kind, see kinds; none for booleans and fields with oneof
//	oneof    the valid texts, including "" if that is the default
//	default  its default value, in the syntax of the command line
//	flag     the help text of its flag, whose name is the field's in kebab case; without
//	         this tag there is no flag
//	pairs    the separator of key and value on the command line, default "="
//	reload   "no" if it cannot change while evictd runs
//	kubelet  its name in a KubeletConfiguration
//	kubelets the kubelet's default, if that is another one
//	beside   how check compares it with the kubelet's: "signals" by signal, "detected" only where
//	         both are given, "cri" as a note with other modes; without this tag by value, with the defaults
type field struct {
	name, usage, def, separator string
	kubelet, kubelets, beside   string
	kind                        kind
	fixed                       bool
	typ                         reflect.Type
	index                       int
}

// tables holds the fields of all structs of a configuration.
var tables = map[reflect.Type][]field{
	reflect.TypeFor[Config]():       fieldsOf(reflect.TypeFor[Config]()),
	reflect.TypeFor[Summary]():      fieldsOf(reflect.TypeFor[Summary]()),
	reflect.TypeFor[Plugin]():       fieldsOf(reflect.TypeFor[Plugin]()),
	reflect.TypeFor[kubeletFlags](): fieldsOf(reflect.TypeFor[kubeletFlags]()),
}

func fieldsOf(t reflect.Type) []field {
	fields := make([]field, 0, t.NumField())
	for f := range t.Fields() {
		if f.Tag.Get("json") == "-" {
			continue
		}
		row := field{
			usage: f.Tag.Get("flag"), def: f.Tag.Get("default"), separator: cmp.Or(f.Tag.Get("pairs"), "="), kubelet: f.Tag.Get("kubelet"),
			kubelets: f.Tag.Get("kubelets"), beside: f.Tag.Get("beside"),
			fixed: f.Tag.Get("reload") == "no", typ: f.Type, index: f.Index[0],
		}
		row.name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
		switch texts := f.Tag.Get("oneof"); {
		case texts != "":
			row.kind = oneOf(strings.Fields(texts), row.def == "")
		case f.Type == reflect.TypeFor[bool]() || f.Type == reflect.TypeFor[*bool]():
			row.kind = kind{wants: []string{"true or false"}}
		default:
			row.kind = kinds[f.Tag.Get("is")]
		}
		fields = append(fields, row)
	}
	return fields
}

func (f field) in(s reflect.Value) reflect.Value { return s.Field(f.index) }

// want describes a valid value, for the end of an error.
func (f field) want() string {
	if want := f.kind.wants[0]; strings.Contains(want, "%q") {
		return fmt.Sprintf(want, f.def)
	}
	return f.kind.wants[0]
}

func (f field) flag() string { return kebab(f.name) }

func kebab(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// each calls do for all fields of the struct at path, recursively.
func each(path []string, s reflect.Value, do func(path []string, f field, at reflect.Value)) {
	for _, f := range tables[s.Type()] {
		here, at := append(slices.Clip(path), f.name), f.in(s)
		do(here, f, at)
		if tables[f.typ] != nil {
			each(here, at, do)
		}
	}
}

// below returns the field or mapping entry named key in f, and whether it exists.
func (f field) below(key string) (field, bool) {
	fields, isStruct := tables[f.typ]
	if i := slices.IndexFunc(fields, func(f field) bool { return f.name == key }); i >= 0 {
		return fields[i], true
	}
	if isStruct || f.typ == nil || f.typ.Kind() != reflect.Map {
		return field{}, false
	}
	entry := field{name: key, typ: f.typ.Elem()}
	if len(f.kind.wants) > 1 {
		entry.kind.wants = f.kind.wants[1:]
	}
	return entry, true
}

// lay replaces the field's value in to by value; feature gates are merged one by one, like in the
// kubelet (kubeletConfigFlagPrecedence).
func (f field) lay(to, value reflect.Value) {
	at := f.in(to)
	gates, ok := reflect.TypeAssert[map[string]bool](at)
	if !ok {
		at.Set(value)
		return
	}
	merged := make(map[string]bool, len(gates)+value.Len())
	maps.Copy(merged, gates)
	maps.Copy(merged, value.Interface().(map[string]bool))
	at.Set(reflect.ValueOf(merged))
}

// whole is the configuration as a field.
var whole = field{typ: reflect.TypeFor[Config]()}

// steps formats a path like the kubelet's errors: fields with dots, and keys of mappings, which may
// contain dots, in brackets.
func steps(path []string) []string {
	out := make([]string, len(path))
	for i, f := 0, whole; i < len(path); i++ {
		p := printable.Shown(path[i])
		// The capabilities of an assignment count as fields.
		dots := tables[f.typ] != nil || i == 2 && path[0] == "assign"
		switch {
		case i == 0 && plain(p):
			out[i] = p
		case i == 0:
			out[i] = strconv.Quote(p)
		case dots && plain(p):
			out[i] = "." + p
		default:
			out[i] = printable.Key(path[i])
		}
		f, _ = f.below(path[i])
	}
	return out
}

func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// invalid returns an error about the field at path.
func invalid(path []string, format string, args ...any) error {
	return printable.FieldError{Path: path, Err: fmt.Errorf(format, args...)}
}

// wrong returns the error for an invalid value, shown as given.
func wrong(path []string, value, want string) error {
	return invalid(path, "%s: want %s", printable.Shown(value), want)
}

// removed has the former fields, and what to use.
var removed = map[string]string{
	"removeEvictedPodsAfter": "the descheduler's RemoveFailedPods",

	"summary.address":            "server in the file of summary.kubeconfig",
	"summary.tokenFile":          "tokenFile in the file of summary.kubeconfig",
	"summary.certFile":           "client-certificate in the file of summary.kubeconfig",
	"summary.keyFile":            "client-key in the file of summary.kubeconfig",
	"summary.caFile":             "certificate-authority in the file of summary.kubeconfig",
	"summary.serverName":         "tls-server-name in the file of summary.kubeconfig",
	"summary.insecureSkipVerify": "insecure-skip-tls-verify in the file of summary.kubeconfig",
}

// unknown returns the error for a name that is none of fields.
func unknown(path []string, fields []field) error {
	if other, was := removed[strings.Join(path, ".")]; was {
		return invalid(steps(path), "was removed, use %s", other)
	}
	known := make([]string, 0, len(fields))
	for _, f := range fields {
		known = append(known, f.name)
	}
	if k := typo.Nearest(path[len(path)-1], known); k != "" {
		return invalid(steps(path), "unknown field, want %q", k)
	}
	slices.Sort(known)
	return invalid(steps(path), "unknown field, want one of %s", strings.Join(known, ", "))
}
