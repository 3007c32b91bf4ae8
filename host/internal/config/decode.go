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

// depths says how many levels of a field are told apart, so that one bad entry
// does not hide another. What is not listed has one.
var depths = map[string]int{
	"evictionHard": 2, "evictionSoft": 2, "evictionSoftGracePeriod": 2, "evictionMinimumReclaim": 2,
	"featureGates": 2, "summary": 2,
	"plugins": 3, "assign": 3,
}

var (
	errEmpty     = errors.New("is empty, want at least one field, or {} for all defaults")
	errNoMapping = errors.New("is not a mapping, want fields and values such as \"dryRun: true\"")
)

type object = map[string]json.RawMessage

// decode lays evictd's own file over c.
func (c *Config) decode(l *layer, data []byte) []error {
	doc, errs := fieldsOf(data)
	if doc == nil {
		return errs
	}
	// A key without a value is as good as no key.
	maps.DeleteFunc(doc, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	for field := range doc {
		l.keys[field] = field
	}
	return append(errs, c.lay(l, doc)...)
}

// fieldsOf returns a file's fields, nil if nothing can be made of it.
func fieldsOf(data []byte) (object, []error) {
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

// lay puts the fields of doc in place of c's; feature gates are laid over c's one
// by one. What is wrong is reported and left out, so that the rest can still be
// checked.
func (c *Config) lay(l *layer, doc object) []error {
	s := sieve{layer: l}
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		s.field([]string{field}, doc)
	}
	rest, err := json.Marshal(doc)
	if err != nil {
		return append(s.errs, err)
	}
	// Into a map that is there, entries would be added.
	for field, m := range map[string]*map[string]string{
		"evictionHard": &c.EvictionHard, "evictionSoft": &c.EvictionSoft,
		"evictionSoftGracePeriod": &c.EvictionSoftGracePeriod, "evictionMinimumReclaim": &c.EvictionMinimumReclaim,
	} {
		if doc[field] != nil {
			*m = nil
		}
	}
	if _, err := sigsjson.UnmarshalStrict(rest, c); err != nil {
		return append(s.errs, err)
	}
	return s.errs
}

// sieve takes out of a document what does not fit into a Config.
type sieve struct {
	layer *layer
	errs  []error
}

// field checks the last element of path, which is a key of in.
func (s *sieve) field(path []string, in object) {
	key := path[len(path)-1]
	if len(s.errs) >= maxErrors {
		delete(in, key)
		return
	}
	var inner object
	if len(path) < depths[path[0]] && json.Unmarshal(in[key], &inner) == nil && inner != nil {
		s.entries(path, inner)
		if raw, err := json.Marshal(inner); err == nil {
			in[key] = raw
			return
		}
	}
	if err := fits(path, in[key]); err != nil {
		s.errs = append(s.errs, err)
		delete(in, key)
		s.noteGrace(path)
	}
}

func (s *sieve) entries(path []string, inner object) {
	for _, key := range slices.Sorted(maps.Keys(inner)) {
		if string(inner[key]) == "null" && (path[0] == "summary" || path[0] == "plugins" && len(path) > 1) {
			delete(inner, key)
			continue
		}
		s.field(append(slices.Clip(path), key), inner)
	}
}

// fits reports why value cannot stand at path.
func fits(path []string, value json.RawMessage) error {
	doc := value
	for _, key := range slices.Backward(path) {
		var err error
		if doc, err = json.Marshal(object{key: doc}); err != nil {
			return fmt.Errorf("%s: %w", pathString(path), err)
		}
	}
	var into Config
	if quantity.CheckJSON(doc, reflect.TypeFor[Config]()) != nil {
		return fmt.Errorf("%s: %s: want %s", pathString(path), shown(string(value)), want(path))
	}
	strict, err := sigsjson.UnmarshalStrict(doc, &into)
	null := string(value) == "null" && path[0] != "plugins"
	switch {
	case err != nil || null:
		return fmt.Errorf("%s: %s: want %s", pathString(path), shown(string(value)), want(path))
	case len(strict) > 0:
		return unknown(path)
	default:
		return nil
	}
}

func (s *sieve) noteGrace(path []string) {
	if path[0] != "evictionSoftGracePeriod" {
		return
	}
	if len(path) == 1 {
		s.layer.badAllGrace = true
		return
	}
	s.layer.badGrace = append(s.layer.badGrace, path[1])
}
