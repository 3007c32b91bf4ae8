package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxFileBytes keeps a file that is no trace, or a gzip bomb, out of memory.
const maxFileBytes = 256 << 20

// Read reads a trace or a bare scenario from a file in JSON or, by its name, in
// YAML; a name that ends in .gz is compressed.
func Read(path string) (*Trace, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(path, ".gz")
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		if data, err = yaml.YAMLToJSONStrict(data); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	trace, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return trace, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s: longer than %d MiB, want a trace or a scenario", path, maxFileBytes>>20)
	}
	return data, nil
}

// Decode reads a trace or a bare scenario from JSON.
func Decode(data []byte) (*Trace, error) {
	trace := &Trace{}
	var into any = trace
	if !bytes.Contains(data, []byte(`"scenario"`)) {
		trace.Scenario = &Scenario{}
		into = trace.Scenario
	}
	strict, err := kjson.UnmarshalStrict(data, into)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, errors.Join(strict...)
	}
	if trace.Scenario == nil {
		return nil, errors.New("scenario: missing")
	}
	return trace, nil
}
