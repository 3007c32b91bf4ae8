package plugindir

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
)

// maxProgram bounds the size of a plugin in bytes, generously: a static executable in Go has 20 to 50 MB.
const maxProgram = 512 << 20

// Install copies an executable to a path atomically, in parts. It creates the path's directory if
// missing. It follows symbolic links. An error about the file itself is a Refusal.
func Install(from, to string) error {
	file, size, err := input.Open(from)
	if err == nil {
		defer file.Close() //nolint:errcheck // only read.
		err = checkSize(size)
	}
	if err != nil {
		return Refusal{Err: fmt.Errorf("%s: %w", from, err)}
	}
	return replace(to, func(aside string) error {
		program, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
		if err != nil {
			return err
		}
		_, err = io.CopyN(program, file, size)
		return errors.Join(err, program.Close())
	})
}

func checkSize(bytes int64) error {
	switch {
	case bytes == 0:
		return errors.New("is empty, want an executable")
	case bytes > maxProgram:
		return fmt.Errorf("has %d bytes, want at most %d", bytes, maxProgram)
	}
	return nil
}

const (
	// staged is where the chart mounts the directory of Stage.
	staged = "/usr/libexec/evictd/staged/"
	// notCopied begins the file that Stage leaves in place of an executable, of at most maxReasonBytes.
	notCopied      = "not copied from its image: "
	maxReasonBytes = 16 << 10
)

// Stage installs an executable of the image that this program runs in. If that fails, it leaves
// the reason in a file that cannot be executed, for evictd to read.
func Stage(from, to string) error {
	err := checkOutside(from, filepath.Dir(to))
	if err == nil {
		err = Install(from, to)
	}
	if err == nil {
		return nil
	}
	reason := notCopied + printable.ClipText(err.Error())
	if left := replace(to, func(aside string) error { return os.WriteFile(aside, []byte(reason), 0o444) }); left != nil {
		return left
	}
	return err
}

// reasonIn returns the reason that Stage left in the file at path, "" if there is none.
func reasonIn(path string) string {
	text, err := input.ReadFile(path, maxReasonBytes)
	if err != nil || !strings.HasPrefix(string(text), notCopied) {
		return ""
	}
	return printable.ClipText(string(text))
}

// checkOutside refuses a symbolic link into dir, which is not of the image. Install has a better
// error for a link to nothing.
func checkOutside(file, dir string) error {
	target, _ := filepath.EvalSymlinks(file)
	dir, err := filepath.EvalSymlinks(dir)
	if err == nil && filepath.Dir(target) == dir {
		return Refusal{Err: fmt.Errorf("%s: links to %q, want a file of the image", file, target)}
	}
	return nil
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
