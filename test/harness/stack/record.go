package stack

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// recordDir is the same for all runs, so that any later run finds what a killed one left.
const recordDir = "/run/evictd-stack"

// record lists everything of a stack that must be removed. It is written before the first of
// these things is created and deleted after the last is gone.
type record struct {
	ID     string  `json:"id"`
	Owner  Process `json:"owner"`
	Dir    string  `json:"dir"`
	Cgroup string  `json:"cgroup"`
	// MadeDirs are directories outside of Dir that did not exist before; they
	// are removed if they are empty.
	MadeDirs []string `json:"madeDirs,omitempty"`
	// Sysctls are the values of files below /proc/sys at the start, by name.
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

func (r record) path() string { return filepath.Join(recordDir, r.ID+".json") }

func (r record) save() error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode stack record: %w", err)
	}
	if err := os.MkdirAll(recordDir, 0o755); err != nil {
		return fmt.Errorf("make stack record: %w", err)
	}
	// Write a temporary file first, so that a run killed while it writes leaves no half record.
	if err := os.WriteFile(r.path()+".tmp", raw, 0o644); err != nil {
		return fmt.Errorf("write stack record: %w", err)
	}
	if err := os.Rename(r.path()+".tmp", r.path()); err != nil {
		return fmt.Errorf("write stack record: %w", err)
	}
	return nil
}

func (r record) forget() error {
	if err := os.Remove(r.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove stack record: %w", err)
	}
	_ = os.Remove(r.path() + ".tmp") // only there if the owner was killed while it wrote
	_ = os.Remove(recordDir)         // only the last one out succeeds, as it should
	return nil
}

// abandoned returns the records whose owner is dead.
func abandoned() ([]record, error) {
	paths, err := filepath.Glob(filepath.Join(recordDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []record
	var errs []error
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // its owner has just finished
		}
		var r record
		if err == nil {
			err = json.Unmarshal(raw, &r)
		}
		if err == nil && (r.path() != path || !safeName.MatchString(filepath.Base(r.Cgroup)) || !filepath.IsAbs(r.Dir)) {
			err = errors.New("not written by this program")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("stack record %s: %w", path, err))
			continue
		}
		if !r.Owner.Alive() {
			out = append(out, r)
		}
	}
	return out, errors.Join(errs...)
}
