package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// maxExpandedBytes bounds what aliases may make of a file.
const maxExpandedBytes = 4 << 20

var (
	errEmpty     = errors.New("is empty, want at least one field, or {} for all defaults")
	errNoMapping = errors.New("is not a mapping, want fields and values such as \"dryRun: true\"")
)

// toJSON turns the one YAML document of data into JSON and reports what YAML
// lets pass and we do not: keys given twice, more than one document.
func toJSON(data []byte) ([]byte, []error) {
	if json.Valid(data) {
		// JSON is YAML but for tabs, which it has between its words only.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	if err := oneDocument(data); err != nil {
		return nil, []error{err}
	}
	var doc yamlv2.MapSlice // keeps duplicates, and the order
	if err := yamlv2.Unmarshal(data, &doc); err != nil {
		return nil, []error{err}
	}
	w := walk{lines: duplicateLines(data)}
	w.mapping(doc)
	if w.fatal != nil {
		return nil, append(w.errs, w.fatal)
	}
	out, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, append(w.errs, err)
	}
	return out, w.errs
}

func oneDocument(data []byte) error {
	d := yamlv2.NewDecoder(bytes.NewReader(data))
	var doc any
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF), err == nil && doc == nil:
		return errEmpty
	case err != nil:
		return err
	}
	if _, ok := doc.(map[any]any); !ok {
		return errNoMapping
	}
	if err := d.Decode(&doc); !errors.Is(err, io.EOF) {
		return errors.New("has more than one YAML document, want one")
	}
	return nil
}

// duplicateLines finds the lines on which keys are given again. The YAML library
// knows lines but not paths; walk knows paths. Both go through the document in
// the same order, so the n-th of a key is the n-th of that key.
func duplicateLines(data []byte) map[string][]string {
	var ignored any
	typeErr, ok := errors.AsType[*yamlv2.TypeError](yamlv2.UnmarshalStrict(data, &ignored))
	if !ok {
		return nil
	}
	lines := make(map[string][]string, len(typeErr.Errors))
	for _, text := range typeErr.Errors {
		line, rest, _ := strings.Cut(text, ": key ")
		if key, ok := strings.CutSuffix(rest, " already set in map"); ok {
			lines[key] = append(lines[key], line)
		}
	}
	return lines
}

// walk goes once through a document that still has its duplicates.
type walk struct {
	lines map[string][]string
	// path is where the walk is; one stack for all, as files can nest deeply.
	path  []string
	bytes int
	errs  []error
	// fatal ends the walk: nothing can be made of the document.
	fatal error
}

func (w *walk) mapping(m yamlv2.MapSlice) {
	seen := make(map[string]bool, len(m))
	for _, item := range m {
		key, ok := keyString(item.Key)
		if !ok {
			w.fatal = fmt.Errorf("%s: key %v, want a word", w.where(), shown(fmt.Sprint(item.Key)))
		}
		if w.fatal != nil {
			return
		}
		w.bytes += len(key)
		w.below(key, item.Value, func() {
			if seen[key] && len(w.errs) < maxErrors {
				w.errs = append(w.errs, w.duplicate(item.Key))
			}
		})
		seen[key] = true
	}
}

// below looks at what is at key, then calls after, still there.
func (w *walk) below(key string, v any, after func()) {
	w.path = append(w.path, key)
	w.value(v)
	after()
	w.path = w.path[:len(w.path)-1]
}

func (w *walk) value(v any) {
	switch v := v.(type) {
	case yamlv2.MapSlice:
		w.mapping(v)
	case []any:
		for i, e := range v {
			if w.fatal == nil {
				w.below(strconv.Itoa(i), e, func() {})
			}
		}
	case string:
		w.bytes += len(v)
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			w.fatal = fmt.Errorf("%s: %v, want a finite number", w.where(), v)
		}
	}
	w.bytes += 8 // what JSON writes around a value, roughly
	if w.bytes > maxExpandedBytes && w.fatal == nil {
		w.fatal = fmt.Errorf("%s: the file's aliases expand to more than %d MiB", pathString(w.path[:1]), maxExpandedBytes>>20)
	}
}

func (w *walk) duplicate(key any) error {
	id := fmt.Sprintf("%#v", key)
	if lines := w.lines[id]; len(lines) > 0 {
		w.lines[id] = lines[1:]
		return fmt.Errorf("%s: given twice, again on %s", w.where(), lines[0])
	}
	return fmt.Errorf("%s: given twice", w.where())
}

func (w *walk) where() string {
	if len(w.path) == 0 {
		return "top level"
	}
	return pathString(w.path)
}

// keyString writes a key as the conversion to JSON does.
func keyString(key any) (string, bool) {
	switch k := key.(type) {
	case string:
		return k, true
	case int, int64, uint64, bool:
		return fmt.Sprint(k), true
	case float64:
		return strconv.FormatFloat(k, 'g', -1, 32), true
	default:
		return "", false
	}
}
