package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
)

// The disk that evictd fights for may be the one that it keeps its state on: with
// nothing left there, kills and conditions are still noted, and a successor opens
// the directory.
func TestAFullDiskKeepsTheState(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	for name, fill := range map[string]func(t *testing.T, dir string){
		"no bytes are left": func(t *testing.T, dir string) {
			f, err := os.Create(filepath.Join(dir, "ballast"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			wantFull(t, err)
		},
		"no inodes are left": func(t *testing.T, dir string) {
			var err error
			for i := 0; err == nil; i++ {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprint("ballast", i)), nil, 0o600)
			}
			wantFull(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := t.TempDir()
			if err := unix.Mount("evictd-test", disk, "tmpfs", 0, "size=512k,nr_inodes=60"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			path := filepath.Join(disk, "run")
			c := newClock()
			d := mustOpen(t, path, c)
			fill(t, disk)
			kill := func(uid string) error {
				k := aKill
				k.UID = uid
				return d.SaveKill(k)
			}
			for i := range 20 { // each note takes the place of the former one
				c.pass(time.Second)
				if err := d.SaveConditions(map[eviction.Condition]time.Time{eviction.DiskPressure: c.wall}); err != nil {
					t.Fatalf("note %d of conditions: %v", i+1, err)
				}
			}
			for i := range spareCount - 1 {
				if err := kill(fmt.Sprint("victim-", i)); err != nil {
					t.Fatalf("note of kill %d: %v", i+1, err)
				}
			}
			if err := d.RemoveKill("victim-0"); err != nil {
				t.Fatal(err)
			}
			if err := kill("the-next-one"); err != nil {
				t.Errorf("after a kill has ended its room is free again: %v", err)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			got := mustLoad(t, mustOpen(t, path, c))
			if len(got.Kills) != spareCount-1 || got.Conditions[eviction.DiskPressure].IsZero() {
				t.Errorf("a successor finds %d kills and conditions %v, want %d and DiskPressure", len(got.Kills), got.Conditions, spareCount-1)
			}
		})
	}
}

func wantFull(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("error %v, want ENOSPC", err)
	}
}
