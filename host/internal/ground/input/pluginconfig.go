package input

import (
	"fmt"

	"github.com/evictd/evictd/host/internal/ground/printable"
)

// maxPluginConfig bounds a plugin's configuration in bytes, generously.
const maxPluginConfig = 1 << 20

// PluginConfig reads a plugin's configuration as JSON, with its place; nil if there is no file.
func PluginConfig(file string) ([]byte, Place, error) {
	if file == "" {
		return nil, Place{}, nil
	}
	raw, err := ReadFileSoon(file, maxPluginConfig)
	if err != nil {
		return nil, Place{}, fmt.Errorf("%s: %w", file, err)
	}
	config, twice, err := YAML(raw, "fields and values")
	if err = printable.ClipAll(append(twice, err), 10); err != nil {
		return nil, Place{}, fmt.Errorf("%s: %w", file, err)
	}
	return config, Place{File: file, Lines: FieldLines(raw, "")}, nil
}
