package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
)

// A plugin that wants a configuration and has none was absent from a replay without a
// word.
func TestPluginsThatDoNotStartAreTold(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(&startFailures{to: &out}).With("scenario", "a")
	for range 2 {
		log.Error("plugin did not start", "plugin", "spare", "error", errors.New("device: want one"))
	}
	log.Error("something else", "plugin", "spare")
	log.Info("plugin did not start", "plugin", "other")
	if got, want := out.String(), "evictd: plugin spare did not start: device: want one\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
