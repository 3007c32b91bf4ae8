package figures

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

func TestAnObservationIsAFigureOrWhyThereIsNone(t *testing.T) {
	gone := fmt.Errorf("open: %w", nodefs.ErrGone)
	memory := nodefs.MemorySample{MemoryUse: nodefs.MemoryUse{UsageBytes: 5, InactiveFileBytes: 1}, Limited: true, LimitBytes: 8, CapacityBytes: 8, AvailableBytes: 4}
	unlimited := nodefs.MemorySample{MemoryUse: memory.MemoryUse}
	capped := memory
	capped.AvailableBytes, capped.MemAvailableBytes, capped.HasMemAvailable = 2, 2, true
	huge := memory
	huge.AvailableBytes, huge.CapacityBytes, huge.HugePagesBytes = 1, 5, 3
	impossible := nodefs.MemorySample{Limited: true, LimitBytes: 8, CapacityBytes: 8, AvailableBytes: 2, MemAvailableBytes: 2, HasMemAvailable: true, ImpossibleBytes: 99}
	above := memory
	above.LimitOf = "/tenant"
	btrfs := nodefs.FilesystemSample{CapacityBytes: 100, FreeBytes: 20, AvailableBytes: 30, InodesErr: errors.New("bad")}
	room := nodefs.FilesystemSample{CapacityBytes: 100, FreeBytes: 30, AvailableBytes: 20, Inodes: 10, InodesFree: 3}
	for name, c := range map[string]struct {
		got  eviction.Observation
		want string
	}{
		"memory":                                {Memory(At(eviction.MemoryAvailable), memory, nil), "1 4/8 [{limit 8} {usage 5} {inactive_file 1} {working_set 4}] "},
		"memory that no cgroup has":             {Memory(At(eviction.MemoryAvailable), capped, nil), "1 2/8 [{limit 8} {usage 5} {inactive_file 1} {working_set 4} {mem_available 2}] "},
		"memory without huge pages":             {Memory(At(eviction.MemoryAvailable), huge, nil), "1 1/5 [{limit 8} {usage 5} {inactive_file 1} {working_set 4} {hugepages 3}] "},
		"memory with a use that cannot be":      {Memory(At(eviction.MemoryAvailable), impossible, nil), "1 2/8 [{limit 8} {impossible_usage 99} {mem_available 2}] "},
		"memory below a limit of an ancestor":   {Memory(At(eviction.AllocatableMemoryAvailable), above, nil), "1 4/8 [{limit of /tenant 8} {usage 5} {inactive_file 1} {working_set 4}] "},
		"tasks below a limit of an ancestor":    {PIDs(At(eviction.PIDAvailable), nodefs.PIDSample{PIDMax: 9, Running: 2, PodsMax: 5, PodsRunning: 4, LimitOf: "/t"}, nil), "1 1/5 [{pid_max 9} {threads_max 0} {running 2} {limit of /t 5} {running in /t 4}] "},
		"room of btrfs":                         {Filesystem(At(eviction.NodeFsAvailable), "", btrfs, nil), "1 30/100 [{used 80} {free 20} {reserved 0}] "},
		"inodes that cannot be":                 {Filesystem(At(eviction.NodeFsInodesFree), "", btrfs, nil), "0 0/0 [] bad"},
		"no limit is no figure":                 {Memory(At(eviction.AllocatableMemoryAvailable), unlimited, nil), "2 0/0 [] its cgroup has no memory limit"},
		"nor are pods without a cgroup":         {Memory(At(eviction.AllocatableMemoryAvailable), unlimited, gone), "2 0/0 [] "},
		"a node without one cannot be read":     {Memory(At(eviction.MemoryAvailable), unlimited, gone), "0 0/0 [] open: gone"},
		"tasks":                                 {PIDs(At(eviction.PIDAvailable), nodefs.PIDSample{PIDMax: 9, ThreadsMax: 7, Running: 8}, nil), "1 -1/7 [{pid_max 9} {threads_max 7} {running 8}] "},
		"tasks of pods with a limit":            {PIDs(At(eviction.PIDAvailable), nodefs.PIDSample{PIDMax: 9, Running: 2, PodsMax: 5, PodsRunning: 4}, nil), "1 1/5 [{pid_max 9} {threads_max 0} {running 2} {pods_max 5} {pods_running 4}] "},
		"tasks that cannot be read":             {PIDs(At(eviction.PIDAvailable), nodefs.PIDSample{}, errors.New("bad")), "0 0/0 [] bad"},
		"room":                                  {Filesystem(At(eviction.NodeFsAvailable), "", room, nil), "1 20/100 [{used 70} {free 30} {reserved 10}] "},
		"room of a named one":                   {Filesystem(At(eviction.NodeFsAvailable), "vda", room, nil), "1 20/100 [{vda 100} {used 70} {free 30} {reserved 10}] "},
		"inodes":                                {Filesystem(At(eviction.ImageFsInodesFree), "", room, nil), "1 3/10 [{used 7}] "},
		"no inodes are counted":                 {Filesystem(At(eviction.NodeFsInodesFree), "", nodefs.FilesystemSample{CapacityBytes: 1}, nil), "2 0/0 [] "},
		"a filesystem that cannot be looked at": {Filesystem(At(eviction.NodeFsAvailable), "", room, gone), "0 0/0 [] open: gone"},
	} {
		o := c.got
		if got := fmt.Sprint(o.State, " ", o.Available, "/", o.Capacity, " ", o.Components, " ", o.Err); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if time.Since(o.Time) > time.Minute || o.BootNanos == 0 {
			t.Errorf("%s: of %v and %d, want the time of now", name, o.Time, o.BootNanos)
		}
	}
}

// A pod that runs has a use, whether or not it can be found.
func TestAPodWithoutACgroupHasNoFigureUnlessItRuns(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"tasks": "", "kubepods/poda/pids.current": "7\n", "kubepods/podb/empty": ""} {
		path := filepath.Join(root, "sys/fs/cgroup/pids", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	fs := nodefs.FS{Root: root}
	h, err := fs.PIDsHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	naming, err := fs.Naming("/", nodefs.Cgroupfs)
	if err != nil {
		t.Fatal(err)
	}
	pods := h.PodTasks(naming)
	for want, pod := range map[string]eviction.Pod{
		"1 {7 true} false":  {UID: "a", Running: true},
		"2 {0 false} false": {UID: "gone"},
		"0 {0 false} true":  {UID: "gone", Running: true},
		"0 {0 false} true ": {UID: "b"}, // a cgroup without a counter
	} {
		pod.QoSClass = eviction.Guaranteed
		m := PodTasks(pods, &pod, eviction.Whole{}, &nodefs.Buffer{})
		if got := fmt.Sprint(m.State, m.Processes, m.Err != ""); got != want && got+" " != want {
			t.Errorf("%s: %s, want %s", pod.UID, got, want)
		}
	}
	if pods.Kept() != 1 {
		t.Errorf("%d pods are kept open, want one", pods.Kept())
	}
	if m := PodTasks(h.PodTasks(naming).KeepingNone(), &eviction.Pod{UID: "a", QoSClass: eviction.Guaranteed}, eviction.Whole{}, &nodefs.Buffer{}); m.Processes.Value != 7 {
		t.Errorf("%+v, want the same where nothing is kept", m)
	}
}
