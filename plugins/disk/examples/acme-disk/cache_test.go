package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// plugin returns the plugin, configured.
func (m *machine) plugin(freePercent int) sdk.Plugin {
	m.t.Helper()
	config, err := json.Marshal(m.config(freePercent))
	m.must(err)
	p := plugin()
	m.must(p.Configurer.Configure(m.t.Context(), eviction.ConfigureRequest{Node: m.facts(), Config: config}))
	return p
}

func drops(t *testing.T, p sdk.Plugin, s eviction.Signal) (released eviction.Reclaimed, reported int, err error) {
	t.Helper()
	released, err = p.Reclaimer.Reclaim(t.Context(), eviction.ReclaimRequest{Signal: s, Step: dropCache}, func(eviction.Reclaimed) { reported++ })
	return released, reported, err
}

func TestTheOldestFilesGoUntilEnoughIsFree(t *testing.T) {
	m := newMachine(t)
	p := m.plugin(50)
	m.fill(40)
	before := m.availablePercent()
	released, reported, err := drops(t, p, eviction.NodeFsAvailable)
	if err != nil || reported == 0 {
		t.Errorf("told %d times that it is alive, %v", reported, err)
	}
	left, after := m.left(40), m.availablePercent()
	t.Logf("%d %% available before, %d %% after: %+v", before, after, released)
	if left == 0 || released.Inodes != int64(40-left) || released.Bytes != released.Inodes*mib || after < 50 || after > 53 {
		t.Errorf("%d files left and %d %% available, want just over 50 %%, and to be told the truth of it: %+v", left, after, released)
	}
	released, _, err = drops(t, p, eviction.NodeFsAvailable)
	if err != nil || released.Inodes != 0 || m.left(40) != left || !strings.Contains(released.Message, "nothing to do") {
		t.Errorf("once more: %+v, %v; want nothing to happen", released, err)
	}
}

func TestInodesAreFreedToo(t *testing.T) {
	m := newMachine(t)
	p := m.plugin(99)
	for i := range 400 {
		m.write(filepath.Join(m.cache, "small", time.Duration(i).String()), 0, time.Minute)
	}
	released, _, err := drops(t, p, eviction.NodeFsInodesFree)
	if err != nil || released.Inodes == 0 || released.Inodes == 400 || released.Bytes != 0 {
		t.Errorf("freed %+v, %v; want as many inodes as it takes", released, err)
	}
}

// More files than are looked at in one go; the newest of all is seen first.
func TestALargeCacheGoesInTheOrderOfAge(t *testing.T) {
	m := newMachine(t)
	p := m.plugin(85)
	const files = 2*batch + 1000
	path := func(i int) string { return filepath.Join(m.cache, fmt.Sprintf("%05d", i)) }
	for i := range files {
		m.write(path(i), 0, time.Duration(i)*time.Minute)
	}
	released, _, err := drops(t, p, eviction.NodeFsInodesFree)
	if err != nil || released.Inodes <= batch || released.Inodes >= files {
		t.Fatalf("freed %+v, %v; want more than a batch, and not all", released, err)
	}
	left := files - int(released.Inodes)
	if !m.exists(path(left-1)) || m.exists(path(left)) {
		t.Errorf("%d files are left, and not the newest ones", left)
	}
}

