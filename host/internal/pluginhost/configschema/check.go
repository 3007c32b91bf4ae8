package configschema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/typo"
)

// Check returns all that is wrong with a plugin's configuration, one line each: the file and line, the field, the value
// and what is right. Without a configuration the schema applies to {}. at is where the configuration stands.
func (s *Schema) Check(config []byte, at input.Place) error {
	var value any = map[string]any{}
	if len(config) > 0 {
		d := json.NewDecoder(bytes.NewReader(config))
		d.UseNumber()
		if err := d.Decode(&value); err != nil {
			return at.Error(nil, printable.ClipText(err.Error()))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = maxWork
	err := s.compiled.Validate(value)
	wrong, ok := errors.AsType[*jsonschema.ValidationError](err)
	switch {
	case s.left < 0: // What was found since is not reliable, nor is the absence of errors.
		return at.Error(nil, errWork.Error())
	case !ok:
		return err
	}
	r := renderer{document: value, schemas: s.schemas, place: at, left: maxErrors}
	r.each(wrong)
	return r.err()
}

// Verify returns what is wrong with a schema, or with a configuration by that schema.
func Verify(schema, config []byte, at input.Place) error {
	s, err := Compile(schema)
	if err != nil {
		return err
	}
	return s.Check(config, at)
}

// renderer collects the texts of what is wrong with a document. It makes at most left of them, as each may be long.
type renderer struct {
	document any
	schemas  map[string]map[string]any
	place    input.Place
	left     int
	problems []problem
}

type problem struct {
	at   []string
	text string
}

func (r *renderer) err() error {
	slices.SortFunc(r.problems, func(a, b problem) int {
		return cmp.Or(r.place.Line(a.at)-r.place.Line(b.at), slices.Compare(a.at, b.at), strings.Compare(a.text, b.text))
	})
	r.problems = slices.CompactFunc(r.problems, func(a, b problem) bool { return slices.Equal(a.at, b.at) && a.text == b.text })
	errs := make([]error, 0, len(r.problems)+1)
	for _, p := range r.problems {
		errs = append(errs, r.place.Error(p.at, p.text))
	}
	if r.left < 0 {
		errs = append(errs, errors.New("and more"))
	}
	return printable.ClipAll(errs, len(errs))
}

// add adds a problem with the field below e to which name leads, or with e's own for "".
func (r *renderer) add(e *jsonschema.ValidationError, name, text string) {
	at := slices.Clone(e.InstanceLocation)
	if name != "" {
		at = append(at, name)
	}
	r.problems = append(r.problems, problem{at, text})
}

// each adds the problems in e, of which there is one for each field where the schema allows that.
func (r *renderer) each(e *jsonschema.ValidationError) {
	if r.left--; r.left < 0 {
		return
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		r.left++
		for _, cause := range e.Causes {
			r.each(cause)
		}
	case *kind.Required:
		r.missing(e, k.Missing)
	case *kind.DependentRequired:
		r.missing(e, k.Missing)
	case *kind.AdditionalProperties:
		for _, name := range k.Properties[:min(len(k.Properties), maxErrors)] {
			r.add(e, name, "unknown field"+r.known(e, name))
		}
	case *kind.FalseSchema:
		r.add(e, "", "unknown field, or one that is not allowed beside the others")
	case *kind.PropertyNames:
		// The library reuses the memory of this path: only its length is right.
		if at := holder(r.document, len(e.InstanceLocation), k.Property); at != nil {
			e.InstanceLocation = at
		}
		r.add(e, k.Property, "name of a field: want "+r.want(e))
	default:
		r.add(e, "", shown(r.value(e))+": want "+r.want(e))
	}
}

func (r *renderer) missing(e *jsonschema.ValidationError, names []string) {
	for _, name := range names[:min(len(names), maxErrors)] {
		r.add(e, name, "missing, want a value")
	}
}

// known returns which fields the schema of e has instead of name, for the end of an error.
func (r *renderer) known(e *jsonschema.ValidationError, name string) string {
	at, err := url.Parse(e.SchemaURL)
	if err != nil {
		return ""
	}
	properties, _ := r.schemas[at.Fragment]["properties"].(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	if near := typo.Nearest(name, names); near != "" {
		return fmt.Sprintf(", want %q", near)
	}
	if len(names) == 0 {
		return ""
	}
	return ", want one of " + list(names)
}

// value returns the value that e is about.
func (r *renderer) value(e *jsonschema.ValidationError) any {
	v := r.document
	for _, step := range e.InstanceLocation {
		v = below(v, step)
	}
	return v
}

// below returns the field or item of v to which step leads, nil if there is none.
func below(v any, step string) any {
	switch in := v.(type) {
	case map[string]any:
		return in[step]
	case []any:
		if n, err := strconv.Atoi(step); err == nil && n < len(in) {
			return in[n]
		}
	}
	return nil
}

// holder returns the path of the first object at depth with a field of that name, nil if there is none.
func holder(v any, depth int, name string) []string {
	object, _ := v.(map[string]any)
	if depth == 0 {
		if _, has := object[name]; has {
			return []string{}
		}
		return nil
	}
	items, _ := v.([]any)
	steps := slices.Sorted(maps.Keys(object))
	for i := range items {
		steps = append(steps, strconv.Itoa(i))
	}
	for _, step := range steps {
		if at := holder(below(v, step), depth-1, name); at != nil {
			return append([]string{step}, at...)
		}
	}
	return nil
}

// want returns what the schema wants in place of the value.
func (r *renderer) want(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "type " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		wants := make([]string, 0, len(k.Want))
		for _, v := range k.Want[:min(len(k.Want), maxErrors)] {
			wants = append(wants, shown(v))
		}
		return "one of " + list(wants)
	case *kind.Const:
		return shown(k.Want)
	case *kind.Minimum:
		return "at least " + number(k.Want)
	case *kind.Maximum:
		return "at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "less than " + number(k.Want)
	case *kind.MultipleOf:
		return "a multiple of " + number(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("at most %d items", k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("each item once: [%d] and [%d] are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Pattern:
		return "a text that matches " + printable.Shown(k.Want)
	case *kind.AnyOf, *kind.OneOf, *kind.PropertyNames:
		return r.alternatives(e)
	case *kind.Format: // of the schema itself
		return fmt.Sprintf("a %s: %v", k.Want, k.Err)
	case *kind.RefCycle:
		return "another schema: this one refers to itself for the same value"
	default:
		return fmt.Sprintf("what %q of the plugin's schema allows", strings.Join(k.KeywordPath(), "."))
	}
}

// alternatives returns what the alternatives of e want.
func (r *renderer) alternatives(e *jsonschema.ValidationError) string {
	if len(e.Causes) == 0 {
		return "a value that fits one alternative alone"
	}
	inner := renderer{document: r.document, schemas: r.schemas, left: r.left}
	var wants []string
	for _, cause := range e.Causes {
		inner.problems = nil
		inner.each(cause)
		for _, p := range inner.problems {
			_, want, cut := strings.Cut(p.text, ": want ")
			if below := p.at[min(len(p.at), len(e.InstanceLocation)):]; len(below) > 0 || !cut {
				want = strings.Join(append(below, p.text), ": ")
			}
			wants = append(wants, want)
		}
	}
	r.left = inner.left
	return strings.Join(wants, ", or ")
}

func list(names []string) string { return printable.ClipText(strings.Join(names, ", ")) }

// shown returns a value as JSON, shortened. Only a value of a document is shown, so that there is always one.
func shown(v any) string {
	text, _ := json.Marshal(v)
	return printable.Shown(string(text))
}

func number(n *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(n.FloatString(6), "0"), ".")
}
