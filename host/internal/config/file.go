package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	sigsjson "sigs.k8s.io/json"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/quantity"
)

// maxErrors bounds what a file of rubbish can make us say.
const maxErrors = 50

var (
	errEmpty     = errors.New("is empty, want at least one field, or {} for all defaults")
	errNoMapping = errors.New("is not a mapping, want fields and values such as \"dryRun: true\"")
)

type object = map[string]json.RawMessage

// decode lays evictd's own file over c.
func decode(c *Config, l *layer, data []byte) []error {
	doc, errs := fieldsIn(data)
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

// fieldsIn returns a file's fields, nil if nothing can be made of it.
func fieldsIn(data []byte) (object, []error) {
	asJSON, errs, err := input.YAML(data, maxErrors, pathString)
	switch {
	case errors.Is(err, input.ErrEmpty):
		return nil, append(errs, errEmpty)
	case errors.Is(err, input.ErrNoMapping):
		return nil, append(errs, errNoMapping)
	case err != nil:
		return nil, append(errs, err)
	}
	var doc object
	if err := json.Unmarshal(asJSON, &doc); err != nil || doc == nil {
		return nil, append(errs, fmt.Errorf("not a mapping of fields to values: %w", err))
	}
	return doc, errs
}

// lay puts the fields of doc in place of c's. What is wrong is reported and left
// out, so that the rest can still be checked.
func lay(c *Config, l *layer, doc object) []error {
	s := sieve{layer: l}
	s.entries(nil, whole, doc)
	to := reflect.ValueOf(c).Elem()
	for _, f := range tables[to.Type()] {
		if doc[f.name] == nil {
			continue
		}
		value := reflect.New(f.typ)
		if f.typ.Kind() == reflect.Struct {
			value.Elem().Set(f.in(to)) // its fields are laid over what is there
		}
		if _, err := sigsjson.UnmarshalStrict(doc[f.name], value.Interface()); err != nil {
			s.errs = append(s.errs, fmt.Errorf("%s: %w", f.name, err))
			continue
		}
		f.lay(to, value.Elem())
	}
	return s.errs
}

// sieve takes out of a document what does not fit into a Config.
type sieve struct {
	layer *layer
	errs  []error
}

// entries checks what is in a document that is at path, which is that of f.
func (s *sieve) entries(path []string, f field, in object) {
	for _, key := range slices.Sorted(maps.Keys(in)) {
		here := append(slices.Clip(path), key)
		entry, known := f.below(key)
		// In a struct a key without a value is as good as none.
		if len(s.errs) >= maxErrors || len(path) > 0 && tables[f.typ] != nil && string(in[key]) == "null" {
			delete(in, key)
			continue
		}
		var err error
		if !known {
			err = unknown(here, tables[f.typ])
		} else if in[key], err = s.value(here, entry, in[key]); err == nil {
			continue
		}
		s.errs = append(s.errs, err)
		delete(in, key)
		s.layer.noteGrace(here)
	}
}

// value returns what is left of the value at path, or why it cannot stand there.
// One bad entry of it does not hide another.
func (s *sieve) value(path []string, f field, value json.RawMessage) (json.RawMessage, error) {
	var inner object
	if tables[f.typ] != nil || f.typ.Kind() == reflect.Map {
		if json.Unmarshal(value, &inner) == nil && inner != nil {
			s.entries(path, f, inner)
			return json.Marshal(inner)
		}
	}
	into := reflect.New(f.typ)
	null := string(value) == "null" && path[0] != "plugins"
	if null || quantity.CheckJSON(value, f.typ) != nil {
		return nil, wrong(pathString(path), string(value), f.want())
	}
	if strict, err := sigsjson.UnmarshalStrict(value, into.Interface()); err != nil || len(strict) > 0 {
		return nil, wrong(pathString(path), string(value), f.want())
	}
	return value, nil
}
