// Package configschema checks a plugin's configuration against the JSON Schema that the plugin describes itself with.
// The bytes of a schema come from the plugin: both the schema and the work of a check are bounded. It is not a
// validator of its own, and does not replace the plugin's own check.
package configschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// maxSchemas bounds the schemas in one document: compiling them takes the square of their number.
	maxSchemas = 1000
	// maxDepth bounds how deep values of a document nest.
	maxDepth = 32
	// maxProgram bounds the compiled instructions of one pattern, maxPrograms those of all.
	maxProgram, maxPrograms = 2000, 20_000
	// maxWork bounds one check. A unit takes about a microsecond, and 300 bytes if the value is wrong.
	maxWork = 100_000
	// maxErrors bounds the errors of a schema or of a configuration.
	maxErrors = 20

	dialect  = "https://json-schema.org/draft/2020-12/schema"
	location = "schema://plugin/"
)

// A Schema is compiled. Its methods are safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
	// schemas has all schemas of the document by their JSON pointers. Booleans are nil.
	schemas map[string]map[string]any

	mu   sync.Mutex
	left work
}

// work counts down in a check.
type work int

func (w *work) spend(n int) error {
	if *w -= work(n); *w < 0 {
		*w = -1
		return errWork
	}
	return nil
}

var errWork = errors.New("takes too long to check by the plugin's schema")

// Compile compiles a schema. It returns all that is wrong with the document.
func Compile(document []byte) (*Schema, error) {
	if len(document) > eviction.MaxSchemaBytes {
		return nil, fmt.Errorf("has %d bytes, want at most %d", len(document), eviction.MaxSchemaBytes)
	}
	var root any
	// Numbers as float64: big.Rat, with which they are compared, takes minutes for 1e-99999999.
	if err := json.Unmarshal(document, &root); err != nil {
		return nil, printable.Clip(fmt.Errorf("is not a JSON document: %w", err))
	}
	if _, depth := size(root); depth > maxDepth {
		return nil, fmt.Errorf("nests %d levels deep, want at most %d", depth, maxDepth)
	}
	s := &Schema{schemas: map[string]map[string]any{}}
	w := walk{schemas: s.schemas, costs: map[string]func(any) int{}}
	if object, ok := root.(map[string]any); ok {
		delete(object, "$id") // Without effect, as all references are to the document itself.
	}
	w.schema(nil, root)
	if err := w.err(); err != nil {
		return nil, err
	}
	if err := s.compile(root, w.costs); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Schema) compile(root any, costs map[string]func(any) int) error {
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	for name, cost := range costs {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if s.left < 0 {
				return errWork
			}
			return s.left.spend(cost(v))
		}})
	}
	programs, patterns := 0, map[string]*pattern{}
	c.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		if p := patterns[text]; p != nil {
			return p, nil
		}
		instructions, err := program(text)
		if programs += instructions; err == nil && programs > maxPrograms {
			err = fmt.Errorf("with all other patterns has more than %d instructions", maxPrograms)
		}
		if err != nil {
			return nil, err
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		patterns[text] = &pattern{re, instructions, &s.left}
		return patterns[text], nil
	})
	if err := c.AddResource(location, root); err != nil {
		return printable.Clip(err)
	}
	s.left = maxWork // patterns of the meta-schema spend, too
	compiled, err := c.Compile(location)
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if wrong, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			r := renderer{document: root, left: maxErrors}
			r.each(wrong)
			return r.err()
		}
	}
	s.compiled = compiled
	return printable.Clip(err)
}

// size returns the number of values in v, in which a long text counts as several, and how deep they nest.
func size(v any) (values, depth int) {
	below := func(v any) {
		n, d := size(v)
		values, depth = values+n, max(depth, d)
	}
	switch v := v.(type) {
	case map[string]any:
		for key, v := range v {
			below(key)
			below(v)
		}
	case []any:
		for _, v := range v {
			below(v)
		}
	case string:
		values = len(v) / 64
	}
	return values + 1, depth + 1
}

// extent returns the number of values directly in v, in which a long text counts as several.
func extent(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return len(v)
	case []any:
		return len(v)
	case string:
		return len(v) / 64
	}
	return 0
}

// noLoader refuses all references to other documents.
type noLoader struct{}

// Load implements jsonschema.URLLoader.
func (noLoader) Load(string) (any, error) {
	return nil, errors.New(`refers to another document, want "#" or "#/..."`)
}

