package evictd

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"syscall"

	"sigs.k8s.io/yaml"
)

// Configure writes the configuration file into dir and returns its path. Missing keys nodeName,
// runDir and stateDir get defaults in dir.
func Configure(dir string, config map[string]any) (string, error) {
	full := map[string]any{"nodeName": "test", "runDir": filepath.Join(dir, "run"), "stateDir": filepath.Join(dir, "state")}
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

// Install copies an executable, and replaces one that runs. evictd trusts no plugin directory that users other than root may
// write to, so tests copy plugins from where they were built.
func Install(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	// A child that is forked meanwhile would keep the file open for writing until it executes
	// its own program, and evictd would get "text file busy".
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	beside := filepath.Join(filepath.Dir(to), "."+filepath.Base(to))
	if err := os.WriteFile(beside, content, 0o755); err != nil {
		return err
	}
	return os.Rename(beside, to)
}
