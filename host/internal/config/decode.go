package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	sigsjson "sigs.k8s.io/json"
)

// maxErrors bounds what a file of rubbish can make us say.
const maxErrors = 50

// depths says how many levels of a field are told apart, so that one bad entry
// does not hide another. What is not listed has one.
var depths = map[string]int{
	"evictionHard": 2, "evictionSoft": 2, "evictionSoftGracePeriod": 2, "evictionMinimumReclaim": 2,
	"featureGates": 2, "summary": 2,
	"plugins": 3,
}

type object = map[string]json.RawMessage

// decode lays the file's data over c. What is wrong is reported and left out, so
// that the rest can still be checked.
func (c *Config) decode(data []byte) []error {
	asJSON, errs := toJSON(data)
	if asJSON == nil {
		return errs
	}
	var doc object
	if err := json.Unmarshal(asJSON, &doc); err != nil {
		return append(errs, fmt.Errorf("not a mapping of fields to values: %w", err))
	}
	s := sieve{errs: errs}
	for _, field := range slices.Sorted(maps.Keys(doc)) {
		if string(doc[field]) == "null" {
			delete(doc, field) // a key without a value is as good as no key
			continue
		}
		s.field([]string{field}, doc)
	}
	s.dropUnpaired(doc)
	rest, err := json.Marshal(doc)
	if err != nil {
		return append(s.errs, err)
	}
	if _, err := sigsjson.UnmarshalStrict(rest, c); err != nil {
		return append(s.errs, err)
	}
	return s.errs
}

// sieve takes out of a document what does not fit into a Config.
type sieve struct {
	errs []error
	// badGrace are the signals whose grace period was taken out, or all.
	badGrace    []string
	badAllGrace bool
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
		s.badAllGrace = true
		return
	}
	s.badGrace = append(s.badGrace, path[1])
}

// dropUnpaired forgets soft thresholds whose grace period was reported already:
// to say that it is missing would send the reader the wrong way.
func (s *sieve) dropUnpaired(doc object) {
	if s.badAllGrace {
		delete(doc, "evictionSoft")
	}
	var soft object
	if len(s.badGrace) == 0 || json.Unmarshal(doc["evictionSoft"], &soft) != nil {
		return
	}
	for _, signal := range s.badGrace {
		delete(soft, signal)
	}
	if raw, err := json.Marshal(soft); err == nil {
		doc["evictionSoft"] = raw
	}
}
