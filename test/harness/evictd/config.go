package evictd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"

	"sigs.k8s.io/yaml"
)

// Configure writes the configuration file into dir and returns its path. What
// config lacks of nodeName, listenAddress and runDir gets a default: any free
// port, and a directory in dir.
func Configure(dir string, config map[string]any) (string, error) {
	full := map[string]any{"nodeName": "test", "listenAddress": "127.0.0.1:0", "runDir": filepath.Join(dir, "run"), "stateDir": filepath.Join(dir, "state")}
	maps.Copy(full, config)
	text, err := yaml.Marshal(full)
	if err != nil {
		return "", fmt.Errorf("configure evictd: %w", err)
	}
	file := filepath.Join(dir, "evictd.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("configure evictd: %w", err)
	}
	return file, nil
}

// Install copies an executable. evictd trusts no plugin directory that others
// than root may write to, so plugins are copied from where they were built.
func Install(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	// A child that is forked while the file is open for writing holds it open until it runs
	// its own program; evictd would find the text file busy.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(to, content, 0o755)
}
