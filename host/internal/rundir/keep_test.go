package rundir

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A run directory that was removed was noticed by nobody: plugins never started
// again, and a second evictd took the name and decided as well.
func TestARunDirectoryThatWasRemoved(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"removed":              os.RemoveAll,
		"moved":                func(path string) error { return os.Rename(path, path+".old") },
		"emptied":              func(path string) error { return os.RemoveAll(filepath.Join(path, pluginsName)) },
		"its lock was removed": func(path string) error { return os.Remove(filepath.Join(path, lockName)) },
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			d := mustOpen(t, path, newClock())
			if remade, err := d.keep(); remade || err != nil || d.Check() != nil {
				t.Fatalf("remade %t, %v, %v of one that is there", remade, err, d.Check())
			}
			if err := remove(path); err != nil {
				t.Fatal(err)
			}
			if err := d.Check(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("Check: %v, want that it is gone", err)
			}
			if _, err := open(path, newClock().now); err == nil || !strings.Contains(err.Error(), "in use by another evictd, pid ") {
				t.Errorf("a second evictd: %v, want it refused", err)
			}
			if remade, err := d.keep(); !remade || err != nil || d.Check() != nil {
				t.Errorf("remade %t, %v, %v", remade, err, d.Check())
			}
			if err := d.SaveKill(aKill); err != nil {
				t.Error(err)
			}
			if info, err := os.Stat(d.Plugins()); err != nil || info.Mode().Perm() != throughMode {
				t.Errorf("the place of sockets: %v, %v", info, err)
			}
			if _, err := open(path, newClock().now); err == nil {
				t.Error("a second evictd has taken what was made again")
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			again := mustOpen(t, path, newClock()) // the twin: the successor gets it
			if got := mustLoad(t, again).Kills; len(got) != 1 {
				t.Errorf("kills %v, want the one that was noted", got)
			}
		})
	}
}

// Whoever failed for want of the directory waited for its time, however long the
// directory was whole again.
func TestWhoWaitsForTheDirectoryIsToldWhenItIsWhole(t *testing.T) {
	inPlace := func(path string) error { // in one step
		file, name := path+".file", filepath.Join(path, pluginsName)
		return errors.Join(
			os.WriteFile(file, nil, 0o600),
			unix.Renameat2(unix.AT_FDCWD, file, unix.AT_FDCWD, name, unix.RENAME_EXCHANGE),
			os.RemoveAll(file))
	}
	for name, c := range map[string]struct{ spoil, mend func(path string) error }{
		"removed": {spoil: func(path string) error {
			old := path + ".old"
			return errors.Join(os.Rename(path, old), os.RemoveAll(old))
		}},
		"a file in its place, taken": {inPlace, func(path string) error { return os.Remove(filepath.Join(path, pluginsName)) }},
		"a file in its place, replaced": {inPlace, func(path string) error {
			name := filepath.Join(path, pluginsName)
			if err := os.Remove(name); err != nil {
				return err
			}
			if err := os.Mkdir(name, throughMode); !errors.Is(err, fs.ErrExist) { // evictd may have been sooner
				return err
			}
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			d := mustOpen(t, path, newClock())
			ctx, stop := context.WithCancel(t.Context())
			told, logged := make(chan struct{}, 10), make(lines, 10)
			var keeping sync.WaitGroup
			keeping.Go(func() { d.KeepUp(ctx, slog.New(slog.NewTextHandler(logged, nil)), func() { told <- struct{}{} }) })
			for range 2 { // what was made again is kept up as well
				began := time.Now()
				if err := c.spoil(path); err != nil {
					t.Fatal(err)
				}
				if got := <-logged; strings.Contains(got, "cannot be made again") != (c.mend != nil) {
					t.Errorf("logged %s", got)
				}
				if c.mend != nil {
					if err := c.mend(path); err != nil {
						t.Fatal(err)
					}
				}
				<-told
				if took := time.Since(began); took >= keepInterval {
					t.Errorf("noticed after %v, want the kernel's events and not the look of every %v", took, keepInterval)
				}
				for len(logged) > 0 {
					<-logged
				}
				if err := d.Check(); err != nil {
					t.Errorf("told of a directory that is not whole: %v", err)
				}
			}
			stop()
			keeping.Wait()
		})
	}
}

// lines are what is logged.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestNothingIsLeftBesideTheDirectory(t *testing.T) {
	path := newPath(t)
	if err := mustOpen(t, path, newClock()).Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v, want the directory alone", left, err)
	}
}
