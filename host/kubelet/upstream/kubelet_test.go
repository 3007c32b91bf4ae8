package upstream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// own is the test that comes with the overlay.
const own = "TestEvictdInAKubelet"

// A kubelet makes and starts its manager, and has a pod to evict: it is evicted by
// evictd, by the kubelet's own manager where that was asked for or evictd cannot run, or
// the kubelet ends.
func TestAManagerOfAKubelet(t *testing.T) {
	dir := build(t)
	plugins := os.Getenv("EVICTD_TEST_PLUGINS")
	const (
		refused = `plugins: {memory: {config: {colour: green}}}`
		nowhere = "runDir: /proc/evictd"
	)
	for name, c := range map[string]struct{ mode, config, want, says string }{
		"evictd":                               {"on", "", "evictd", ""},
		"with plugins as processes":            {"on", "pluginDir: " + plugins, "evictd", ""},
		"switched off":                         {"off", "", "upstream", ""},
		"no run directory, auto":               {"auto", nowhere, "upstream", "evictd cannot run, the kubelet's own eviction manager does"},
		"no run directory":                     {"on", nowhere, "", "/proc/evictd"},
		"a plugin inside does not start, auto": {"auto", refused, "upstream instead", "evictd cannot run, the kubelet's own eviction manager does"},
		"a plugin inside does not start":       {"on", refused, "", "colour"},
	} {
		t.Run(name, func(t *testing.T) {
			at, err := os.MkdirTemp("", "evictd") // a socket's path must be short
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(at)
			lines := []string{"source: summary"}
			for key, line := range map[string]string{"pluginDir:": "pluginDir: " + at + "/none", "runDir:": "runDir: " + at, "stateDir:": "stateDir: " + at + "/state"} {
				if !strings.HasPrefix(c.config, key) {
					lines = append(lines, line)
				}
			}
			file := filepath.Join(t.TempDir(), "evictd.yaml")
			if err := os.WriteFile(file, []byte(strings.Join(append(lines, c.config, ""), "\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			passed, log := run(t, dir, "eviction", "^"+own+"$", "EVICTD="+c.mode, "EVICTD_CONFIG="+file, "EVICTD_TEST_WANT="+c.want+map[bool]string{true: "nobody"}[c.want == ""])
			if ok := passed[own]; ok != (c.want != "") || !strings.Contains(string(log), c.says) {
				t.Errorf("passed %v, want %q and %q in the log:\n%s", ok, c.want, c.says, part(log, own))
			}
			if c.want == "" && len(passed) > 0 {
				t.Errorf("the kubelet did not end: %v", passed)
			}
		})
	}
}

// keeps is the test of image garbage collection that comes with the overlay.
const keeps = "TestEvictdKeepsImages"

// The image garbage collection of a kubelet, which evictd starts under pressure and which runs by
// itself, removed images that nothing could bring back.
func TestAKubeletKeepsImages(t *testing.T) {
	dir := build(t)
	const patterns = `plugins: {disk: {config: {keepImages: ["registry.local/*"]}}}`
	for name, c := range map[string]struct{ mode, config, left, says string }{
		"nothing said":    {"on", "", "pinned", ""},
		"keepImages":      {"on", patterns, "kept pinned", "images=1 bytes=20"},
		"importedImages":  {"on", `plugins: {disk: {config: {importedImages: true}}}`, "imported pinned", "images=1 bytes=300"},
		"switched off":    {"off", patterns, "pinned", ""},
		"a vendor's disk": {"on", `plugins: {disk: {config: {colour: green}}}`, "pinned", ""},
		"a wrong pattern": {"on", `plugins: {disk: {config: {keepImages: ["", "a b"], minAge: -1s}}}`, "", `keepImages[1] is "a b" with white space`},
		"all its errors":  {"on", `plugins: {disk: {config: {keepImages: ["", "a b"], minAge: -1s}}}`, "", "minAge is -1s"},
		"wrong, auto":     {"auto", `plugins: {disk: {config: {keepImages: [""]}}}`, "pinned", "keepImages[0] is "},
	} {
		t.Run(name, func(t *testing.T) {
			at := t.TempDir()
			file := filepath.Join(at, "evictd.yaml")
			text := "source: summary\nstateDir: " + at + "\n" + c.config + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			passed, log := run(t, dir, "images", "^"+keeps+"$", "EVICTD="+c.mode, "EVICTD_CONFIG="+file, "EVICTD_TEST_LEFT="+c.left)
			if passed[keeps] != (c.left != "") || !strings.Contains(string(log), c.says) {
				t.Errorf("passed %v, want %q left and %q in the log:\n%s", passed[keeps], c.left, c.says, part(log, keeps))
			}
			lines := map[bool]int{true: 2}[strings.HasPrefix(c.says, "images=")] // under pressure, and when too little is free
			if got := strings.Count(string(log), "keeps images"); got != lines {
				t.Errorf("the log says %d times that images are kept, want %d:\n%s", got, lines, part(log, keeps))
			}
			if c.left == "" && len(passed) > 0 {
				t.Errorf("the kubelet did not end: %v", passed)
			}
		})
	}
}
