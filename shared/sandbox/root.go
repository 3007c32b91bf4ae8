package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/evictd/evictd/shared/dirtree"
)

const (
	// prefix begins the names of all that is made in the directory of a Root, so that
	// what a killed host left behind is found.
	prefix = "plugin-dir"
	// namesDir has a link for each plugin to the descriptor of its program.
	namesDir = prefix + "-names"
)

// ErrHostDir is about the directory of a Root: no plugin can do anything about it.
var ErrHostDir = errors.New("the host cannot use its own directory")

// Tell holds callbacks for the troubles of sandboxes, called from any goroutine. The name is
// the plugin's, "" for those of a killed host.
type Tell struct {
	// Unlimited reports why a plugin runs with fewer limits than meant, each reason once.
	Unlimited func(name string, err error)
	// Left reports what could not be removed of a plugin.
	Left func(name string, err error)
}

// A Root is shared by the sandboxes of one host.
type Root struct {
	// dir is the host's own directory.
	dir     string
	cgroups *cgroups
	tell    Tell
	// Strict: without all limits nothing is started.
	Strict bool

	mu       sync.Mutex
	reported map[string]bool
}

// NewRoot takes a directory of this host alone, which also tells its cgroups
// from those of others.
func NewRoot(dir string, tell Tell) *Root {
	return &Root{dir: dir, cgroups: findCgroups(dir), tell: tell, reported: map[string]bool{}}
}

// Try tries whether a process can be confined by p, with all its limits.
func Try(p Policy) error {
	if err := p.Possible(); err != nil {
		return err
	}
	all := findCgroups(fmt.Sprint("try ", os.Getpid()))
	defer all.remove()
	g, err := all.make("try", 0, p)
	return errors.Join(err, g.end())
}

// Sweep ends what a killed host left running. The directories that it left are
// removed by what Sweep returns, which may take long: plugins may have filled them.
func (r *Root) Sweep() (removeDirs func(context.Context)) {
	// The directory of names is made again under its name at once.
	if aside, err := r.MkdirTemp(""); err == nil {
		_ = os.Rename(filepath.Join(r.dir, namesDir), filepath.Join(aside, "names"))
	}
	left, err := os.ReadDir(r.dir)
	r.left("", err)
	r.left("", r.cgroups.sweep())
	return func(ctx context.Context) {
		for _, dir := range left {
			if strings.HasPrefix(dir.Name(), prefix) {
				r.left("", dirtree.Remove(r.dir, dir.Name(), func() bool { return ctx.Err() == nil }))
			}
		}
	}
}

// Close removes what is left when all processes have ended.
func (r *Root) Close() {
	r.cgroups.remove()
	r.left("", os.RemoveAll(filepath.Join(r.dir, namesDir)))
}

// Cgroups returns the cgroups of the host's plugins that exist.
func (r *Root) Cgroups() []string { return r.cgroups.all() }

// MkdirTemp makes a directory that is swept when this host is killed. The error leaves out
// the random part of its name: what goes wrong for the same reason reads the same.
func (r *Root) MkdirTemp(what string) (string, error) {
	dir, err := os.MkdirTemp(r.dir, prefix+what)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%w: make a directory in %s: %w", ErrHostDir, r.dir, failed.Err)
	}
	return dir, err
}

// Prepare makes ready what confines one process of the plugin of that name, whose program
// is the sandbox's from here on. An error is an Impossible if another attempt would end
// alike.
func (r *Root) Prepare(name string, start uint64, program Program, p Policy) (*Sandbox, error) {
	s, err := confine(p)
	if err == nil {
		s.root, s.name, s.program = r, name, program
		if s.link, err = r.link(name); err != nil {
			err = fmt.Errorf("%w: %w", ErrHostDir, err)
		}
	}
	if err != nil {
		program.Close()
		program.Discard()
		return nil, err
	}
	// Without a cgroup a plugin runs all the same: the node is better off with it than
	// without.
	if s.cgroup, s.unlimited = r.cgroups.make(name, start, p); r.Strict {
		err = s.unlimited
	} else {
		r.unlimited(name, s.unlimited)
	}
	if err == nil {
		err = s.makeDir()
	}
	if err != nil {
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

// unlimited tells why the plugin is not limited as it should be.
func (r *Root) unlimited(name string, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	known := r.reported[err.Error()]
	r.reported[err.Error()] = true
	r.mu.Unlock()
	if !known {
		r.tell.Unlimited(name, err)
	}
}

// left tells what could not be removed.
func (r *Root) left(name string, err error) {
	if err != nil {
		r.tell.Left(name, err)
	}
}
