package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// checkDir checks the plugin directory itself.
func checkDir(dir string, self uint32) error {
	_, info, err := trusted(dir, self)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("plugin directory %s: does not exist, want a directory with the plugins' executables (pluginDir)", dir)
	case err != nil:
		return fmt.Errorf("plugin directory %s: %w", dir, err)
	case !info.IsDir():
		return fmt.Errorf("plugin directory %s: is a %s, want a directory", dir, kind(info.Mode()))
	}
	return nil
}

// discover returns the names of the plugins in dir, sorted.
func discover(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list plugins: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name := e.Name(); pluginName(name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// executable checks that path may be run as a plugin and returns it without
// symbolic links. It is asked before every start: the file may have changed.
func executable(path string, self uint32) (string, error) {
	resolved, info, err := trusted(path, self)
	if err != nil {
		return "", err
	}
	return resolved, checkExecutable(resolved, info)
}

func checkExecutable(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: is a %s, want an executable regular file", path, kind(info.Mode()))
	}
	if info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s: mode %04o is not executable, want for example 0755 (chmod +x), or remove the file", path, info.Mode().Perm())
	}
	return nil
}

func pathOf(dir, name string) string { return filepath.Join(dir, name) }

func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "regular file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeNamedPipe != 0:
		return "named pipe"
	default:
		return "special file"
	}
}