// program returns the number of instructions of a pattern. The parser bounds repeats, and those within repeats.
func program(text string) (int, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, err
	}
	if n := instructions(parsed); n > maxProgram {
		return 0, fmt.Errorf("has %d instructions, want at most %d", n, maxProgram)
	}
	compiled, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	return len(compiled.Inst), nil
}

// instructions estimates a program without compiling it, which would take the memory that is to be bounded.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpLiteral {
		n += len(re.Rune)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n + 1
}

// A pattern is a regular expression that spends work for each match.
type pattern struct {
	*regexp.Regexp

	instructions int
	left         *work
}

// MatchString implements jsonschema.Regexp.
func (p *pattern) MatchString(text string) bool {
	return p.left.spend(1+(len(text)+1)*p.instructions/64) == nil && p.Regexp.MatchString(text)
}

// walk finds the schemas in a document, and puts a counter into each.
type walk struct {
	// found counts the schemas.
	found   int
	schemas map[string]map[string]any
	refs    []reference
	// costs has what a check of a value by a schema costs, by the names of the formats.
	costs map[string]func(any) int
	wrong []error
}

// A reference leads from the schema at a path to another one.
type reference struct {
	at []string
	to string
}

// Keywords with other schemas in them: one, a list, or one by each name.
var (
	withOne  = []string{"additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"}
	withList = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	withMap  = []string{"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
	// refused keywords would allow references that the walk does not see.
	refused = []string{"$anchor", "$dynamicAnchor", "$dynamicRef", "$id", "$recursiveAnchor", "$recursiveRef", "$vocabulary", "dependencies"}
)

// schema visits the schema v and puts into it the format by whose name its check is counted. The library checks the
// format before all that takes other schemas. In this dialect a schema's own formats are notes, not checks.
func (w *walk) schema(at []string, v any) {
	w.found++
	name := strconv.Itoa(w.found)
	object, ok := v.(map[string]any)
	w.schemas[input.Pointer(at...)] = object
	if !ok || w.found > maxSchemas {
		return
	}
	weight := 1
	for _, keyword := range slices.Sorted(maps.Keys(object)) {
		value, below := object[keyword], append(slices.Clip(at), keyword)
		list, _ := value.([]any)
		byName, _ := value.(map[string]any)
		text := shown(value)
		if s, ok := value.(string); ok {
			text = s
		}
		switch {
		case slices.Contains(refused, keyword), keyword == "$schema" && strings.TrimSuffix(text, "#") != dialect:
			w.refuse(below, text, "none: the dialect is "+dialect+", and references are \"#\" or \"#/...\"")
		case keyword == "$ref":
			w.refs = append(w.refs, reference{below, text})
		case slices.Contains(withOne, keyword):
			w.schema(below, value)
			weight++
		case slices.Contains(withList, keyword):
			for i, v := range list {
				w.schema(append(slices.Clip(below), strconv.Itoa(i)), v)
			}
			weight += len(list)
		case slices.Contains(withMap, keyword):
			for name, v := range byName {
				w.schema(append(slices.Clip(below), name), v)
			}
			weight += len(byName)
		default:
			n, _ := size(value)
			weight += n
		}
	}
	delayComparisons(object)
	unique := object["uniqueItems"] == true
	object["format"], w.costs[name] = name, func(v any) int {
		n := extent(v)
		if unique { // It compares all that is below.
			n, _ = size(v)
		}
		// With unevaluatedProperties each schema inside copies the names of the fields.
		return weight + n + weight*n/16
	}
}

// delayComparisons moves const and enum of a schema into allOf: the library would compare before it checks the format.
func delayComparisons(object map[string]any) {
	for _, keyword := range []string{"const", "enum"} {
		value, given := object[keyword]
		all, ok := object["allOf"].([]any)
		if given && (ok || object["allOf"] == nil) {
			object["allOf"] = append(all, map[string]any{keyword: value})
			delete(object, keyword)
		}
	}
}

func (w *walk) refuse(at []string, value, want string) {
	w.wrong = append(w.wrong, input.Place{}.Error(at, strconv.Quote(printable.Shown(value))+": want "+want))
}

func (w *walk) err() error {
	if w.found > maxSchemas {
		return fmt.Errorf("has more than %d schemas", maxSchemas)
	}
	for _, ref := range w.refs {
		// In a fragment percent signs may be escapes; names with them are not worth the trouble.
		to, local := strings.CutPrefix(ref.to, "#")
		if _, found := w.schemas[to]; !found || !local || strings.Contains(to, "%") {
			w.refuse(ref.at, ref.to, "\"#\" or \"#/...\" with the place of a schema in the same document")
		}
	}
	return printable.ClipAll(w.wrong, maxErrors)
}
