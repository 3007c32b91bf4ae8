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

	"golang.org/x/sys/unix"
)

// outerSuffix makes the name of a second lock, beside the directory: it is held
// however the directory goes, so that no other evictd takes a new one of that name.
const outerSuffix = ".lock"

// acquireOuter locks the file beside the directory, which is removed with Close. A
// file that another user has put there, where that is possible, is nobody's lock.
func acquireOuter(path string) (*os.File, error) {
	name := path + outerSuffix
	for {
		lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("lock beside the run directory: %w", err)
		}
		err = lockFile(path, lock)
		if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
		if same(lock, name) {
			return lock, nil
		}
		_ = lock.Close() // whoever held it has removed it
	}
}

// same reports whether the open file is the one of that name.
func same(f *os.File, name string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(open, there)
}

// keepInterval is how often the directory is looked at: plugins cannot start
// without it.
const keepInterval = time.Second

// KeepUp makes the directory again when somebody has removed it, until ctx ends. It
// calls whole each time that the directory can be used again.
func (d *Dir) KeepUp(ctx context.Context, log *slog.Logger, whole func()) {
	look := time.NewTicker(keepInterval)
	defer look.Stop()
	told := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		remade, err := d.keep()
		if err != nil {
			if err.Error() != told {
				log.Error("run directory is gone and cannot be made again: plugins cannot start, kills are not noted", "error", err)
			}
			told = err.Error()
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
	if !same(d.lock, filepath.Join(d.path, lockName)) {
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
	if !same(d.lock, filepath.Join(d.path, lockName)) {
		lock, err := acquire(d.path)
		if err != nil {
			return false, errors.Join(why, err)
		}
		_ = d.lock.Close() // of a file that nobody finds
		d.lock = lock
	}
	if err := d.makeDirs(); err != nil {
		return false, errors.Join(why, err)
	}
	d.forKills.forget()
	d.forConditions.forget()
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
