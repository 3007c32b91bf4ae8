package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// startFailures is a log that tells one thing: which plugins did not start, and why. In a
// replay that is somebody's ranker, or an observer that wants a configuration.
type startFailures struct {
	to io.Writer

	mu   sync.Mutex
	told map[string]bool
}

// Enabled implements slog.Handler.
func (*startFailures) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

// Handle implements slog.Handler.
func (h *startFailures) Handle(_ context.Context, r slog.Record) error {
	if r.Message != "plugin did not start" {
		return nil
	}
	attrs := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		attrs[a.Key] = a.Value.String()
		return true
	})
	line := fmt.Sprintf("plugin %s did not start: %s", attrs["plugin"], attrs["error"])
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told == nil {
		h.told = map[string]bool{}
	}
	if !h.told[line] { // once for all scenarios
		h.told[line] = true
		say(h.to, line)
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h *startFailures) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h *startFailures) WithGroup(string) slog.Handler { return h }
