package replay

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

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
		return nil, inFile(path, err)
	}
	if trace.Scenario.Name == "" {
		trace.Scenario.Name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	}
	return trace, nil
}

// inFile names the file in each line of err.
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
