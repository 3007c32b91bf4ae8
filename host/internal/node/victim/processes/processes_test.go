package processes

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

const uid = "11111111-2222-3333-4444-555555555555"

// sleeper starts a process that lives as long as the test.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command("sleep", "1000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.ProcessState == nil {
			c.Process.Kill()
			c.Wait()
		}
	})
	return c
}

// dead waits for the end of a process that was killed.
func dead(t *testing.T, c *exec.Cmd) {
	t.Helper()
	c.Wait()
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("process %d ended with %v, want SIGKILL", c.Process.Pid, c.ProcessState)
	}
}

func lives(t *testing.T, c *exec.Cmd) {
	t.Helper()
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(c.Process.Pid, &status, syscall.WNOHANG, nil); pid != 0 || err != nil {
		t.Errorf("process %d: %v, %v, want it alive", c.Process.Pid, status, err)
	}
}

func pids(of ...*exec.Cmd) (out []int) {
	for _, c := range of {
		out = append(out, c.Process.Pid)
	}
	return out
}

// node is the cgroups of a node as files.
type node struct {
	t    *testing.T
	root string
}

func (n node) write(name, content string) {
	n.t.Helper()
	path := filepath.Join(n.root, "sys/fs/cgroup", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n node) procs(cgroup string, of ...*exec.Cmd) {
	n.t.Helper()
	n.write(filepath.Join(cgroup, "cgroup.procs"), strings.Trim(strings.ReplaceAll(fmt.Sprint(pids(of...)), " ", "\n"), "[]")+"\n")
}

func newKiller(root, cgroupRoot string) *Killer {
	return New(Options{FS: nodefs.FS{Root: root}, Root: cgroupRoot, Driver: func() string { return "" }, Log: slog.New(slog.DiscardHandler)})
}

func TestOnlyTheContainersProcessesAreKilled(t *testing.T) {
	const slice = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice"
	for name, c := range map[string]struct {
		marker, mount, pod, container, sandbox string
		class                                  eviction.QoSClass
	}{
		"cgroupfs":               {"memory/memory.usage_in_bytes", "memory", "kubepods/burstable/pod" + uid, "c1", "s1", eviction.Burstable},
		"the class is not known": {"memory/memory.usage_in_bytes", "memory", "kubepods/besteffort/pod" + uid, "c1", "s1", ""},
		"systemd": {
			"memory/memory.usage_in_bytes", "memory", slice, "cri-containerd-c1.scope", "cri-containerd-s1.scope", eviction.Burstable,
		},
		"CRI-O": {"memory/memory.usage_in_bytes", "memory", slice, "crio-c1.scope", "crio-conmon-c1.scope", eviction.Burstable},
		"cri-dockerd": {
			"memory/memory.usage_in_bytes", "memory", slice, "docker-c1.scope", "docker-s1.scope", eviction.Burstable,
		},
		"a runtime of another name": {
			"memory/memory.usage_in_bytes", "memory", slice, "of-others-c1.scope", "of-others-s1.scope", eviction.Burstable,
		},
		"the class is another": {
			"memory/memory.usage_in_bytes", "memory", "kubepods/besteffort/pod" + uid, "c1", "s1", eviction.Burstable,
		},
		"the hierarchy of pids only": {
			"pids/tasks", "pids", slice, "cri-containerd-c1.scope", "cri-containerd-s1.scope", eviction.Burstable,
		},
		"version 2 without cgroup.kill": {
			"cgroup.controllers", "", "kubepods/burstable/pod" + uid, "c1", "s1", eviction.Burstable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{t, t.TempDir()}
			main, nested, sandbox, ofPod, elsewhere := sleeper(t), sleeper(t), sleeper(t), sleeper(t), sleeper(t)
			n.write(c.marker, "memory pids\n")
			pod := filepath.Join(c.mount, c.pod)
			n.procs(pod, ofPod)
			n.procs(filepath.Join(pod, c.container), main)
			n.procs(filepath.Join(pod, c.container, "of/its/own"), nested)
			for _, between := range []string{"of", "of/its"} {
				n.procs(filepath.Join(pod, c.container, between))
			}
			n.procs(filepath.Join(pod, c.sandbox), sandbox)
			n.procs(filepath.Join(pod, "c10"), elsewhere)
			done, err := newKiller(n.root, "/").Kill(t.Context(), Container{PodUID: uid, QOSClass: c.class, ID: "c1"})
			if err != nil || done.Processes != 2 {
				t.Errorf("killed %+v, %v, want two processes", done, err)
			}
			dead(t, main)
			dead(t, nested)
			lives(t, sandbox)
			lives(t, ofPod)
			lives(t, elsewhere)
		})
	}
}

