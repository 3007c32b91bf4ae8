package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/evictd/evictd/host/internal/dirtree"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
)

// prefix begins the names of all that is made in the directory of a Root, so that
// what a killed host left behind is found.
const prefix = "plugin-dir"

// namesDir has a link for each plugin to the descriptor of its program.
const namesDir = prefix + "-names"

// ErrHostDir is about the directory of a Root: no plugin can do anything about it.
var ErrHostDir = errors.New("the host cannot use its own directory")

// A Root is what the sandboxes of a host's plugins share.
type Root struct {
	// dir is the host's own directory.
	dir     string
	cgroups *cgroups
	log     *slog.Logger

	mu sync.Mutex
	// told are the reasons, told once, why plugins run with fewer limits than meant.
	told map[string]bool
}

// NewRoot takes a directory of this host alone, which also tells its cgroups
// from those of others.
func NewRoot(dir string, log *slog.Logger) *Root {
	return &Root{dir: dir, cgroups: findCgroups(dir), log: log, told: map[string]bool{}}
}

// Sweep ends what a killed host left running. The directories that it left are
// removed by what Sweep returns, which may take long: plugins may have filled them.
func (r *Root) Sweep() (removeDirs func(context.Context)) {
	// The directory of names is made again under its name at once.
	if aside, err := os.MkdirTemp(r.dir, prefix); err == nil {
		_ = os.Rename(filepath.Join(r.dir, namesDir), filepath.Join(aside, "names"))
	}
	left, err := os.ReadDir(r.dir)
	if err != nil {
		r.log.Error("socket directories of former plugins are not found", "error", err)
	}
	if err := r.cgroups.sweep(); err != nil {
		r.log.Error("something of former plugins is left", "error", err)
	}
	return func(ctx context.Context) {
		for _, dir := range left {
			if !strings.HasPrefix(dir.Name(), prefix) {
				continue
			}
			if err := dirtree.Remove(r.dir, dir.Name(), func() bool { return ctx.Err() == nil }); err != nil {
				r.log.Error("something of former plugins is left", "error", err)
			}
		}
	}
}

// Close removes what is left when all processes have ended.
func (r *Root) Close() {
	r.cgroups.remove()
	if err := os.RemoveAll(filepath.Join(r.dir, namesDir)); err != nil {
		r.log.Error("something of former plugins is left", "error", err)
	}
}

// Cgroups returns the cgroups of the host's plugins that exist.
func (r *Root) Cgroups() []string { return r.cgroups.all() }

// Prepare opens and checks the program at path, which has no links in it and is to
// be the one that was looked at, and makes ready what confines one process of it.
func (r *Root) Prepare(name string, generation uint64, path string, looked plugindir.ID, p Policy) (*Sandbox, error) {
	s := &Sandbox{
		policy: p,
		tell:   func(err error) { r.tell(name, err) },
		left:   func(err error) { r.log.Error("something of a plugin is left", "plugin", name, "error", err) },
	}
	var err error
	if s.confinement, err = p.admit(name); err != nil {
		return nil, plugindir.Refusal{Err: err}
	}
	link, err := r.link(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrHostDir, err)
	}
	if s.program, err = openProgram(path, link, r.dir, looked, p.sha256); err != nil {
		return nil, err
	}
	s.cgroup, s.unlimited = r.newCgroup(name, generation, p)
	if err := s.makeDir(r.dir); err != nil {
		s.Close()
		s.RemoveDir()
		return nil, err
	}
	return s, nil
}

// link returns a path with the plugin's name that is the program, in its process.
// The kernel takes the process's name from it, and a script its own.
func (r *Root) link(name string) (string, error) {
	dir := filepath.Join(r.dir, namesDir)
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // whatever the umask
		return "", err
	}
	link := filepath.Join(dir, name)
	if err := os.Symlink(programPath, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return link, nil
}

// makeTemp makes a directory in the host's own. The error leaves out the random part
// of its name: what goes wrong for the same reason reads the same.
func makeTemp(hostDir, prefix string) (string, error) {
	dir, err := os.MkdirTemp(hostDir, prefix)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%w: make a directory in %s: %w", ErrHostDir, hostDir, failed.Err)
	}
	return dir, err
}

// newCgroup makes the cgroup of one start. The error is why it is not what it should be,
// and has been told. Without a cgroup a plugin runs all the same: the node is better
// off with it than without.
func (r *Root) newCgroup(name string, generation uint64, p Policy) (*cgroup, error) {
	if !p.limited() {
		return nil, nil
	}
	g, err := r.cgroups.make(name, generation, p)
	r.tell(name, err)
	return g, err
}

// tell logs why the plugin is not limited as it should be, each reason once.
func (r *Root) tell(name string, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	known := r.told[err.Error()]
	r.told[err.Error()] = true
	r.mu.Unlock()
	if !known {
		r.log.Warn("plugins run without some of their limits", "plugin", name, "error", err)
	}
}
