package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/nodefs"
)

// maxDropIns bounds the files below a drop-in directory.
const maxDropIns = 256

// kubeletFiles holds the --config and --config-dir of a kubelet. Either may be "".
type kubeletFiles struct {
	// node is below whose root links are followed as on the node; the zero value follows them from this process's.
	node      nodefs.FS
	file, dir string
	// flag is the name of file in errors; dir is the same with -dir appended.
	flag string
	// configz: file may be a response of /configz.
	configz bool
}

// lay applies the kubelet's files to c (cmd/kubelet/app/server.go: mergeKubeletConfigurations). It
// returns them as one document, a layer per file, and the problems of single files. err reports
// unreadable files.
func (k kubeletFiles) lay(c *Config) (doc object, ls layers, errs []error, err error) {
	files, err := k.list()
	if err != nil {
		return nil, nil, nil, err
	}
	doc = object{}
	var merged tree // with drop-ins
	for _, file := range files {
		data, err := input.ReadFileSoon(k.node.Own(file), maxFileBytes)
		if err != nil {
			return nil, nil, nil, k.unread(file, err)
		}
		given := data
		if k.configz && file == k.file {
			data = unwrap(data)
		}
		alone, l := blank(), &layer{file: file, keys: map[string]string{}}
		in, found := decodeKubelet(&alone, l, data, file != k.file)
		for _, err := range found {
			errs = append(errs, l.named(err))
		}
		if bytes.Equal(given, data) { // a newer kubelet's own response has keys that it knows
			c.UnknownKeys = append(c.UnknownKeys, unknownKeys(l, in)...)
		}
		ls = append(ls, l)
		switch {
		case k.dir == "":
			doc = in
		case file == k.file:
			l.merged, merged = treeOf(in), treeOf(underDropIns(in, &alone))
		default:
			l.merged = treeOf(in)
			if merged == nil {
				merged = tree{}
			}
			mergePatch(merged, treeOf(in))
		}
	}
	whole := &layer{file: k.file, keys: map[string]string{}}
	if k.dir != "" {
		doc = objectOf(merged)
		// As in the kubelet, before merging; drop-in paths are relative to its working directory.
		delete(doc, "mergeDefaultEvictionSettings")
		whole.file = ""
	}
	_ = layKubelet(c, whole, doc) // problems are in errs
	if k.dir != "" && c.EvictionHard == nil {
		c.EvictionHard = map[string]string{}
	}
	return doc, ls, errs, nil
}

// list returns the files in the order of merging.
func (k kubeletFiles) list() ([]string, error) {
	var files []string
	if k.file != "" {
		files = append(files, k.file)
	}
	if k.dir == "" {
		return files, nil
	}
	dropIns, err := input.FilesSoon(k.node.Own(k.dir), ".conf", maxDropIns)
	if err != nil {
		return nil, k.unread(k.dir, err)
	}
	return append(files, dropIns...), nil
}

func (k kubeletFiles) unread(file string, err error) error {
	switch {
	case k.flag == "":
		return fmt.Errorf("%s: %w", file, err)
	case file == k.file:
		return fmt.Errorf("%s: %s: %w", k.flag, file, err)
	default:
		return fmt.Errorf("%s-dir: %s: %w", k.flag, file, err)
	}
}

// underDropIns returns the fields of the kubelet's --config to which drop-ins are applied: with the
// default hard thresholds, and without values that are omitted when written again. c holds what was
// read from them.
func underDropIns(doc object, c *Config) object {
	under := maps.Clone(doc)
	if under == nil {
		under = object{}
	}
	mergeHard(c)
	for key, value := range map[string]any{"evictionHard": c.EvictionHard, "staticPodPath": c.StaticPodPath} {
		if text, err := json.Marshal(value); err == nil {
			under[key] = text
		}
	}
	if len(c.EnforceNodeAllocatable) == 0 {
		delete(under, "enforceNodeAllocatable")
	}
	return under
}

// A tree is a decoded document, in which mappings are trees and numbers are texts.
type tree = map[string]any

// treeOf decodes all of a document, nil if there is none.
func treeOf(doc object) (t tree) {
	text, err := json.Marshal(doc)
	if err != nil { // it was decoded before
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	_ = decoder.Decode(&t) // as above
	return t
}

// objectOf returns the fields of t.
func objectOf(t tree) object {
	doc := object{}
	if text, err := json.Marshal(t); err == nil {
		_ = json.Unmarshal(text, &doc) // of a tree there is always a text
	}
	return doc
}

// mergePatch applies patch to doc by RFC 7396: mappings key by key, null removes a key, everything
// else is replaced. The library for that takes and returns texts, so that many drop-ins would cost
// the square of their size.
func mergePatch(doc, patch tree) {
	for key, value := range patch {
		inner, isTree := value.(tree)
		switch {
		case isTree:
			below, both := doc[key].(tree)
			if !both {
				below = tree{}
				doc[key] = below
			}
			mergePatch(below, inner)
		case value == nil:
			delete(doc, key)
		default:
			doc[key] = value
		}
	}
}
