package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/ground/quantity"
)

const (
	// maxTwice bounds the duplicate keys that are reported.
	maxTwice = 50
	// maxExpandedBytes bounds what aliases may add to a file.
	maxExpandedBytes = 4 << 20
	// nodeBytes is charged for each node beside its text: decoded values take far more memory than JSON.
	nodeBytes = 64

	tagString, tagFloat, tagMerge = "!!str", "!!float", "!!merge"
)

// Decode decodes a JSON document, or a part of it, into what into points to. Names of fields are
// case-sensitive. strict lists unknown fields and duplicate keys; the rest of the document is decoded
// all the same.
func Decode(doc []byte, into any) (strict []error, err error) {
	if err := quantity.CheckJSON(doc, reflect.TypeOf(into).Elem()); err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(doc, into)
}

// YAML converts the single document in data, a mapping, to JSON. want describes it for errors. twice
// lists duplicate keys, at most maxTwice of them; the last one counts.
func YAML(data []byte, want string) (doc []byte, twice []error, err error) {
	root, document, err := onlyDocument(data)
	switch {
	case err != nil:
		return nil, nil, err
	case root == nil:
		return nil, nil, fmt.Errorf("is empty, want %s", want)
	case root.Kind != yamlv3.MappingNode:
		return nil, nil, fmt.Errorf("is not a mapping, want %s", want)
	}
	w := walk{sizes: map[*yamlv3.Node]int{}}
	w.node(root)
	if w.err != nil {
		return nil, w.twice, w.err
	}
	doc, err = yaml.YAMLToJSON(document)
	return doc, w.twice, err
}

// onlyDocument returns the tree of the only non-empty document, and data from there on; nil if there
// is none. It refuses a file with several: the conversion to JSON would read the first and ignore the others.
func onlyDocument(data []byte) (root *yamlv3.Node, document []byte, err error) {
	if json.Valid(data) {
		// JSON is YAML except for tabs, which it allows between tokens only.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(slices.Clip(data), '\n') // The last line of a text needs an end, too.
	}
	blank := false
	for decoder := yamlv3.NewDecoder(bytes.NewReader(data)); ; {
		var doc yamlv3.Node
		if err = decoder.Decode(&doc); err != nil {
			break
		}
		switch content := doc.Content[0]; {
		case content.Kind == yamlv3.ScalarNode && content.Value == "" && content.Style == 0:
			blank = true
		case root != nil:
			return nil, nil, errors.New("has more than one YAML document, want one")
		default:
			root, document = content, data
			if blank { // the conversion would read the blank one
				lines := bytes.SplitAfterN(data, []byte("\n"), root.Line)
				document = lines[len(lines)-1]
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	return root, document, nil
}

// walk traverses a document's tree, in which duplicate keys are both present and an alias is a
// single node. Version 2 of the decoder, with which Kubernetes reads YAML, has no such tree; it
// bounds the number of nodes from aliases, but not their size.
type walk struct {
	// path has the steps to the current position; one stack for all, as files can nest deeply.
	path  []string
	twice []error
	// sizes caches the sizes of nodes that aliases may refer to.
	sizes map[*yamlv3.Node]int
	// added is the total size added by aliases.
	added int
	// err ends the walk: the document is unusable.
	err error
}

// node visits n and its content, and returns its size with all aliases expanded.
func (w *walk) node(n *yamlv3.Node) int {
	size := nodeBytes + len(n.Value)
	switch n.Kind {
	case yamlv3.AliasNode:
		return w.alias(n)
	case yamlv3.MappingNode:
		size += w.mapping(n)
	case yamlv3.SequenceNode:
		for i, c := range n.Content {
			size += w.below("["+strconv.Itoa(i)+"]", c)
		}
	case yamlv3.DocumentNode, yamlv3.ScalarNode: // nothing is in them
	}
	size = min(size, maxExpandedBytes+1)
	if n.Anchor != "" {
		w.sizes[n] = size
	}
	return size
}

// alias returns the size of an alias, whose anchor comes earlier in the document or encloses it.
func (w *walk) alias(n *yamlv3.Node) int {
	size, measured := w.sizes[n.Alias]
	w.added += size
	switch {
	case !measured:
		w.fail(errors.New("has an alias of what contains it"))
	case w.added > maxExpandedBytes:
		w.fail(fmt.Errorf("has aliases that expand to more than %d MiB", maxExpandedBytes>>20))
	}
	return size
}

func (w *walk) mapping(n *yamlv3.Node) int {
	size := 0
	seen := make(map[string]bool, len(n.Content)/2)
	for pair := range slices.Chunk(n.Content, 2) {
		size += w.node(pair[0])
		key, err := keyString(pair[0])
		if err != nil {
			w.fail(fmt.Errorf("%s: %w", w.here(), err))
		}
		if w.err != nil {
			break
		}
		size += w.below(w.step(key), pair[1])
		if seen[key] && pair[0].Tag != tagMerge && len(w.twice) < maxTwice {
			w.twice = append(w.twice, printable.FieldError{Path: append(slices.Clone(w.path), w.step(key)), Err: fmt.Errorf("given twice, again on line %d", pair[0].Line)})
		}
		seen[key] = true
	}
	return size
}

// step returns the step from the current position to a key.
func (w *walk) step(key string) string {
	switch {
	case len(w.path) == 0:
		return key
	case key == "" || strings.ContainsAny(key, `.[]/"`):
		return printable.Key(key)
	default:
		return "." + key
	}
}

func (w *walk) below(step string, n *yamlv3.Node) int {
	if w.err != nil {
		return 0
	}
	w.path = append(w.path, step)
	size := w.node(n)
	w.checkFinite(n)
	w.path = w.path[:len(w.path)-1]
	return size
}

func (w *walk) checkFinite(n *yamlv3.Node) {
	var number float64
	if n.Tag != tagFloat || !strings.ContainsAny(n.Value, "nN") || n.Decode(&number) != nil {
		return
	}
	if math.IsInf(number, 0) || math.IsNaN(number) {
		w.fail(fmt.Errorf("%s: %v, want a finite number", w.here(), number))
	}
}

// fail ends the walk. Only the first error is kept.
func (w *walk) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *walk) here() string {
	if len(w.path) == 0 {
		return "top level"
	}
	return strings.Join(w.path, "")
}

// keyString formats a key like the conversion to JSON.
func keyString(n *yamlv3.Node) (string, error) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if n.Tag == tagString {
		return n.Value, nil
	}
	var key any
	if err := n.Decode(&key); err != nil || n.Kind != yamlv3.ScalarNode || key == nil {
		return "", fmt.Errorf("key %v, want a word", key)
	}
	return fmt.Sprint(key), nil
}
