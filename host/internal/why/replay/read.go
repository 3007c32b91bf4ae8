package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
)

// maxFileBytes bounds the unpacked size of a trace, against wrong files and gzip bombs.
const maxFileBytes = 256 << 20

// Read reads a trace or a bare scenario from a file, JSON or YAML by its name; .gz at the end means
// compressed.
func Read(path string) (*Trace, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(path, ".gz")
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		if data, err = fromYAML(data); err != nil {
			return nil, inFile(path, err)
		}
	}
	trace, err := Decode(data)
	if err != nil {
		return nil, inFile(path, err)
	}
	if trace.Scenario.Name == "" {
		trace.Scenario.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	}
	return trace, nil
}

// inFile prefixes each line of err with the file's name.
func inFile(path string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", path, err)
	}
	var errs []error
	for _, err := range joined.Unwrap() {
		errs = append(errs, fmt.Errorf("%s: %w", path, err))
	}
	return errors.Join(errs...)
}

func readFile(path string) ([]byte, error) {
	data, err := input.ReadFileSoon(path, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w, want a trace or a scenario", path, err)
	}
	if !strings.HasSuffix(path, ".gz") {
		return data, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if data, err = io.ReadAll(io.LimitReader(r, maxFileBytes+1)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: expands to more than %d MiB, want a trace or a scenario", path, maxFileBytes>>20)
	}
	return data, nil
}

// fromYAML converts YAML to JSON. A duplicate key is an error.
func fromYAML(data []byte) ([]byte, error) {
	data, twice, err := input.YAML(data, "a trace or a scenario")
	return data, printable.ClipAll(append(twice, err), maxErrors)
}
