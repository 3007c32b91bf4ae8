package rundir

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
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
	inPlace := func(path string) error {
		return errors.Join(os.RemoveAll(filepath.Join(path, pluginsName)), os.WriteFile(filepath.Join(path, pluginsName), nil, 0o600))
	}
	for name, c := range map[string]struct{ spoil, mend func(path string) error }{
		"removed":                    {spoil: os.RemoveAll},
		"a file in its place, taken": {inPlace, func(path string) error { return os.Remove(filepath.Join(path, pluginsName)) }},
		"a file in its place, replaced": {inPlace, func(path string) error {
			name := filepath.Join(path, pluginsName)
			return errors.Join(os.Remove(name), os.Mkdir(name, throughMode))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := newPath(t)
				d := mustOpen(t, path, newClock())
				ctx, stop := context.WithCancel(t.Context())
				var whole atomic.Int32
				var keeping sync.WaitGroup
				keeping.Go(func() { d.KeepUp(ctx, slog.New(slog.DiscardHandler), func() { whole.Add(1) }) })
				look := func(want int32, of string) {
					t.Helper()
					time.Sleep(keepInterval)
					synctest.Wait()
					if whole.Load() != want {
						t.Errorf("told %d times of a directory that is %s, want %d", whole.Load(), of, want)
					}
				}
				look(0, "there")
				if err := c.spoil(path); err != nil {
					t.Fatal(err)
				}
				if c.mend != nil {
					look(0, "spoilt")
					if err := c.mend(path); err != nil {
						t.Fatal(err)
					}
				}
				look(1, "whole again")
				look(1, "still whole")
				stop()
				keeping.Wait()
			})
		})
	}
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
