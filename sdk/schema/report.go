package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/typo"
)

// report collects what is wrong with a configuration.
type report struct {
	config, schema any
	found          eviction.FieldErrors
}

// errors returns what was found, in the order of the fields.
func (r *report) errors() eviction.FieldErrors {
	slices.SortFunc(r.found, func(a, b eviction.FieldError) int {
		return cmp.Or(slices.Compare(a.Path, b.Path), strings.Compare(a.Text, b.Text))
	})
	return r.found
}

// add adds an error of the field below e to which name leads, or of e's own for "".
func (r *report) add(e *jsonschema.ValidationError, name, text string) {
	path := slices.Clone(e.InstanceLocation)
	if name != "" {
		path = append(path, name)
	}
	r.found = append(r.found, eviction.FieldError{Path: path, Text: text})
}

// each adds what is wrong in e: an error for each field, where the schema allows that.
func (r *report) each(e *jsonschema.ValidationError) {
	missing := func(names []string) {
		for _, name := range names {
			r.add(e, name, "missing, want a value")
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			r.each(cause)
		}
	case *kind.Required:
		missing(k.Missing)
	case *kind.DependentRequired:
		missing(k.Missing)
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			r.add(e, name, "unknown field"+r.known(e, name))
		}
	case *kind.FalseSchema:
		r.add(e, "", "unknown field, or one that is not allowed beside the others")
	case *kind.PropertyNames:
		// The library reuses the memory of this path: only its length is right.
		if at := holder(r.config, len(e.InstanceLocation), k.Property); at != nil {
			e.InstanceLocation = at
		}
		r.add(e, k.Property, "name of a field: want "+r.want(e))
	default:
		r.add(e, "", shown(at(r.config, e.InstanceLocation))+": want "+r.want(e))
	}
}

// known returns which fields the schema of e has in place of name, for the end of an error.
func (r *report) known(e *jsonschema.ValidationError, name string) string {
	u, err := url.Parse(e.SchemaURL)
	if err != nil {
		return ""
	}
	steps := strings.Split(u.Fragment+"/properties", "/")[1:]
	for i, step := range steps {
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	properties, _ := at(r.schema, steps).(map[string]any)
	names := slices.Sorted(maps.Keys(properties))
	if near := typo.Nearest(name, names); near != "" {
		return fmt.Sprintf(", want %q", near)
	}
	if len(names) == 0 {
		return ""
	}
	return ", want one of " + strings.Join(names, ", ")
}

// at returns the value in v to which steps lead, nil if there is none.
func at(v any, steps []string) any {
	for _, step := range steps {
		switch in := v.(type) {
		case map[string]any:
			v = in[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n >= len(in) {
				return nil
			}
			v = in[n]
		default:
			return nil
		}
	}
	return v
}

// holder returns the path of the first object at depth with a field of that name, nil if there is none.
func holder(v any, depth int, name string) []string {
	object, _ := v.(map[string]any)
	if _, has := object[name]; depth == 0 && has {
		return []string{}
	}
	items, _ := v.([]any)
	steps := slices.Sorted(maps.Keys(object))
	for i := range items {
		steps = append(steps, strconv.Itoa(i))
	}
	for _, step := range steps {
		if depth == 0 {
			break
		}
		if below := holder(at(v, []string{step}), depth-1, name); below != nil {
			return append([]string{step}, below...)
		}
	}
	return nil
}

// want returns what the schema wants in place of the value.
func (r *report) want(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "type " + strings.Join(k.Want, " or ")
	case *kind.Enum:
		wants := make([]string, len(k.Want))
		for i, v := range k.Want {
			wants[i] = shown(v)
		}
		return "one of " + strings.Join(wants, ", ")
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
		return "a text that matches " + k.Want
	case *kind.AnyOf, *kind.OneOf, *kind.PropertyNames:
		return r.alternatives(e)
	case *kind.RefCycle:
		return "another schema: this one refers to itself for the same value"
	default:
		return fmt.Sprintf("what %q of the plugin's schema allows", strings.Join(k.KeywordPath(), "."))
	}
}

// alternatives returns what the alternatives of e want.
func (r *report) alternatives(e *jsonschema.ValidationError) string {
	if len(e.Causes) == 0 {
		return "a value that fits one alternative alone"
	}
	var wants []string
	for _, cause := range e.Causes {
		inner := report{config: r.config, schema: r.schema}
		inner.each(cause)
		for _, f := range inner.found {
			_, want, cut := strings.Cut(f.Text, ": want ")
			if below := f.Path[min(len(f.Path), len(e.InstanceLocation)):]; len(below) > 0 || !cut {
				want = strings.Join(append(below, f.Text), ": ")
			}
			wants = append(wants, want)
		}
	}
	return strings.Join(wants, ", or ")
}

// maxShown bounds a value in a text, in bytes.
const maxShown = 80

// shown returns a value as JSON, shortened.
func shown(v any) string {
	text, _ := json.Marshal(v)
	if len(text) > maxShown {
		return strings.ToValidUTF8(string(text[:maxShown]), "") + "..."
	}
	return string(text)
}

func number(n *big.Rat) string {
	return strings.TrimSuffix(strings.TrimRight(n.FloatString(6), "0"), ".")
}
