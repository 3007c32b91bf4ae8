package supervisor

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

// tried returns what Try says of plugins with these configurations, and wants
// nothing to be left of it.
func tried(t *testing.T, dir string, settings map[string]Settings) string {
	t.Helper()
	tmp, err := os.MkdirTemp("/tmp", "try") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	t.Setenv("TMPDIR", tmp)
	errs := Try(t.Context(), Options{Dir: dir, Settings: settings, Timeouts: patientCalls, Log: slog.New(slog.DiscardHandler)}, func(*Supervisor) {})
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err.Error()
	}
	return ""
}

// A plugin's configuration could be wrong, and check found nothing: only run did.
func TestAConfigurationIsTriedOnThePluginItself(t *testing.T) {
	dir := install(t, "a", "b")
	if got := tried(t, dir, configs("a", `{"n":1}`, "b", `{"n":2}`)); got != "" {
		t.Errorf("%s", got)
	}
	if got := tried(t, dir, configs("a", `{"n":1}`, "b", `{"refuse":2}`)); got != "plugin b: configure: plugin refused: config.color: unknown field, want none" {
		t.Errorf("%s", got)
	}
	want(t, tried(t, install(t, "exits"), configs("exits", `{}`)), "plugin exits: ", "exit status 3")
}

// check passed a plugin without a configuration that did not start.
func TestAllPluginsAreTriedButThoseThatAreDisabled(t *testing.T) {
	dir := privateDir(t)
	script := func(name string) {
		testos.WriteFile(t, filepath.Join(dir, name), "#!/bin/sh\n: >"+dir+"/.ran-"+name+"\n", 0o700)
	}
	script("disabled")
	off := Settings{Disabled: true, Config: []byte("{}")}
	if got := tried(t, dir, map[string]Settings{"disabled": off, "absent": {Config: []byte("{}")}}); got != "" {
		t.Error(got)
	}
	script("none")
	want(t, tried(t, dir, map[string]Settings{"disabled": off}), "plugin none: ")
	if _, err := os.Stat(dir + "/.ran-none"); err != nil {
		t.Errorf("a plugin without a configuration was not started: %v", err)
	}
	if _, err := os.Stat(dir + "/.ran-disabled"); err == nil {
		t.Error("a disabled plugin was started")
	}
}
