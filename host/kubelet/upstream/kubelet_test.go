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
