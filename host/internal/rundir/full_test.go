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

// fullDiskKills is how many kills a full disk must have room for.
const fullDiskKills = killSpares - 1

// The disk that evictd fights for may be the one that it keeps its state on: with
// nothing left there, kills and conditions are still noted, and a successor opens
// the directory.
func TestAFullDiskKeepsTheState(t *testing.T) {
	onFullDisks(t, func(t *testing.T, disk string, fill func()) {
		path := filepath.Join(disk, "run")
		c := newClock()
		d := mustOpen(t, path, c)
		fill()
		for i := range 20 { // each note takes the place of the former one
			c.pass(time.Second)
			if err := d.SaveConditions(diskPressure(c)); err != nil {
				t.Fatalf("note %d of conditions: %v", i+1, err)
			}
		}
		for i := range fullDiskKills {
			if err := d.SaveKill(victim(i)); err != nil {
				t.Fatalf("note of kill %d: %v", i+1, err)
			}
		}
		if err := d.RemoveKill(victim(0).UID); err != nil {
			t.Fatal(err)
		}
		if err := d.SaveKill(victim(fullDiskKills)); err != nil {
			t.Errorf("after a kill has ended its room is free again: %v", err)
		}
		wantState(t, d, path, c)
	})
}

// Who fills the disk is faster than evictd: what a note frees is taken at once.
// Minutes of conditions, every few seconds, must not cost the kill its note.
func TestConditionsOnADiskThatIsFilledAgainLeaveRoomForTheKill(t *testing.T) {
	onFullDisks(t, func(t *testing.T, disk string, fill func()) {
		path := filepath.Join(disk, "run")
		c := newClock()
		d := mustOpen(t, path, c)
		fill()
		refill := func() {
			fill()
			d.fillSpares()
		}
		for i := range 60 {
			c.pass(5 * time.Second)
			if err := d.saveConditions(diskPressure(c)); err != nil {
				t.Fatalf("note %d of conditions: %v", i+1, err)
			}
			refill()
		}
		for i := range fullDiskKills {
			for range 3 { // the grace period is shortened twice
				if err := d.saveKill(victim(i)); err != nil {
					t.Fatalf("note of kill %d: %v", i+1, err)
				}
				refill()
			}
		}
		if err := d.removeKill(victim(0).UID); err != nil {
			t.Fatal(err)
		}
		refill()
		if err := d.saveKill(victim(fullDiskKills)); err != nil {
			t.Errorf("the room of a kill that has ended went to another one: %v", err)
		}
		wantState(t, d, path, c)
	})
}

// A spare file that was taken is nobody's but the taker's.
func TestATakenSpareFileIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	s := newSpares(dir, spareName, 1)
	s.fill()
	taken := filepath.Join(dir, "taken")
	if !s.take(taken) {
		t.Fatal("no spare file")
	}
	s.fill() // of another note, at the same time
	if err := os.WriteFile(taken, []byte("a note"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.fill()
	if got, err := os.ReadFile(taken); string(got) != "a note" || err != nil {
		t.Errorf("the taken file has %q, %v, want the note", got, err)
	}
	if info, err := os.Stat(s.path(0)); err != nil || info.Size() != spareBytes {
		t.Errorf("the new spare file: %v, %v, want one of its own with %d bytes", info, err, spareBytes)
	}
}

// onFullDisks runs a story on small disks; fill uses up what is left of one.
func onFullDisks(t *testing.T, story func(t *testing.T, disk string, fill func())) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	for name, fill := range map[string]func(disk string) error{
		"no bytes are left": func(disk string) error {
			f, err := os.OpenFile(filepath.Join(disk, "ballast"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
			if err != nil {
				return err
			}
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			return err
		},
		"no inodes are left": func(disk string) error {
			for {
				f, err := os.CreateTemp(disk, "ballast")
				if err != nil {
					return err
				}
				_ = f.Close()
			}
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
			story(t, disk, func() { wantFull(t, fill(disk)) })
		})
	}
}

func victim(i int) Kill {
	k := aKill
	k.UID = fmt.Sprint("victim-", i)
	return k
}

func diskPressure(c *testClock) map[eviction.Condition]time.Time {
	return map[eviction.Condition]time.Time{eviction.DiskPressure: c.wall}
}

// wantState expects that a successor finds the latest notes.
func wantState(t *testing.T, d *Dir, path string, c *testClock) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	got := mustLoad(t, mustOpen(t, path, c))
	if at := got.Conditions[eviction.DiskPressure]; len(got.Kills) != fullDiskKills || !at.Equal(c.wall) {
		t.Errorf("a successor finds %d kills and DiskPressure at %v, want %d and %v", len(got.Kills), at, fullDiskKills, c.wall)
	}
}

func wantFull(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("error %v, want ENOSPC", err)
	}
}
