// Package plugindir examines the plugin directory: its files, who may have written them, and when
// they change. It reports whether only root or the host's user could have put a file there, and
// whether it is still being written. It starts nothing and does not know what plugins say about
// themselves: that is for host/internal/pluginhost/supervisor.
package plugindir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A Refusal is a reason not to run a plugin that retrying does not remove.
type Refusal struct {
	Err error
	// MayPass: it may disappear without a change of the file, like the permissions of a directory
	// above it, or a temporary absence.
	MayPass bool
}

func (r Refusal) Error() string { return r.Err.Error() }

// Unwrap returns the reason.
func (r Refusal) Unwrap() error { return r.Err }

// Check checks the plugin directory itself.
func Check(dir string) error {
	err := TrustedDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing(dir)
	case err != nil:
		return fmt.Errorf("plugin directory %s: %w", dir, err)
	}
	return nil
}

// missing is the error of a missing plugin directory.
type missing string

func (m missing) Error() string {
	return "plugin directory " + string(m) + ": does not exist, want a directory with the plugins' executables (pluginDir)"
}

// Is makes missing match fs.ErrNotExist.
func (missing) Is(target error) bool { return target == fs.ErrNotExist }

// Names checks the plugin directory and returns the names of the plugins in it, sorted.
func Names(dir string) ([]string, error) {
	if err := Check(dir); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list plugins: %w", err)
	}
	var names []string
	for _, e := range entries {
		if pluginName(e.Name()) {
			names = append(names, strings.TrimSuffix(e.Name(), socketSuffix))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// NameForm is the form of a plugin's name. Copies, backups and temporary files have another, such as memory.bak, disk~ and
// rpm's "disk;65a1b2c3".
const NameForm = "[a-z0-9-]+"

var pluginFile = regexp.MustCompile("^" + NameForm + "(" + regexp.QuoteMeta(socketSuffix) + ")?$")

// pluginName reports whether a file of that name may be a plugin.
func pluginName(name string) bool { return pluginFile.MatchString(name) }

// Others returns the files of a plugin directory that are no plugins by their names, but for hidden ones.
func Others(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // Names has said so
	for _, e := range entries {
		if !pluginName(e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// A File is a file of the plugin directory.
type File struct {
	ID ID
	// Dangling is a link to nothing: the plugin itself was removed.
	Dangling bool
	// Fit: its permissions allow running it.
	Fit bool
	// Path of the executable or of the socket, "" for an in-process plugin.
	Path string
}

// Look returns the files in the plugin directory, by name.
func Look(dir string) (map[string]File, error) {
	names, err := Names(dir)
	if err != nil {
		return nil, err
	}
	files := make(map[string]File, len(names))
	for _, name := range names {
		path, socket := Path(dir, name)
		id, err := Identify(path)
		f := File{ID: id, Dangling: errors.Is(err, fs.ErrNotExist), Path: path}
		if !socket {
			_, unfit := Executable(path)
			f.Fit = unfit == nil
		}
		files[name] = f
	}
	return files, nil
}
