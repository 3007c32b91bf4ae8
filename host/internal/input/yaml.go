package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

var (
	// ErrEmpty is the error of a file in which there is nothing.
	ErrEmpty = errors.New("is empty")
	// ErrNoMapping is the error of a document that is a list, a word or the like.
	ErrNoMapping = errors.New("is not a mapping")
)

const (
	// maxExpandedBytes bounds what aliases may add to a file.
	maxExpandedBytes = 4 << 20
	// nodeBytes is charged for each node beside its text: the decoder's values take many times
	// as much memory as JSON.
	nodeBytes = 64

	tagString, tagFloat, tagMerge = "!!str", "!!float", "!!merge"
)

// YAML returns the one document of data, a mapping, as JSON. Keys that are given
// twice, of which the last counts, are in twice, at most most of them. where
// writes the path of a key for errors.
func YAML(data []byte, most int, where func(path []string) string) (doc []byte, twice []error, err error) {
	if json.Valid(data) {
		// JSON is YAML but for tabs, which it has between its words only.
		data = bytes.ReplaceAll(data, []byte("\t"), []byte(" "))
	}
	if !bytes.HasSuffix(data, []byte("\n")) {
		data = append(slices.Clip(data), '\n') // The last line of a text ends, too.
	}
	root, document, err := onlyDocument(data)
	if err != nil {
		return nil, nil, err
	}
	if root.Kind != yamlv3.MappingNode {
		return nil, nil, ErrNoMapping
	}
	w := walk{where: where, most: most, sizes: map[*yamlv3.Node]int{}}
	w.node(root)
	if w.err != nil {
		return nil, w.twice, w.err
	}
	doc, err = yaml.YAMLToJSON(document)
	return doc, w.twice, err
}

// onlyDocument returns the tree of the one document that has something in it, and
// data from there on. It refuses a file with several: the conversion to JSON would
// read the first and say nothing of the others.
func onlyDocument(data []byte) (root *yamlv3.Node, document []byte, err error) {
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
			if blank { // the conversion would read that
				lines := bytes.SplitAfterN(data, []byte("\n"), root.Line)
				document = lines[len(lines)-1]
			}
		}
	}
	switch {
	case !errors.Is(err, io.EOF):
		return nil, nil, err
	case root == nil:
		return nil, nil, ErrEmpty
	}
	return root, document, nil
}

// walk goes once through a document's tree, in which keys that are given twice are
// both there and an alias is still one node. The decoder of version 2, which all of
// Kubernetes reads YAML with, has no such tree, and bounds how many nodes aliases make,
// but not how many bytes.
type walk struct {
	where func(path []string) string
	most  int
	// path is where the walk is; one stack for all, as files can nest deeply.
	path  []string
	twice []error
	// sizes are those of nodes that aliases may stand for, once they were measured.
	sizes map[*yamlv3.Node]int
	// added is the size that aliases add.
	added int
	// err ends the walk: nothing can be made of the document.
	err error
}

// node looks at n and what is in it, and returns its size with all aliases in it
// expanded.
func (w *walk) node(n *yamlv3.Node) int {
	size := nodeBytes + len(n.Value)
	switch n.Kind {
	case yamlv3.AliasNode:
		return w.alias(n)
	case yamlv3.MappingNode:
		size += w.mapping(n)
	case yamlv3.SequenceNode:
		for i, c := range n.Content {
			size += w.below(strconv.Itoa(i), c)
		}
	case yamlv3.DocumentNode, yamlv3.ScalarNode: // nothing is in them
	}
	size = min(size, maxExpandedBytes+1)
	if n.Anchor != "" {
		w.sizes[n] = size
	}
	return size
}

// alias comes after its anchor in the document, or is in what that stands for.
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
		size += w.below(key, pair[1])
		if seen[key] && pair[0].Tag != tagMerge && len(w.twice) < w.most {
			w.twice = append(w.twice, fmt.Errorf("%s: given twice, again on line %d", w.where(append(w.path, key)), pair[0].Line))
		}
		seen[key] = true
	}
	return size
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

// fail ends the walk. The first error is reported.
func (w *walk) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *walk) here() string {
	if len(w.path) == 0 {
		return "top level"
	}
	return w.where(w.path)
}

// keyString writes a key as the conversion to JSON does.
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