// After a change of the driver in place the processes of older pods were left to the runtime.
func TestAContainerIsKilledInTheTreeInWhichItRuns(t *testing.T) {
	for name, c := range map[string]struct{ pod, container, leftover string }{
		"old tree":                              {"kubepods/pod" + uid, "c1", "kubepods.slice/kubepods-podother.slice"},
		"new tree":                              {"kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice", "crio-c1.scope", "kubepods/podother"},
		"its pod is in both, without it in one": {"kubepods/pod" + uid, "c1", "kubepods.slice/kubepods-pod" + strings.ReplaceAll(uid, "-", "_") + ".slice"},
	} {
		for _, driver := range []string{"", nodefs.Cgroupfs, nodefs.Systemd} {
			t.Run(name+driver, func(t *testing.T) {
				n := node{t, t.TempDir()}
				n.write("cgroup.controllers", "memory pids\n")
				main, other := sleeper(t), sleeper(t)
				n.procs(filepath.Join(c.pod, c.container), main)
				n.procs(c.leftover, other)
				k := newKiller(n.root, "/")
				k.Driver = func() string { return driver }
				if done, err := k.Kill(t.Context(), Container{PodUID: uid, QOSClass: eviction.Guaranteed, ID: "c1"}); err != nil || done.Processes != 1 {
					t.Errorf("killed %+v, %v, want one process", done, err)
				}
				dead(t, main)
				lives(t, other)
			})
		}
	}
}

func TestAContainerWithoutACgroupIsGone(t *testing.T) {
	n := node{t, t.TempDir()}
	n.write("memory/memory.usage_in_bytes", "1\n")
	other := sleeper(t)
	n.procs("memory/kubepods/besteffort/pod"+uid, other)
	for _, id := range []string{"c1", "", "..", "a/b"} { // a pod's own cgroup is no container's
		done, err := newKiller(n.root, "/").Kill(t.Context(), Container{PodUID: uid, QOSClass: eviction.BestEffort, ID: id})
		if errors.Is(err, nodefs.ErrGone) != (id == "c1") || err == nil || done.Processes != 0 {
			t.Errorf("container %q: %+v, %v", id, done, err)
		}
	}
	lives(t, other)
}

// On version 2 the kernel kills all at once, and none is forgotten.
func TestTheKernelKillsWholeCgroups(t *testing.T) {
	n := node{t, t.TempDir()}
	main := sleeper(t)
	n.write("cgroup.controllers", "memory pids\n")
	container := "kubepods/burstable/pod" + uid + "/c1"
	n.procs(container, main)
	n.write(container+"/cgroup.kill", "")
	done, err := newKiller(n.root, "/").Kill(t.Context(), Container{PodUID: uid, QOSClass: eviction.Burstable, ID: "c1"})
	if err != nil || done.Processes != 1 {
		t.Errorf("killed %+v, %v, want one process", done, err)
	}
	if reported, err := os.ReadFile(filepath.Join(n.root, "sys/fs/cgroup", container, "cgroup.kill")); string(reported) != "1" || err != nil {
		t.Errorf("cgroup.kill has %q, %v, want 1", reported, err)
	}
	lives(t, main) // a file kills nobody, and nobody else is to
}