// Whatever is in the cache, nothing else goes.
func TestNothingOutsideTheCacheGoes(t *testing.T) {
	m := newMachine(t)
	p := m.plugin(99) // more than can be
	treasure := filepath.Join(m.scratch, "pods", "uid", "treasure")
	m.write(treasure, mib, 1000*time.Hour)
	m.fill(6)
	m.must(os.Symlink("../pods", filepath.Join(m.cache, "to-pods")))
	m.must(os.Symlink(m.scratch, filepath.Join(m.cache, "to-all")))
	m.must(os.Symlink(treasure, filepath.Join(m.cache, "to-treasure")))
	m.must(os.Symlink("shard-0", filepath.Join(m.cache, "to-shard")))
	m.must(os.Link(treasure, filepath.Join(m.cache, "other name")))
	m.mount("-t", "tmpfs", "none", m.mkdir(filepath.Join(m.cache, "tmpfs")))
	other := filepath.Join(m.cache, "tmpfs", "other")
	m.write(other, mib, 1000*time.Hour)

	released, _, err := drops(t, p, eviction.NodeFsAvailable)
	if err != nil || released.Bytes != 6*mib || released.Inodes != 6 || m.left(6) != 0 || released.Message != "removed the 7 oldest files of the cache" {
		t.Errorf("freed %+v, %v; want the six files, and nothing from the second name of another", released, err)
	}
	for _, path := range []string{treasure, other, filepath.Join(m.cache, "to-pods"), filepath.Join(m.cache, "shard-1")} {
		if !m.exists(path) {
			t.Errorf("%s is gone", path)
		}
	}
	if released, _, err := drops(t, p, eviction.NodeFsAvailable); err != nil || released.Inodes != 0 {
		t.Errorf("an empty cache: %+v, %v", released, err)
	}

	m.must(os.Rename(m.cache, m.cache+".old"))
	if released, _, err := drops(t, p, eviction.NodeFsAvailable); err != nil || released.Message != "there is no cache" {
		t.Errorf("no cache: %+v, %v", released, err)
	}
	m.must(os.Symlink("pods", m.cache))
	if _, _, err := drops(t, p, eviction.NodeFsAvailable); err == nil || !m.exists(treasure) {
		t.Errorf("a symlink in place of the cache: %v, treasure is there: %v", err, m.exists(treasure))
	}
}

// What cannot be removed is reported, and the rest goes.
func TestAFileThatStaysIsAnError(t *testing.T) {
	m := newMachine(t)
	p := m.plugin(99)
	m.fill(6)
	m.run("chattr", "+i", m.cached(1))
	defer m.run("chattr", "-i", m.cached(1))
	released, _, err := drops(t, p, eviction.NodeFsAvailable)
	if err == nil || !strings.Contains(err.Error(), "file-01") || released.Inodes != 5 || !m.exists(m.cached(1)) {
		t.Errorf("freed %+v, %v; want all but one, and which", released, err)
	}
}

func TestTwoAtOnceAndTheCacheGrows(t *testing.T) {
	m := newMachine(t)
	p := m.plugin(60)
	m.fill(40)
	var wait sync.WaitGroup
	for range 2 {
		wait.Go(func() {
			if released, _, err := drops(t, p, eviction.NodeFsAvailable); err != nil {
				t.Errorf("freed %+v, %v", released, err)
			}
		})
	}
	wait.Go(func() { m.write(filepath.Join(m.cache, "new", "file"), 2*mib, 0) })
	wait.Wait()
	if got := m.availablePercent(); got < 56 {
		t.Errorf("%d %% is available, want about 60", got)
	}
	if !m.exists(filepath.Join(m.cache, "new", "file")) {
		t.Error("the newest file is gone")
	}
}

func TestNodefsIsTheScratchDisk(t *testing.T) {
	m := newMachine(t)
	p := m.plugin(20)
	all := []eviction.Signal{eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable}
	observe := func() map[eviction.Signal]eviction.Observation {
		reply, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: all})
		m.must(err)
		got := map[eviction.Signal]eviction.Observation{}
		for _, o := range reply.Observations {
			got[o.Signal] = o
		}
		return got
	}
	got := observe()
	if o := got[eviction.NodeFsAvailable]; o.State != eviction.Observed || o.Capacity > 64*mib || o.Available == 0 || o.Available > o.Capacity {
		t.Errorf("observed %+v, want the disk of 64 MiB", o)
	}
	if o := got[eviction.NodeFsInodesFree]; o.State != eviction.Observed || o.Capacity != 16384 {
		t.Errorf("observed %+v, want its inodes", o)
	}
	if o := got[eviction.ImageFsAvailable]; o.State == eviction.Observed && o.Capacity <= 64*mib {
		t.Errorf("observed %+v, want another disk", o)
	}

	m.run("umount", "-l", m.scratch)
	m.write(m.cached(1), mib, time.Hour)
	for _, s := range all[:2] {
		if o := observe()[s]; o.State != eviction.Unknown || !strings.Contains(o.Err, "no disk is mounted") {
			t.Errorf("observed %+v, want unknown while the disk is not mounted", o)
		}
	}
	if _, _, err := drops(t, p, eviction.NodeFsAvailable); err == nil || m.left(1) != 1 {
		t.Errorf("%v; what is below the mount point is no cache", err)
	}
}
