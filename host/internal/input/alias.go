package input

import (
	"bytes"
	"errors"
	"fmt"

	yamlv3 "go.yaml.in/yaml/v3"
)

const (
	// maxExpandedBytes bounds what aliases may add to a file.
	maxExpandedBytes = 4 << 20
	// nodeBytes is what a node counts beside its text: the decoder's values take many
	// times what JSON does.
	nodeBytes = 64
)

// checkAliases refuses a document that is small and expands to a large one, and one
// that contains itself. It looks at the document's tree, in which an alias is still
// one node: the decoder of version 2, which all of Kubernetes reads YAML with, has
// none and bounds how many nodes aliases make, but not how many bytes.
func checkAliases(data []byte) error {
	if !bytes.ContainsRune(data, '&') || !bytes.ContainsRune(data, '*') {
		return nil
	}
	var doc yamlv3.Node
	if err := yamlv3.Unmarshal(data, &doc); err != nil {
		return err
	}
	e := expansion{sizes: map[*yamlv3.Node]int{}}
	e.size(&doc)
	switch {
	case e.endless:
		return errors.New("has an alias of what contains it")
	case e.added > maxExpandedBytes:
		return fmt.Errorf("has aliases that expand to more than %d MiB", maxExpandedBytes>>20)
	}
	return nil
}

// expansion measures what a tree becomes.
type expansion struct {
	// sizes are those of anchors that were measured; 0 is one that is being measured.
	sizes map[*yamlv3.Node]int
	// added is what aliases add, as far as it was counted.
	added   int
	endless bool
}

// size is the size of n with all aliases in it expanded. It stops at more than is
// allowed.
func (e *expansion) size(n *yamlv3.Node) int {
	if e.endless || e.added > maxExpandedBytes {
		return nodeBytes
	}
	if n.Kind == yamlv3.AliasNode {
		size := e.anchored(n.Alias)
		e.added += size
		return size
	}
	if n.Anchor != "" {
		return e.anchored(n)
	}
	return e.content(n)
}

// anchored measures a node that aliases may stand for, once.
func (e *expansion) anchored(n *yamlv3.Node) int {
	size, known := e.sizes[n]
	switch {
	case known && size == 0:
		e.endless = true
		return nodeBytes
	case known:
		return size
	}
	e.sizes[n] = 0
	e.sizes[n] = e.content(n)
	return e.sizes[n]
}

func (e *expansion) content(n *yamlv3.Node) int {
	size := nodeBytes + len(n.Value)
	for _, c := range n.Content {
		size += e.size(c)
	}
	return min(size, maxExpandedBytes+1)
}
