package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

// A plugin that was not found was said to be missing from make build.
func TestWhatTheCallerNamed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string, mode os.FileMode) string {
		testos.WriteFile(t, name, text, mode)
		return filepath.Join(dir, name)
	}
	plugin, plain := write("own", "#!", 0o700), write("plain", "", 0o600)
	config, list := write("config.yaml", "keepFrom: 3\n", 0o600), write("list.yaml", "- 3\n", 0o600)
	for name, c := range map[string]struct {
		options options
		want    string // "" is none
	}{
		"nothing":                 {options{}, ""},
		"a plugin":                {options{custom: plugin}, ""},
		"configured":              {options{custom: plugin, config: config}, ""},
		"elsewhere":               {options{custom: "bin/own"}, "there is no bin/own in " + dir + ": want its absolute path"},
		"nowhere":                 {options{custom: "/nowhere/own"}, "there is no /nowhere/own"},
		"a directory":             {options{custom: dir}, "is not a file"},
		"not executable":          {options{custom: plain}, "cannot be executed"},
		"configuration nowhere":   {options{custom: plugin, config: "c.yaml"}, "there is no c.yaml in " + dir},
		"configuration of a sort": {options{custom: plugin, config: list}, "cannot unmarshal"},
		"pods":                    {options{pods: config}, ""},
		"pods nowhere":            {options{pods: "p.yaml"}, "there is no p.yaml in " + dir},
		"configuration alone":     {options{config: config}, "no plugin"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.options.checkCustom()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	got, err := options{custom: plugin, config: config}.pluginConfig()
	want := map[string]any{"own": map[string]any{"config": map[string]any{"keepFrom": 3.0}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Pods of one's own need a hog, which makes the pressure.
func TestPodsOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"with a hog":    {"metadata:\n  name: hog\n", ""},
		"without a hog": {"metadata:\n  name: hogs\n", "no pod is named hog"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			testos.WriteFile(t, file, c.text, 0o600)
			got, err := options{pods: file}.manifests()
			if c.want == "" && (err != nil || got != c.text) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %q and %v, want %q", got, err, c.want)
			}
		})
	}
}
