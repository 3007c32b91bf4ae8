package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	sigsjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/quantity"
)

// maxErrors bounds what a file of rubbish can make us say.
const maxErrors = 50

type object = map[string]json.RawMessage

// decode lays evictd's own file over c.
func decode(c *Config, l *layer, data []byte) []error {
	doc, errs := fieldsIn(data, "at least one field, or {} for all defaults", `fields and values such as "dryRun: true"`)
	if doc == nil {
		return errs
	}
	// A key without a value is as good as no key.
	maps.DeleteFunc(doc, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	for field := range doc {
		l.keys[field] = field
	}
	return append(errs, lay(c, l, doc)...)
}

// fieldsIn returns a file's fields, nil if nothing can be made of it. The last two are
// wanted of a file that is empty, and of one that is no mapping.
func fieldsIn(data []byte, something, mapping string) (doc object, errs []error) {
	asJSON, errs, err := input.YAML(data, maxErrors, pathString)
	switch {
	case err == nil:
		err = json.Unmarshal(asJSON, &doc)
	case errors.Is(err, input.ErrEmpty):
		err = fmt.Errorf("%w, want %s", err, something)
	case errors.Is(err, input.ErrNoMapping):
		err = fmt.Errorf("%w, want %s", err, mapping)
	}
	if err != nil {
		return nil, append(errs, err)
	}
	return doc, errs
}

// lay puts the fields of doc in place of c's. What is wrong is reported and left
// out, so that the rest can still be checked.
func lay(c *Config, l *layer, doc object) []error {
	s := sieve{layer: l}
	s.entries(nil, whole, reflect.ValueOf(c).Elem(), doc)
	return s.errs
}

// sieve takes from a document what fits into a Config.
type sieve struct {
	layer *layer
	errs  []error
}

// entries puts what is in a document at path, which is that of f, into to: the
// fields of a struct over what is there.
func (s *sieve) entries(path []string, f field, to reflect.Value, in object) {
	_, isStruct := tables[f.typ]
	for _, key := range slices.Sorted(maps.Keys(in)) {
		here := append(slices.Clip(path), key)
		entry, known := f.below(key)
		// In a struct a key without a value is as good as none.
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
			s.errs = append(s.errs, err)
			s.layer.refused = append(s.layer.refused, pathString(here))
		case isStruct:
			entry.lay(to, value)
		default:
			to.SetMapIndex(reflect.ValueOf(key).Convert(f.typ.Key()), value)
		}
	}
}

// value reads the value at path, or says why it cannot stand there. One bad entry of
// it does not hide another.
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
	null := string(value) == "null" && path[0] != "plugins"
	if null || quantity.CheckJSON(value, f.typ) != nil {
		return wrong(pathString(path), string(value), f.want())
	}
	to.SetZero()
	if strict, err := sigsjson.UnmarshalStrict(value, to.Addr().Interface()); err != nil || len(strict) > 0 {
		return wrong(pathString(path), string(value), f.want())
	}
	return nil
}

// What a file of the kubelet says it is.
const (
	kubeletVersion = "kubelet.config.k8s.io/v1beta1"
	kubeletKind    = "KubeletConfiguration"
)

// decodeKubelet lays what the kubelet's file has of interest over c: the keys of
// which a field's tag has the name. The rest of the file is for the kubelet alone.
// It returns all fields of the file, nil if nothing can be made of it. In a drop-in null
// takes away what other files give.
func decodeKubelet(c *Config, l *layer, data []byte, dropIn bool) (object, []error) {
	doc, errs := fieldsIn(data, "a "+kubeletKind, "a "+kubeletKind)
	if doc == nil {
		return nil, errs
	}
	ours := kubeletFields()
	errs = slices.DeleteFunc(errs, func(err error) bool { return ours[topField(err)].name == "" })
	errs = append(errs, checkKind(doc)...)
	given := doc
	if dropIn {
		given = object{}
		mergePatch(given, doc)
	}
	return doc, append(errs, layKubelet(c, l, given)...)
}

// kubeletFields returns the fields that a kubelet's file has, by its keys.
func kubeletFields() map[string]field {
	ours := map[string]field{}
	for _, f := range tables[reflect.TypeFor[Config]()] {
		if f.kubelet != "" {
			ours[f.kubelet] = f
		}
	}
	return ours
}

// layKubelet lays the fields of a kubelet's file over c.
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

// kubeletValue returns the value of a field as evictd has it: with what the kubelet
// takes for granted, and nil for the empty text, which is none to the kubelet. dir is
// where the file is.
func kubeletValue(f field, value json.RawMessage, dir string) json.RawMessage {
	var text string
	switch {
	case f.name == "featureGates":
		return knownGates(value)
	case f.typ.Kind() != reflect.String || json.Unmarshal(value, &text) != nil:
		return value
	case text == "":
		return nil
	case strings.HasSuffix(f.name, "Endpoint") && strings.HasPrefix(text, "/"): // a path is that of a socket
		text = "unix://" + text
	case f.name == "cgroupRoot" && !strings.HasPrefix(text, "/"): // cgroups are named from the root
		text = "/" + text
	case f.name == "staticPodPath" && !filepath.IsAbs(text): // from where the file is
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

// knownGates leaves out the many gates that are none of evictd's business, so that
// they do not count as slips.
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

// checkKind keeps another program's file from passing as one without settings.
func checkKind(doc object) []error {
	var errs []error
	for _, f := range []struct{ key, want string }{{"apiVersion", kubeletVersion}, {"kind", kubeletKind}} {
		value, ok := doc[f.key]
		if got := string(value); got != strconv.Quote(f.want) {
			if !ok {
				got = "not given"
			}
			errs = append(errs, fmt.Errorf("%s: %s, want %q", f.key, input.Shown(got), f.want))
		}
	}
	return errs
}
