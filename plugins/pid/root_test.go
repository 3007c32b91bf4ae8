package pid_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

// cgroupRoot is a cgroup of the pids controller for one test, with a kubepods
// below it.
type cgroupRoot struct {
	t         testing.TB
	hierarchy nodefs.Hierarchy
	name      string
}

func newCgroupRoot(t testing.TB) cgroupRoot {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	h, err := nodefs.FS{}.PIDsHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	r := cgroupRoot{t: t, hierarchy: h, name: fmt.Sprintf("/evictd-pid-%d-%d", os.Getpid(), time.Now().UnixNano())}
	r.make("")
	r.make("kubepods")
	r.make("kubepods/burstable")
	return r
}

func (r cgroupRoot) facts() eviction.NodeFacts {
	return eviction.NodeFacts{RootDir: "/", CgroupRoot: r.name, CgroupDriver: "cgroupfs"}
}

// pod makes the cgroup of a burstable pod.
func (r cgroupRoot) pod(uid string) (pod eviction.Pod, dir string) {
	r.t.Helper()
	return eviction.Pod{UID: uid, QoSClass: eviction.Burstable}, r.make("kubepods/burstable/pod" + uid)
}

// make makes a cgroup, which is removed when the test ends.
func (r cgroupRoot) make(name string) string {
	r.t.Helper()
	dir := r.hierarchy.Path(r.name + "/" + name)
	if r.hierarchy.Version == nodefs.V2 {
		control := filepath.Join(filepath.Dir(dir), "cgroup.subtree_control")
		if err := os.WriteFile(control, []byte("+pids"), 0); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.remove(dir) })
	return dir
}

// remove removes a cgroup, whose last process may be just ending.
func (r cgroupRoot) remove(dir string) {
	for deadline := time.Now().Add(5 * time.Second); ; {
		err := os.Remove(dir)
		if err == nil || os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			r.t.Error(err)
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// A pod could not fork any more, while the machine had tasks enough.
func TestPodsThatCannotForkAreShortOfPIDs(t *testing.T) {
	root := newCgroupRoot(t)
	_, dir := root.pod("11111111-2222-3333-4444-555555555555")
	p := native(t, root.facts())
	if reply, err := observe(t, p, 1); err != nil || reply.Observations[0].Available < 100 {
		t.Fatalf("observed %+v, %v, want the machine's", reply, err)
	}
	testos.WriteFile(t, root.hierarchy.Path(root.name+"/kubepods/pids.max"), "3", 0)
	startIn(t, dir)
	if reply, err := observe(t, p, 1); err != nil || reply.Observations[0].Available != 2 || reply.Observations[0].Capacity != 3 {
		t.Errorf("observed %+v, %v, want 2 of 3", reply, err)
	}
}

// startIn starts a process in a cgroup, which reads its standard input until the
// test ends.
func startIn(t *testing.T, cgroup string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cat")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	testos.WriteFile(t, filepath.Join(cgroup, "cgroup.procs"), strconv.Itoa(cmd.Process.Pid), 0)
}

func TestRealPodsAndTheirProcesses(t *testing.T) {
	root := newCgroupRoot(t)
	p := native(t, root.facts())
	few, fewDir := root.pod("few")
	many, manyDir := root.pod("many")
	container := filepath.Join(manyDir, "c1")
	testos.Mkdir(t, container, 0o755)
	t.Cleanup(func() { root.remove(container) })
	startIn(t, fewDir)
	for range 7 {
		startIn(t, container) // what is below the pod counts
	}
	got := measure(t, p, few, many, eviction.Pod{UID: "gone", QoSClass: eviction.Burstable})
	for i, want := range []eviction.Figure{eviction.Some(1), eviction.Some(7), {}} {
		if got[i].Processes != want {
			t.Errorf("%s: %+v, want %+v", got[i].UID, got[i], want)
		}
	}
	if got[2].State != eviction.NoStats {
		t.Errorf("a pod without a cgroup: %+v, want no stats", got[2])
	}
	_, emptyDir := root.pod("empty")
	empty := eviction.Pod{UID: "empty", QoSClass: eviction.Burstable}
	if got := measure(t, p, empty)[0]; got.Processes != eviction.Some(0) {
		t.Errorf("a pod without a process: %+v, want none", got)
	}
	root.remove(emptyDir)
	if got := measure(t, p, empty)[0]; got.State != eviction.NoStats {
		t.Errorf("a pod that has gone: %+v, want no stats", got)
	}
}

// The node's own figures are those of the files as they are read at the same
// time, and a process more is a task less.
func TestRealNode(t *testing.T) {
	p := native(t, newCgroupRoot(t).facts())
	limit := int64(1 << 62)
	for _, file := range []string{"/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"} {
		content := testos.ReadFile(t, file)
		n, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		limit = min(limit, n)
	}
	reply, err := observe(t, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	if o := reply.Observations[0]; o.Capacity != limit || o.Available <= 0 || o.Available >= limit {
		t.Errorf("observed %+v, want some of %d", o, limit)
	}
}

// A process of another pid namespace, which is what a container without hostPID
// is, refuses its configuration: this test binary, run in one.
func TestInAPIDNamespaceOfItsOwnItRefuses(t *testing.T) {
	const inside = "EVICTD_TEST_PID_NAMESPACE"
	if os.Getenv(inside) != "" {
		facts := eviction.NodeFacts{RootDir: "/", CgroupRoot: "/", CgroupDriver: "cgroupfs"}
		fmt.Println("configured:", pid.New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: facts}))
		return
	}
	newCgroupRoot(t)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"with the machine's /proc": {nil, "a pid namespace of its own"},
		"with its own /proc":       {[]string{"--mount-proc"}, "or set config.nestedNode"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--pid", "--fork", "--mount"}, c.args...)
			cmd := exec.CommandContext(t.Context(), "unshare", append(args, os.Args[0], "-test.v", "-test.run", "^TestInAPIDNamespaceOfItsOwnItRefuses$")...)
			cmd.Env = append(os.Environ(), inside+"=1")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), c.want) || !strings.Contains(string(out), "hostPID: true") {
				t.Errorf("%v, %s\nwant %q and hostPID: true", err, out, c.want)
			}
		})
	}
}
