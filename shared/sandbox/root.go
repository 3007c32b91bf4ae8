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
	// prefix begins the names of everything made in the directory of a Root, so that the
	// leftovers of a killed host can be found.
	prefix = "plugin-dir"
	// namesDir has one link per plugin to the descriptor of its program.
	namesDir = prefix + "-names"
)

// ErrHostDir is an error of the Root's directory, which is not a plugin's fault.
var ErrHostDir = errors.New("the host cannot use its own directory")

// Tell holds callbacks that report trouble with sandboxes. They are called from any goroutine.
// The name is the plugin's, "" for leftovers of a killed host.
type Tell struct {
	// Unlimited reports, once per reason, why a plugin runs with fewer limits than intended.
	Unlimited func(name string, err error)
	// Left reports what could not be removed after a plugin.
	Left func(name string, err error)
}

// A Root is shared by the sandboxes of one host.
type Root struct {
	// dir is the host's own directory.
	dir     string
	cgroups *cgroups
	tell    Tell
	// Strict: nothing is started unless all limits could be set.
	Strict bool

	mu       sync.Mutex
	reported map[string]bool
}

// NewRoot returns a Root for dir, which no other host may use. The path also distinguishes the
// host's cgroups from those of others.
func NewRoot(dir string, tell Tell) *Root {
	return &Root{dir: dir, cgroups: findCgroups(dir), tell: tell, reported: map[string]bool{}}
}

// Try returns nil if a process can be confined by p with all its limits.
func Try(p Policy) error {
	if err := p.Possible(); err != nil {
		return err
	}
	all := findCgroups(fmt.Sprint("try ", os.Getpid()))
	defer all.remove()
	g, err := all.make("try", 0, p)
	return errors.Join(err, g.end())
}

// Sweep kills the processes that a killed host left running. Call removeDirs to remove the
// directories that it left; this may take long, since plugins may have filled them.
func (r *Root) Sweep() (removeDirs func(context.Context)) {
	// Move the directory of names away: it is needed again at once under its name.
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

// Close removes what is left. Call it after all processes have ended.
func (r *Root) Close() {
	r.cgroups.remove()
	r.left("", os.RemoveAll(filepath.Join(r.dir, namesDir)))
}

// Cgroups returns the cgroups of the host's plugins that exist.
func (r *Root) Cgroups() []string { return r.cgroups.all() }

// MkdirTemp makes a directory that Sweep removes after this host was killed. Its error omits the
// random part of the name, so that errors with the same reason have the same text.
func (r *Root) MkdirTemp(what string) (string, error) {
	dir, err := os.MkdirTemp(r.dir, prefix+what)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%w: make a directory in %s: %w", ErrHostDir, r.dir, failed.Err)
	}
	return dir, err
}

// Prepare returns a sandbox for one start of the named plugin and takes over program, which it
// closes on an error. The error is an Impossible if another attempt would fail too.
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
	// By default a plugin runs even without a cgroup: the node is better off with it than without.
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

// link returns a path that ends in the plugin's name and leads to the program in its process.
// The kernel takes the process's name from it, and a script its $0.
func (r *Root) link(name string) (string, error) {
	dir := filepath.Join(r.dir, namesDir)
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // regardless of the umask
		return "", err
	}
	link := filepath.Join(dir, name)
	if err := os.Symlink(programPath, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return link, nil
}

// unlimited reports, once per error, why the plugin lacks a limit.
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

func (r *Root) left(name string, err error) {
	if err != nil {
		r.tell.Left(name, err)
	}
}
