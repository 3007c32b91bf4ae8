package config

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/crisocket"
)

// maxErrors bounds the errors reported for an invalid file.
const maxErrors = 50

type object = map[string]json.RawMessage

// decode applies evictd's own file to c.
func decode(c *Config, l *layer, data []byte) []error {
	doc, errs := fieldsIn(data, `fields and values such as "dryRun: true", or {} for all defaults`)
	if doc == nil {
		return errs
	}
	// A key without a value counts as missing.
	maps.DeleteFunc(doc, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	for field := range doc {
		l.keys[field] = field
	}
	return append(errs, lay(c, l, doc)...)
}

// fieldsIn returns a file's fields, nil if it cannot be parsed. want describes the file for errors.
func fieldsIn(data []byte, want string) (doc object, errs []error) {
	asJSON, errs, err := input.YAML(data, want)
	if err == nil {
		err = json.Unmarshal(asJSON, &doc)
	}
	if err != nil {
		return nil, append(errs, err)
	}
	return doc, errs
}

// lay applies the fields of doc to c. It reports and skips invalid ones, so that the rest is still
// checked.
func lay(c *Config, l *layer, doc object) []error {
	s := sieve{layer: l}
	s.entries(nil, whole, reflect.ValueOf(c).Elem(), doc)
	return s.errs
}

// sieve decodes the valid parts of a document into a Config.
type sieve struct {
	layer *layer
	errs  []error
}

// entries decodes the entries of a document at path, the path of f, into to: fields of a struct
// override what is there.
func (s *sieve) entries(path []string, f field, to reflect.Value, in object) {
	_, isStruct := tables[f.typ]
	for _, key := range slices.Sorted(maps.Keys(in)) {
		here := append(slices.Clip(path), key)
		entry, known := f.below(key)
		// In a struct a key without a value counts as missing.
		if len(s.errs) >= maxErrors || len(path) > 0 && isStruct && string(in[key]) == "null" {
			continue
		}
		if !known {
			s.errs = append(s.errs, unknown(here, tables[f.typ]))
			continue
		}
		value := reflect.New(entry.typ).Elem()
		if isStruct {
			value.Set(entry.in(to))
		}
		switch err := s.value(here, entry, value, in[key]); {
		case err != nil:
			s.errs, s.layer.refused = append(s.errs, err), append(s.layer.refused, steps(here))
		case isStruct:
			entry.lay(to, value)
		default:
			to.SetMapIndex(reflect.ValueOf(key).Convert(f.typ.Key()), value)
		}
	}
}

// value decodes the value at path, or returns what is wrong with it. One invalid entry does not
// hide another.
func (s *sieve) value(path []string, f field, to reflect.Value, value json.RawMessage) error {
	_, isStruct := tables[f.typ]
	if isMap := f.typ.Kind() == reflect.Map; isMap || isStruct {
		var inner object
		if json.Unmarshal(value, &inner) == nil && inner != nil {
			if isMap {
				to.Set(reflect.MakeMap(f.typ))
			}
			s.entries(path, f, to, inner)
			return nil
		}
	}
	to.SetZero()
	strict, err := input.Decode(value, to.Addr().Interface())
	if null := string(value) == "null" && path[0] != "plugins"; null || err != nil || len(strict) > 0 {
		return wrong(steps(path), string(value), f.want())
	}
	return nil
}

// Expected apiVersion and kind of a file of the kubelet.
const (
	kubeletVersion = "kubelet.config.k8s.io/v1beta1"
	kubeletKind    = "KubeletConfiguration"
)

// decodeKubelet applies the kubelet's fields that evictd has, by their tags, to c, and ignores the
// rest of the file. It returns all fields of the file, nil if it cannot be parsed. In a drop-in
// null removes what other files set.
func decodeKubelet(c *Config, l *layer, data []byte, dropIn bool) (object, []error) {
	doc, errs := fieldsIn(data, "a "+kubeletKind)
	if doc == nil {
		return nil, errs
	}
	ours := kubeletFields()
	errs = slices.DeleteFunc(errs, func(err error) bool {
		twice, ok := errors.AsType[printable.FieldError](err)
		return ok && ours[twice.Path[0]].name == ""
	})
	errs = append(errs, checkKind(doc)...)
	given := doc
	if dropIn {
		pruned := tree{}
		mergePatch(pruned, treeOf(doc))
		given = objectOf(pruned)
	}
	return doc, append(errs, layKubelet(c, l, given)...)
}

// kubeletFields returns the fields of c by their keys in the kubelet's file.
func kubeletFields() map[string]field {
	ours := map[string]field{}
	for _, f := range tables[reflect.TypeFor[Config]()] {
		if f.kubelet != "" {
			ours[f.kubelet] = f
		}
	}
	return ours
}

// layKubelet applies the fields of a kubelet's file to c.
func layKubelet(c *Config, l *layer, doc object) []error {
	ours := kubeletFields()
	fields := make(object, len(ours))
	for key, f := range ours {
		if value := doc[key]; len(value) > 0 && string(value) != "null" {
			if value = kubeletValue(f, value, filepath.Dir(l.file)); value != nil {
				fields[f.name], l.keys[f.name] = value, key
			}
		}
	}
	return lay(c, l, fields)
}

// kubeletValue converts a value of the kubelet's file to evictd's: it applies the kubelet's
// implicit rules, and returns nil for the empty text, which the kubelet takes as unset. dir is the
// file's directory.
func kubeletValue(f field, value json.RawMessage, dir string) json.RawMessage {
	var text string
	switch {
	case f.name == "featureGates":
		return knownGates(value)
	case f.typ.Kind() != reflect.String || json.Unmarshal(value, &text) != nil:
		return value
	case text == "":
		return nil
	case strings.HasSuffix(f.name, "Endpoint"):
		text = crisocket.Endpoint(text)
	case f.name == "cgroupRoot" && !strings.HasPrefix(text, "/"): // cgroups are named from the root
		text = "/" + text
	case f.name == "staticPodPath" && !filepath.IsAbs(text): // relative to the file
		if abs, err := filepath.Abs(filepath.Join(dir, text)); err == nil {
			text = abs
		}
	}
	full, err := json.Marshal(text)
	if err != nil {
		return value
	}
	return full
}

// knownGates removes the many gates that do not concern evictd, so that they are not reported as
// unknown.
func knownGates(value json.RawMessage) json.RawMessage {
	var gates object
	if json.Unmarshal(value, &gates) != nil || gates == nil {
		return value
	}
	maps.DeleteFunc(gates, func(name string, _ json.RawMessage) bool { return !slices.Contains(features, name) })
	out, err := json.Marshal(gates)
	if err != nil {
		return value
	}
	return out
}

// checkKind rejects another program's file, which would otherwise pass as one without settings.
func checkKind(doc object) []error {
	var errs []error
	for _, f := range []struct{ key, want string }{{"apiVersion", kubeletVersion}, {"kind", kubeletKind}} {
		value, ok := doc[f.key]
		if got := string(value); got != strconv.Quote(f.want) {
			if !ok {
				got = "not given"
			}
			errs = append(errs, invalid([]string{f.key}, "%s, want %q", printable.Shown(got), f.want))
		}
	}
	return errs
}