// kill ends a group that is listed as these, one list after the other.
func kill(t *testing.T, lists ...func() []int) processes {
	t.Helper()
	g := group{
		list: func() ([]int, error) {
			now := lists[0]
			if len(lists) > 1 {
				lists = lists[1:]
			}
			return now(), nil
		},
		kill: func() error { return errors.ErrUnsupported }, most: mostHeld,
	}
	held, _, err := g.end(t.Context())
	if err != nil {
		t.Error(err)
	}
	t.Cleanup(held.close)
	return held
}

func TestAProcessThatIsNoLongerListedIsLeftAlone(t *testing.T) {
	one, other := sleeper(t), sleeper(t)
	both, only := func() []int { return pids(one, other) }, func() []int { return pids(one) }
	if held := kill(t, both, only); len(held) != 1 {
		t.Errorf("%d killed, want one", len(held))
	}
	dead(t, one)
	lives(t, other)
	if held := kill(t, both, both, both); len(held) != 1 {
		t.Errorf("%d killed, want the one that was left", len(held))
	}
	dead(t, other)
}

func TestProcessesThatAreBegunMeanwhileAreKilledToo(t *testing.T) {
	one, child := sleeper(t), sleeper(t)
	first, then := func() []int { return pids(one) }, func() []int { return pids(one, child) }
	if held := kill(t, first, first, then); len(held) != 2 {
		t.Errorf("%d killed, want two", len(held))
	}
	dead(t, one)
	dead(t, child)
}

// Of a container with more than 4096 processes the rest lived on, and no error said so.
func TestMoreProcessesThanAreHeldAreKilled(t *testing.T) {
	all := make([]*exec.Cmd, 7)
	for i := range all {
		all[i] = sleeper(t)
	}
	g := group{list: func() ([]int, error) { return pids(all...), nil }, kill: func() error { return errors.ErrUnsupported }, most: 3}
	held, more, err := g.end(t.Context())
	if len(held) != 3 || more != 4 || err != nil {
		t.Errorf("%d held and %d more killed, %v, want 3 and 4", len(held), more, err)
	}
	held.close()
	for _, c := range all {
		dead(t, c)
	}
}

// Cgroups of a pod's own can be more than are listed. What the kernel has killed is no error then, what it has not is one.
func TestAListThatIsNotWholeMattersOnlyWithoutTheKernel(t *testing.T) {
	many := errors.New("more than 1000 cgroups")
	for name, c := range map[string]struct {
		kill func() error
		want error
	}{
		"killed by the kernel": {func() error { return nil }, nil},
		"killed one by one":    {func() error { return errors.ErrUnsupported }, many},
	} {
		g := group{list: func() ([]int, error) { return nil, many }, kill: c.kill, most: 3}
		if _, _, err := g.end(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestProcessesThatAreBegunFasterThanKilledAreAnError(t *testing.T) {
	g := group{list: func() ([]int, error) { return pids(sleeper(t)), nil }, kill: func() error { return errors.ErrUnsupported }, most: mostHeld}
	list, last := g.list, []int(nil)
	again := true
	g.list = func() ([]int, error) { // each is listed twice, when it is found and when it is held, after a first look
		if again = !again; again {
			last, _ = list()
		}
		return slices.Clone(last), nil
	}
	held, _, err := g.end(t.Context())
	if held.close(); err == nil || !strings.Contains(err.Error(), "may be left") {
		t.Errorf("%v, want an error that says that others may be left", err)
	}
}

func TestADescriptorIsClosedForEachProcess(t *testing.T) {
	before := descriptors(t)
	for range 5 {
		one := sleeper(t)
		all := func() []int { return pids(one) }
		held := kill(t, all)
		dead(t, one)
		held.close()
	}
	if now := descriptors(t); now > before {
		t.Errorf("%d descriptors, before %d", now, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, fd := range open {
		if at, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(at, "pidfd") {
			n++
		}
	}
	return n
}

func number(t *testing.T, name string) int {
	t.Helper()
	raw := testos.ReadFile(t, name)
	n, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
