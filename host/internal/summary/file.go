package summary

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/shared/summaryapi"
)

// file reads the summary from a file. Whoever writes it renames a whole one into
// place.
type file struct {
	path string
	call call
}

func newFile(path string, timeout time.Duration) *file {
	return &file{path: path, call: newCall(timeout, func(context.Context) ([]byte, error) {
		return readRegular(path, summaryapi.MaxBytes)
	})}
}

func (f *file) Fetch(ctx context.Context) ([]byte, error) {
	summary, err := f.call.do(ctx)
	if err != nil {
		return nil, fmt.Errorf("get summary from file://%s: %w", f.path, err)
	}
	return summary, nil
}

func (f *file) Close(ctx context.Context) error { return f.call.close(ctx) }

// readRegular reads a whole file and names it in errors.
func readRegular(path string, maxBytes int64) ([]byte, error) {
	data, err := input.ReadFile(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}
