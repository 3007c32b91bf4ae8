package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/evictd/evictd/host/kubelet/overlay"
)

// changes holds changed files of the kubelet's sources, by path.
type changes map[string][]byte

// changed returns the changes that files make in sources of version. The error lists every problem.
func changed(sources, version string, files []overlay.File) (changes, error) {
	c := changes{}
	var errs []error
	for _, f := range files {
		if err := c.add(sources, version, f); err != nil {
			errs = append(errs, err)
		}
	}
	return c, errors.Join(errs...)
}

func (c changes) add(sources, version string, f overlay.File) error {
	own, err := overlay.Files.ReadFile(f.Name)
	if err != nil {
		return err
	}
	mine := filepath.Join(f.Package, "evictd_"+strings.TrimSuffix(f.Name, ".txt"))
	if _, err := os.Stat(filepath.Join(sources, mine)); err == nil {
		return fmt.Errorf("%s is there already: want sources without evictd", mine)
	}
	if semver.Compare(semver.MajorMinor(version), "v1.37") < 0 {
		own = []byte(overlay.Before137.Replace(string(own)))
	}
	c[mine] = own
	if f.Source == "" {
		return nil
	}
	path := filepath.Join(f.Package, f.Source)
	source, again := c[path]
	if !again {
		source, err = os.ReadFile(filepath.Join(sources, path))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is not there any more: this version of Kubernetes is not known to evictd", path)
		} else if err != nil {
			return err
		}
	}
	c[path], err = rename(path, source, f.Renamed)
	return err
}

// write writes the changes to out, with an overlay for sources. Files of the module cache cannot be
// replaced, but those below a link to it can.
func (c changes) write(out, sources string) error {
	link := filepath.Join(out, "kubernetes")
	if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(sources, link); err != nil {
		return err
	}
	replace := map[string]string{}
	for path, text := range c {
		file := filepath.Join(out, "_files", path) // not packages of this module
		replace[filepath.Join(link, path)] = file
		if err := writeFile(file, text); err != nil {
			return err
		}
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(out, "overlay.json"), append(text, '\n'))
}

// patch returns the difference to sources, for patch -p1.
func (c changes) patch(ctx context.Context, sources string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "evictd")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, path := range slices.Sorted(maps.Keys(c)) {
		was, err := os.ReadFile(filepath.Join(sources, path))
		if err == nil {
			err = writeFile(filepath.Join(dir, "a", path), was)
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err = errors.Join(err, writeFile(filepath.Join(dir, "b", path), c[path])); err != nil {
			return nil, err
		}
	}
	diff := exec.CommandContext(ctx, "diff", "-Nru", "a", "b")
	diff.Dir, diff.Stderr = dir, os.Stderr
	text, err := diff.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 { // they differ
		return text, nil
	}
	return text, err
}

// writeFile does not touch an unchanged file, so that nothing is rebuilt.
func writeFile(name string, text []byte) error {
	if is, err := os.ReadFile(name); err == nil && string(is) == string(text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
