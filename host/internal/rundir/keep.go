package rundir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// keepInterval is how often the directory is looked at besides: no event tells that one
	// above it was moved.
	keepInterval = 10 * time.Second
	// brokenInterval is how often one that is not whole is looked at, or one of which the
	// kernel tells no events.
	brokenInterval = time.Second
	// settleTime is how long nothing must have happened to it: whoever removes it is not to
	// find it made again meanwhile.
	settleTime = 100 * time.Millisecond
)

// KeepUp makes the directory again when somebody has removed it, until ctx ends. It
// calls whole each time that the directory can be used again.
func (d *Dir) KeepUp(ctx context.Context, log *slog.Logger, whole func()) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("run directory cannot be watched, it is looked at each second instead", "runDir", d.path, "error", err)
	} else {
		defer func() { _ = events.Close() }()
	}
	told := ""
	for ctx.Err() == nil {
		wait := keepInterval
		if !follow(events, d.path) { // before the look, so that nothing is missed
			wait = brokenInterval
		}
		remade, err := d.keep()
		if err != nil {
			if err.Error() != told {
				log.Error("run directory is gone and cannot be made again: plugins cannot start, kills are not noted", "error", err)
			}
			told = err.Error()
			await(ctx, events, brokenInterval)
			continue
		}
		again := told != "" // by somebody else, unless it was remade
		told = ""
		if remade {
			log.Error("run directory was removed and made again: kills in flight are not noted there", "runDir", d.path)
		}
		if remade || again {
			whole()
		}
		if !remade { // else it is another one, to be followed
			await(ctx, events, wait)
		}
	}
}

// follow has events be those of the directory that is there now, and reports whether there
// will be any.
func follow(events *fsnotify.Watcher, path string) bool {
	if events == nil {
		return false
	}
	_ = events.Remove(path)
	return events.Add(path) == nil
}

// await returns when something has happened and is over, or after the longest time.
func await(ctx context.Context, events *fsnotify.Watcher, longest time.Duration) {
	end := time.Now().Add(longest)
	timer := time.NewTimer(longest)
	defer timer.Stop()
	var happened <-chan fsnotify.Event
	var lost <-chan error
	if events != nil {
		happened, lost = events.Events, events.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			return
		case _, ok := <-happened:
			if !ok { // the kernel tells no more
				happened = nil
				continue
			}
		case _, ok := <-lost:
			if !ok {
				lost = nil
				continue
			}
		}
		timer.Reset(min(settleTime, time.Until(end)))
	}
}

// Check reports that the directory is not the one that was opened any more: plugins
// have no place for their sockets then, and kills none to be noted.
func (d *Dir) Check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.check()
}

func (d *Dir) check() error {
	if !inPlace(d.lock) {
		return fmt.Errorf("run directory %s was removed or replaced", d.path)
	}
	for _, name := range []string{pluginsName, killsName} {
		if info, err := os.Lstat(filepath.Join(d.path, name)); err != nil || !info.IsDir() {
			return fmt.Errorf("run directory %s has no directory %s any more", d.path, name)
		}
	}
	return nil
}

// keep makes a directory that was removed again, empty, and takes it. It reports
// whether there was need to; one that another evictd holds by now stays its own.
func (d *Dir) keep() (remade bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	why := d.check()
	if why == nil {
		return false, nil
	}
	if err := makePrivate(d.path); err != nil {
		return false, errors.Join(why, err)
	}
	if !inPlace(d.lock) {
		lock, err := acquire(d.path, filepath.Join(d.path, lockName))
		if err != nil {
			return false, errors.Join(why, err)
		}
		_ = d.lock.Close() // of a file that nobody finds
		d.lock = lock
	}
	if err := d.makeDirs(); err != nil {
		return false, errors.Join(why, err)
	}
	d.fillSpares()
	return true, nil
}

// makeDirs makes the subdirectories.
func (d *Dir) makeDirs() error {
	for name, mode := range map[string]os.FileMode{pluginsName: throughMode, killsName: 0o700} {
		path := filepath.Join(d.path, name)
		err := os.Mkdir(path, mode)
		if info, there := os.Lstat(path); errors.Is(err, fs.ErrExist) && there == nil && info.IsDir() {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("run directory: %w", err)
		}
	}
	// A former evictd may have made it, or the umask have taken something away.
	if err := os.Chmod(d.Plugins(), throughMode); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	return nil
}
