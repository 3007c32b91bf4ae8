package plugindir

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/host/internal/ground/input"
)

// maxProgram bounds the size of a plugin, generously.
const maxProgram = 1 << 30

// Install copies an executable, or a symbolic link as a link, to a path atomically. It creates the
// path's directory if missing.
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

// Link atomically makes a path a symbolic link to target.
func Link(target, to string) error {
	return replace(to, func(aside string) error { return os.Symlink(target, aside) })
}

// RemoveLinks removes the symbolic links in dir whose names unwanted reports.
func RemoveLinks(dir string, unwanted func(name string) bool) error {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if f.Type() == os.ModeSymlink && unwanted(f.Name()) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	return err
}

// Layer creates dir with links to the plugins in layers that exist. For plugins of the same name
// the first layer wins.
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
