package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// syntax is a way to write a T on the command line. parse gets what the flag has
// gathered so far, the zero T the first time, and says what it wants in place
// of a text that it cannot read, "" for what the field's form says.
type syntax[T any] struct {
	name  string
	parse func(sofar T, s string) (v T, want string, ok bool)
	write func(T) string
}

// add defines the flag of a field. A bad value is noted rather than returned:
// pflag would stop at the first.
func add[T any](f *Flags, fs *pflag.FlagSet, field, usage string, as syntax[T], at func(*Config) *T) {
	b := &bound{flag: kebab(field), copy: func(to, from *Config) { *at(to) = *at(from) }}
	v := &flagValue[T]{flags: f, field: field, bound: b, as: as, at: at(&f.values)}
	f.bound[field] = b
	f.order = append(f.order, field)
	defined := fs.VarPF(v, b.flag, "", usage)
	if as.name == boolean.name {
		defined.NoOptDefVal = "true"
	}
}

type flagValue[T any] struct {
	flags *Flags
	field string
	bound *bound
	as    syntax[T]
	at    *T
}

func (v *flagValue[T]) Type() string { return v.as.name }

func (v *flagValue[T]) String() string { return v.as.write(*v.at) }

func (v *flagValue[T]) Set(s string) error {
	var sofar T
	if v.bound.set {
		sofar = *v.at
	}
	got, want, ok := v.as.parse(sofar, s)
	if ok {
		*v.at, v.bound.set = got, true
		return nil
	}
	v.bound.bad = true
	if want == "" {
		want = forms[v.field]
	}
	v.flags.errs = append(v.flags.errs, fmt.Errorf("--%s: %s: want %s", v.bound.flag, shown(strconv.Quote(s)), want))
	return nil
}

var text = syntax[string]{
	name:  "string",
	parse: func(_ string, s string) (string, string, bool) { return s, "", true },
	write: func(s string) string { return s },
}

var boolean = syntax[bool]{
	name:  "bool",
	parse: func(_ bool, s string) (bool, string, bool) { b, err := strconv.ParseBool(s); return b, "", err == nil },
	write: strconv.FormatBool,
}

var seconds = syntax[int32]{
	name: "int32",
	parse: func(_ int32, s string) (int32, string, bool) {
		n, err := strconv.ParseInt(s, 0, 32)
		return int32(n), "", err == nil
	},
	write: func(n int32) string { return strconv.Itoa(int(n)) },
}

var duration = syntax[metav1.Duration]{
	name: "duration",
	parse: func(_ metav1.Duration, s string) (metav1.Duration, string, bool) {
		d, err := time.ParseDuration(s)
		return metav1.Duration{Duration: d}, "", err == nil
	},
	write: func(d metav1.Duration) string { return d.Duration.String() },
}

// list is comma-separated; given twice it adds.
var list = syntax[[]string]{
	name: "strings",
	parse: func(sofar []string, s string) ([]string, string, bool) {
		items := slices.Clone(sofar)
		if items == nil {
			items = []string{}
		}
		for item := range strings.SplitSeq(s, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		return items, "", true
	},
	write: func(items []string) string { return strings.Join(items, ",") },
}

// pairs is the kubelet's way to write a mapping: comma-separated, spaces and
// empty parts ignored, the last one of a key wins, given twice it adds
// (component-base/cli/flag). The empty text makes an empty mapping.
func pairs(separator string) syntax[map[string]string] {
	return syntax[map[string]string]{
		name: "mapping",
		parse: func(sofar map[string]string, s string) (map[string]string, string, bool) {
			m := make(map[string]string, len(sofar))
			maps.Copy(m, sofar)
			for part := range strings.SplitSeq(s, ",") {
				if part == "" {
					continue
				}
				key, value, ok := strings.Cut(part, separator)
				if !ok {
					return nil, fmt.Sprintf("signal%svalue, comma-separated", separator), false
				}
				m[strings.TrimSpace(key)] = strings.TrimSpace(value)
			}
			return m, "", true
		},
		write: func(m map[string]string) string {
			var parts []string
			for _, k := range slices.Sorted(maps.Keys(m)) {
				parts = append(parts, k+separator+m[k])
			}
			return strings.Join(parts, ",")
		},
	}
}

// gates is the kubelet's way to write feature gates: Name=true, comma-separated.
var gates = syntax[map[string]bool]{
	name: "mapping",
	parse: func(sofar map[string]bool, s string) (map[string]bool, string, bool) {
		m := make(map[string]bool, len(sofar))
		maps.Copy(m, sofar)
		for part := range strings.SplitSeq(s, ",") {
			if part == "" {
				continue
			}
			key, value, ok := strings.Cut(part, "=")
			on, err := strconv.ParseBool(strings.TrimSpace(value))
			if !ok || err != nil {
				return nil, "Name=true or Name=false, comma-separated", false
			}
			m[strings.TrimSpace(key)] = on
		}
		return m, "", true
	},
	write: func(m map[string]bool) string {
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			parts = append(parts, k+"="+strconv.FormatBool(m[k]))
		}
		return strings.Join(parts, ",")
	},
}
