package plugindir

import (
	"errors"
	"os"

	"github.com/evictd/evictd/host/internal/input"
)

// maxProgram is far more than a plugin has.
const maxProgram = 1 << 30

// Install copies an executable, or a symbolic link as a link, to a path: whole or not at all.
func Install(from, to string) error {
	aside := to + ".new"
	if err := os.Remove(aside); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	info, err := os.Lstat(from)
	switch {
	case err != nil:
		return err
	case info.Mode().Type() == os.ModeSymlink:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, aside); err != nil {
			return err
		}
	default:
		program, err := input.ReadFile(from, maxProgram)
		if err != nil {
			return err
		}
		if err := os.WriteFile(aside, program, 0o755); err != nil {
			return err
		}
	}
	return os.Rename(aside, to)
}
