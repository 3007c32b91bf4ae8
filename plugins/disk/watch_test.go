package disk_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// woken watches thresholds until the test ends.
func woken(t *testing.T, p sdk.Plugin, thresholds map[eviction.Signal]int64) <-chan eviction.Wake {
	var req eviction.WatchRequest
	for s, amount := range thresholds {
		req.Thresholds = append(req.Thresholds, eviction.WatchThreshold{Signal: s, Threshold: eviction.Threshold{Amount: amount}})
	}
	wakes, ended := make(chan eviction.Wake, 100), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- p.Watcher.Watch(ctx, req, func(w eviction.Wake) {
			if w.Cause != eviction.CauseNear {
				wakes <- w
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the watch ended with %v", err)
		}
	})
	return wakes
}

// A disk that filled was looked at on the interval only.
func TestADiskThatFillsWakes(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	m := newMachine(t)
	dir := m.facts.KubeletRootDir
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32m,nr_inodes=2000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	p := disk.New()
	m.configure(t, p, "")
	settled(t, p)
	wakes := woken(t, p, map[eviction.Signal]int64{
		eviction.NodeFsAvailable: 16 << 20, eviction.NodeFsInodesFree: 1000, eviction.ImageFsInodesFree: 1, eviction.MemoryAvailable: 1 << 60,
	})
	want := func(s eviction.Signal) {
		t.Helper()
		select {
		case w := <-wakes:
			if w != (eviction.Wake{Signal: s, Cause: "poll"}) {
				t.Errorf("woken by %+v, want %s", w, s)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("not woken by %s", s)
		}
	}
	testos.WriteFile(t, filepath.Join(dir, "data"), string(make([]byte, 20<<20)), 0o600)
	want(eviction.NodeFsAvailable)
	for i := range 1500 {
		testos.WriteFile(t, filepath.Join(dir, fmt.Sprint(i)), "", 0o600)
	}
	want(eviction.NodeFsInodesFree)
	if len(wakes) > 0 {
		t.Errorf("woken again by %+v", <-wakes)
	}
}

// The vendor's disk is not the machine's.
func TestSignalsOfAnObserverAreNotWatched(t *testing.T) {
	m := newMachine(t)
	p := disk.New(disk.WithObserver(array{}, eviction.NodeFsAvailable))
	m.configure(t, p, "")
	settled(t, p)
	wakes := woken(t, p, map[eviction.Signal]int64{eviction.NodeFsAvailable: 1 << 60, eviction.ImageFsAvailable: 1 << 60})
	if w := <-wakes; w.Signal != eviction.ImageFsAvailable {
		t.Errorf("woken by %+v, want imagefs.available alone", w)
	}
}
