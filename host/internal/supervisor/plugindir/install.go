package plugindir

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/host/internal/input"
)

// maxProgram is far more than a plugin has.
const maxProgram = 1 << 30

// Install copies an executable, or a symbolic link as a link, to a path: whole or not at all.
// The path's directory is made if it is not there.
func Install(from, to string) error {
	info, err := os.Lstat(from)
	if err != nil {
		return err
	}
	if info.Mode().Type() == os.ModeSymlink {
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return Link(target, to)
	}
	program, err := input.ReadFile(from, maxProgram)
	if err != nil {
		return err
	}
	return replace(to, func(aside string) error { return os.WriteFile(aside, program, 0o755) })
}

// Link makes a path a symbolic link to target.
func Link(target, to string) error {
	return replace(to, func(aside string) error { return os.Symlink(target, aside) })
}

// Layer makes dir with links to the plugins in layers, as far as these are there: of those of
// one name to the first.
func Layer(dir string, layers ...string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, layer := range layers {
		files, err := os.ReadDir(layer)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		for _, f := range files {
			target, err := filepath.Abs(filepath.Join(layer, f.Name()))
			if err == nil {
				err = os.Symlink(target, filepath.Join(dir, f.Name()))
			}
			if err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
		}
	}
	return nil
}

func replace(path string, write func(aside string) error) error {
	aside := path + ".new"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.Remove(aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := write(aside); err != nil {
		return err
	}
	return os.Rename(aside, path)
}
