package store

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/evictd/evictd/host/internal/core/decision"
)

const (
	suffix = ".json.gz"
	// maxPart bounds a part of a file name in bytes. It is the limit of a namespace, and of the name
	// of a pod that a controller makes.
	maxPart = 63
	// changed stands for what a file name cannot have: a search then needs the content.
	changed = "~"
)

// fileName returns ID_NAMESPACE_POD_UID.json.gz, or ID_KIND.json.gz for a decision without a pod.
func fileName(d *decision.Decision) string {
	parts := []string{part(d.ID), part(d.Kind)}
	if v := d.Victim; v != nil {
		namespace, name, _ := strings.Cut(v.Pod, "/")
		parts = append(parts[:1], part(namespace), part(name), part(v.UID))
	}
	return strings.Join(parts, "_") + suffix
}

// part returns text as a part of a file name.
func part(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		}
		return rune(changed[0])
	}, text)
	if len(text) > maxPart {
		text = text[:maxPart-1] + changed
	}
	return text
}

// parse returns the head of a record as far as its file name has it.
func parse(file string) (decision.Head, bool) {
	parts := strings.Split(strings.TrimSuffix(file, suffix), "_")
	h := decision.Head{ID: parts[0], Time: decision.IDTime(parts[0])}
	switch len(parts) {
	case 2:
		h.Kind = parts[1]
	case 4:
		h.Pod, h.UID = parts[1]+"/"+parts[2], parts[3]
	default:
		return decision.Head{}, false
	}
	return h, true
}

// fileNames returns the names of the files in a directory that may be records, the oldest first.
func fileNames(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(files))
	for _, f := range files {
		if strings.HasSuffix(f.Name(), suffix) && f.Type().IsRegular() {
			names = append(names, f.Name())
		}
	}
	return names, err
}

// Known returns what the file names in dir have of the records, the oldest first.
func Known(dir string) (heads []decision.Head, err error) {
	names, err := fileNames(dir)
	for _, name := range names {
		if h, ok := parse(name); ok {
			heads = append(heads, h)
		}
	}
	return heads, err
}
