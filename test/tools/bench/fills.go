package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/harness/stack"
)

// A filler crosses a threshold, reports when in CLOCK_MONOTONIC, and takes all back.
type filler interface {
	fill() (time.Duration, error)
	drain() error
}

const (
	diskBytes, diskInodes       = 256 << 20, 20000
	diskBytesLeft, diskFreeLeft = 100 << 20, 10000
	tasksMost, tasksLeft        = 4000, 3000
	mostFills                   = 6 // of each kind in a run
	// A crossing of a disk or of tasks wakes once in 10 s.
	fillCalm = 10500 * time.Millisecond
)

// fills measures evictd's reaction to a disk that fills by bytes and by inodes, and to a fork storm.
func fills(ctx context.Context, b *bench) (*part, error) {
	p := &part{
		Title: "A disk and the tasks of pods cross a threshold, and then: µs",
		Columns: []column{
			{"p50_us", "p50", 0},
			{"p99_us", "p99", 0},
			{"max_us", "max", 0},
			{"first_us", "first", 0},
			{"ratio", "ratio", 2},
			{"crossings", "crossings", 0},
			{"missed", "missed", 0},
		},
		Notes: []string{
			fmt.Sprintf("An ext4 of %d MiB on a loop device over memory is filled as fast as it can be, by bytes and by empty files; a process starts threads", diskBytes>>20),
			"in a pod whose kubepods may have 4000. Before a pod is chosen for a disk, garbage is collected. The ratio is to a poll each 10 s, 5 s in the mean.",
		},
	}
	for _, c := range []struct{ signal, left string }{
		{"nodefs.available", strconv.Itoa(diskBytesLeft)}, {"nodefs.inodesFree", strconv.Itoa(diskFreeLeft)}, {"pid.available", strconv.Itoa(tasksLeft)},
	} {
		first, all, err := fillAgain(ctx, b, c.signal, c.left)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.signal, err)
		}
		rows := all.part(first).Rows
		r := rows[1] // chosen
		r.Name, r.Peer, r.Values["ratio"] = c.signal+": victim chosen", "the mean wait for a poll", r.Values["p50_us"]/5e6
		p.Rows = append(p.Rows, r)
	}
	return p, nil
}

func fillAgain(ctx context.Context, b *bench, signal, left string) (first, all reactions, err error) {
	s, err := newSite(b, crossingPods, b.memTotal)
	if err != nil {
		return first, all, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	root := filepath.Join(s.dir, "disk")
	unmount, err := mountDisk(ctx, filepath.Join(s.runDir, "disk.img"), root)
	if err != nil {
		return first, all, err
	}
	defer func() { err = errors.Join(err, unmount()) }()
	for i := range crossingPods {
		if err := os.MkdirAll(filepath.Join(root, "pods", podUID(i), "volumes"), 0o755); err != nil {
			return first, all, err
		}
	}
	s.runtime.SetImageDir(root)
	var f filler = &diskFiller{pod: filepath.Join(root, "pods", podUID(0)), inodes: strings.HasSuffix(signal, "inodesFree")}
	if signal == "pid.available" {
		storm, err := startStorm(s.cgroups.root)
		if err != nil {
			return first, all, err
		}
		defer func() { err = errors.Join(err, storm.stop(), removeTree(tasksDir(s.cgroups.root), endTimeout)) }()
		f = storm
	}
	d, err := s.start(map[string]any{"monitoringInterval": longerThanTheBench, "kubeletRootDir": root, "evictionHard": map[string]string{signal: left}})
	if err != nil {
		return first, all, err
	}
	defer func() { err = errors.Join(err, d.Stop()) }()
	if err := d.Ready(ctx); err != nil {
		return first, all, err
	}
	if err := stack.Pause(ctx, idleSettle); err != nil {
		return first, all, err
	}
	x := &crosser{site: s, hog: f, daemon: d, calm: fillCalm}
	if err := x.cross(ctx, &first); err != nil {
		return first, all, err
	}
	for range min(b.crossings, mostFills) {
		if err := x.cross(ctx, &all); err != nil {
			return first, all, err
		}
	}
	return first, all, nil
}

// mountDisk mounts a new ext4 at dir.
func mountDisk(ctx context.Context, image, dir string) (unmount func() error, err error) {
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, diskBytes), os.Mkdir(dir, 0o755)); err != nil {
		return nil, err
	}
	for _, c := range [][]string{{"mkfs.ext4", "-q", "-m", "0", "-N", strconv.Itoa(diskInodes), image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.CommandContext(ctx, c[0], c[1:]...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(c, " "), err, out)
		}
	}
	return func() error { return unix.Unmount(dir, unix.MNT_DETACH) }, nil
}

// A diskFiller fills the filesystem of a pod's volume.
type diskFiller struct {
	pod    string // its directory
	inodes bool
}

func (f *diskFiller) fill() (time.Duration, error) {
	chunk := make([]byte, 256<<10)
	dir := filepath.Join(f.pod, "volumes/kubernetes.io~empty-dir/data")
	err := os.MkdirAll(dir, 0o755)
	if err != nil {
		return 0, err
	}
	out, err := os.Create(filepath.Join(dir, "data"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = out.Close() }()
	for i := 0; ; i++ {
		if f.inodes {
			err = os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600)
		} else {
			_, err = out.Write(chunk)
		}
		room, unread := nodefs.FS{}.Statfs(f.pod)
		if err = errors.Join(err, unread); err != nil {
			return 0, err
		}
		if f.inodes && room.InodesFree < diskFreeLeft || room.AvailableBytes < diskBytesLeft {
			return monotonic(), nil
		}
	}
}

// drain removes the pod's directory, as a kubelet does of a pod that has ended.
func (f *diskFiller) drain() error { return os.RemoveAll(f.pod) }

func tasksDir(root string) string { return filepath.Join("/sys/fs/cgroup/pids", root) }

// startStorm starts a hog that starts threads in the first pod.
func startStorm(root string) (*hog, error) {
	all := filepath.Join(tasksDir(root), "kubepods")
	pod := filepath.Join(all, "burstable", "pod"+podUID(0))
	if err := errors.Join(os.MkdirAll(pod, 0o755), os.WriteFile(filepath.Join(all, "pids.max"), []byte(strconv.Itoa(tasksMost)), 0o644)); err != nil {
		return nil, err
	}
	return startHog(pod, all, tasksMost-tasksLeft)
}
