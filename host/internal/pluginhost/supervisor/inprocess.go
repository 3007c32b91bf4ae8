package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/host/internal/pluginhost/opencalls"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// mixed launches in-process plugins and those of a directory, which may be missing if it is optional.
// A file replaces the in-process plugin of its name for as long as it exists.
type mixed struct {
	*processes

	inside   InProcess
	optional bool
}

func (l *mixed) look() (map[string]plugindir.File, error) {
	files, err := l.processes.look()
	if err != nil && (!l.optional || !errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	all, _ := l.inside.look() // it never returns an error
	for name, f := range files {
		if _, both := all[name]; !both || !f.Dangling {
			all[name] = f
		}
	}
	return all, nil
}

func (l *mixed) complete(ctx context.Context, name string) (plugindir.ID, error) {
	file, err := l.processes.complete(ctx, name)
	if _, ok := l.inside[name]; ok && errors.Is(err, fs.ErrNotExist) {
		return l.inside.complete(ctx, name)
	}
	return file, err
}

func (l *mixed) launch(ctx context.Context, s start) (running, error) {
	if l.inside.has(s.Name, s.file) {
		return l.inside.launch(ctx, s)
	}
	return l.processes.launch(ctx, s)
}

// InProcess holds plugins that run in this process, by name.
type InProcess map[string]eviction.Plugin

// check returns an error for each plugin that breaks the contract or refuses the host.
func (l InProcess) check(host eviction.Host) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(l)) {
		p := l[name]
		err := p.Validate()
		if err == nil && p.CheckHost != nil {
			err = p.CheckHost(host)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// has reports whether a plugin with this file is an in-process one: those have no file.
func (l InProcess) has(name string, file plugindir.ID) bool {
	_, ok := l[name]
	return ok && file == plugindir.ID{}
}

func (l InProcess) look() (map[string]plugindir.File, error) {
	files := make(map[string]plugindir.File, len(l))
	for name := range l {
		files[name] = plugindir.File{Fit: true}
	}
	return files, nil
}

func (l InProcess) complete(context.Context, string) (plugindir.ID, error) {
	return plugindir.ID{}, nil
}

func (l InProcess) launch(_ context.Context, s start) (running, error) {
	server := wire.NewGRPCServer(opencalls.Limit(s.Log.With("plugin", s.Name)))
	wire.Register(server, l[s.Name])
	local := wire.ServeLocal(server)
	conn, err := local.Dial()
	if err != nil {
		local.Close()
		return nil, err
	}
	return insider{wire.NewClient(conn), conn, local}, nil
}

// An insider is an in-process plugin, called like any other.
type insider struct {
	*wire.Client

	conn  *grpc.ClientConn
	local *wire.Local
}

func (insider) pid() int { return 0 }

func (insider) exited() <-chan struct{} { return nil }

func (insider) ending(time.Duration) string { return "" }

func (insider) confinement() *Confinement { return nil }

func (i insider) close(time.Duration) error {
	_ = i.conn.Close()
	i.local.Close()
	return nil
}
