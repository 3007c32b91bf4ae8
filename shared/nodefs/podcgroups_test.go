package nodefs

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

// manyPods returns a node of version 2 with n pods of the class BestEffort, the
// i-th of which has i tasks.
func manyPods(t *testing.T, n int) (h Hierarchy, uids []string) {
	t.Helper()
	root := t.TempDir()
	write(t, root, "sys/fs/cgroup/cgroup.controllers", "memory pids\n")
	for i := range n {
		uid := fmt.Sprintf("uid-%d", i)
		write(t, root, "sys/fs/cgroup/kubepods/besteffort/pod"+uid+"/pids.current", fmt.Sprintf("%d\n", i))
		uids = append(uids, uid)
	}
	h, err := FS{Root: root}.PIDsHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	return h, uids
}

// absolute is one of the nodes in testdata.
func absolute(t *testing.T, name string) FS {
	t.Helper()
	root, err := filepath.Abs(node(name).Root)
	if err != nil {
		t.Fatal(err)
	}
	return FS{Root: root}
}

func naming(t *testing.T, driver string) *Naming {
	t.Helper()
	names, err := FS{}.Naming("/", driver)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestMoreThanTheLimitOfPodsAreReadWithoutBeingKept(t *testing.T) {
	h, uids := manyPods(t, 5)
	pods := h.PodTasks(naming(t, "cgroupfs"))
	pods.limit = 3
	for range 2 {
		for i, uid := range uids {
			if got, err := pods.Read(uid, "BestEffort", &Buffer{}); got != int64(i) || err != nil {
				t.Errorf("%s: %d tasks, %v, want %d", uid, got, err, i)
			}
		}
	}
	if n := pods.Kept(); n != 3 {
		t.Errorf("%d pods are kept open, want 3", n)
	}
}

func TestPodsWithoutACgroupAreGone(t *testing.T) {
	h, _ := manyPods(t, 1)
	pods := h.PodTasks(naming(t, "cgroupfs"))
	if _, err := pods.Read("uid-1", "Burstable", &Buffer{}); !errors.Is(err, ErrGone) {
		t.Errorf("error of another pod is %v, want gone", err)
	}
	if _, err := pods.Read("../x", "BestEffort", &Buffer{}); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("error of a uid that is none is %v, want one of its own", err)
	}
	if n := pods.Kept(); n != 0 {
		t.Errorf("%d pods are kept open, want none", n)
	}
}

// A cgroup whose controller is not enabled has tasks that are not counted: it must
// not look like a pod that has ended.
func TestAPodWithoutACounterIsNotGone(t *testing.T) {
	h, uids := manyPods(t, 1)
	pods := h.PodTasks(naming(t, "cgroupfs"))
	dir := h.Path("/kubepods/besteffort/pod" + uids[0])
	testos.Remove(t, filepath.Join(dir, "pids.current"))
	if _, err := pods.Read(uids[0], "BestEffort", &Buffer{}); err == nil || errors.Is(err, ErrGone) {
		t.Errorf("error without a counter is %v, want one that is not gone", err)
	}
	testos.Remove(t, dir)
	if _, err := pods.Read(uids[0], "BestEffort", &Buffer{}); !errors.Is(err, ErrGone) {
		t.Errorf("error without a cgroup is %v, want gone", err)
	}
}

func TestReadingKeptPodsAllocatesNothing(t *testing.T) {
	h, uids := manyPods(t, 20)
	pods := h.PodTasks(naming(t, "cgroupfs"))
	var b Buffer
	read := func() {
		for _, uid := range uids {
			if _, err := pods.Read(uid, "BestEffort", &b); err != nil {
				t.Fatal(err)
			}
		}
	}
	read()
	if n := testing.AllocsPerRun(10, read); n != 0 {
		t.Errorf("%v allocations in a steady state, want none", n)
	}
	pods.Probe(5, &b)
	if n := pods.Kept(); n != len(uids) {
		t.Errorf("%d pods are kept open after a look at some, want %d", n, len(uids))
	}
}

func TestTasksOfAPodOnEveryKindOfNode(t *testing.T) {
	const uid = "11111111-2222-3333-4444-555555555555"
	for name, c := range map[string]struct {
		driver  string
		version Version
		dir     string
	}{
		"node-v1":         {"cgroupfs", V1, "/sys/fs/cgroup/pids"},
		"node-v2":         {"cgroupfs", V2, "/sys/fs/cgroup"},
		"node-v2-systemd": {"systemd", V2, "/sys/fs/cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := absolute(t, name).PIDsHierarchy()
			if err != nil || h.Version != c.version || h.Dir != c.dir {
				t.Fatalf("found version %d at %s, %v, want %d at %s", h.Version, h.Dir, err, c.version, c.dir)
			}
			if got, err := h.PodTasks(naming(t, c.driver)).Read(uid, "Burstable", &Buffer{}); got != 41 || err != nil {
				t.Errorf("%d tasks, %v, want 41", got, err)
			}
		})
	}
}

// A counter that cannot be read is no pod without figures.
func TestGarbageInACounterNamesTheFile(t *testing.T) {
	h, uids := manyPods(t, 1)
	file := h.Path("/kubepods/besteffort/pod" + uids[0] + "/pids.current")
	testos.WriteFile(t, file, "many\n", 0o600)
	_, err := h.PodTasks(naming(t, "cgroupfs")).Read(uids[0], "BestEffort", &Buffer{})
	if want := "parse " + filepath.Clean(file) + `: "many\n" is not a number`; err == nil || err.Error() != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}
