package input

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	yamlv2 "go.yaml.in/yaml/v2"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

var (
	// ErrEmpty is the error of a file in which there is nothing.
	ErrEmpty = errors.New("is empty")
	// ErrNoMapping is the error of a document that is a list, a word or the like.
	ErrNoMapping = errors.New("is not a mapping")
)

// YAML returns the one document of data, a mapping, as JSON. Keys that are given
// twice, of which the last counts, are in twice, at most most of them. where
// writes the path of a key for errors.
func YAML(data []byte, most int, where func(path []string) string) (doc []byte, twice []error, err error) {
	if json.Valid(data) {
		// JSON is YAML but for tabs, which it has between its words only.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	if data, err = onlyDocument(data); err != nil {
		return nil, nil, err
	}
	if err := checkAliases(data); err != nil {
		return nil, nil, err
	}
	var fields yamlv2.MapSlice // keeps duplicates, and the order
	if err := yamlv2.Unmarshal(data, &fields); err != nil {
		if isMapping(data) {
			return nil, nil, err
		}
		return nil, nil, ErrNoMapping
	}
	w := walk{data: data, where: where, most: most}
	w.mapping(fields)
	if w.fatal != nil {
		return nil, w.twice, w.fatal
	}
	doc, err = yaml.YAMLToJSON(data)
	return doc, w.twice, err
}

// isMapping reports whether data is a mapping or nothing that can be read at all.
func isMapping(data []byte) bool {
	var doc any
	if err := yamlv2.Unmarshal(data, &doc); err != nil {
		return true
	}
	_, ok := doc.(map[any]any)
	return ok
}

// onlyDocument refuses a file with several documents: a YAML parser would read
// the first and say nothing of the others.
func onlyDocument(data []byte) ([]byte, error) {
	var doc []byte
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		next, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if isBlank(next) {
			continue
		}
		if doc != nil {
			return nil, errors.New("has more than one YAML document, want one")
		}
		doc = next
	}
	if doc == nil {
		return nil, ErrEmpty
	}
	return doc, nil
}

// isBlank reports whether a document has nothing but comments and separators.
func isBlank(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) {
			return false
		}
	}
	return true
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
	data  []byte
	where func(path []string) string
	most  int
	// lines are those on which keys are given again, once somebody has asked.
	lines map[string][]string
	// path is where the walk is; one stack for all, as files can nest deeply.
	path  []string
	twice []error
	// fatal ends the walk: nothing can be made of the document.
	fatal error
}

func (w *walk) mapping(m yamlv2.MapSlice) {
	seen := make(map[string]bool, len(m))
	for _, item := range m {
		key, ok := keyString(item.Key)
		if !ok {
			w.fatal = fmt.Errorf("%s: key %v, want a word", w.here(), fmt.Sprint(item.Key))
		}
		if w.fatal != nil {
			return
		}
		w.below(key, item.Value, func() {
			if seen[key] && len(w.twice) < w.most {
				w.twice = append(w.twice, w.duplicate(item.Key))
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
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			w.fatal = fmt.Errorf("%s: %v, want a finite number", w.here(), v)
		}
	}
}

func (w *walk) duplicate(key any) error {
	if w.lines == nil {
		w.lines = duplicateLines(w.data)
	}
	id := fmt.Sprintf("%#v", key)
	if lines := w.lines[id]; len(lines) > 0 {
		w.lines[id] = lines[1:]
		return fmt.Errorf("%s: given twice, again on %s", w.here(), lines[0])
	}
	return fmt.Errorf("%s: given twice", w.here())
}

func (w *walk) here() string {
	if len(w.path) == 0 {
		return "top level"
	}
	return w.where(w.path)
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
