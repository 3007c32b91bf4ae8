package processes

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/uml"
)

const (
	mib = 1 << 20
	// hogArg makes this binary a process that uses so many MiB of memory.
	hogArg = "hog"
	// inNamespace is in the environment of the tests that have a pid namespace of their own.
	inNamespace = "EVICTD_TEST_PID_NAMESPACE"
)

// TestMain is the guest's init as well, and the hog.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == hogArg {
		hog(os.Args[2])
		return
	}
	uml.Main(uml.Mount{Source: "cgroup2", Target: "/sys/fs/cgroup", Type: "cgroup2"})
	os.Exit(m.Run())
}

// hog joins the cgroup that it reads, takes its memory and says so.
func hog(mibs string) {
	n, _ := strconv.Atoi(mibs)
	in := bufio.NewReader(os.Stdin)
	procs, err := in.ReadString('\n')
	if err != nil || os.WriteFile(strings.TrimSpace(procs), []byte(strconv.Itoa(os.Getpid())), 0) != nil {
		os.Exit(2)
	}
	b, err := unix.Mmap(-1, 0, n*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		os.Exit(3)
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("done")
	_, _ = in.ReadString('\n') // until it is killed
}

// A machine is the cgroups of this one, below one of the test's own.
type machine struct {
	t    *testing.T
	h    nodefs.Hierarchy
	root string
}

func newMachine(t *testing.T) machine {
	t.Helper()
	h, err := nodefs.FS{}.MemoryHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	m := machine{t, h, fmt.Sprintf("/evictd-test-%d-%d", os.Getpid(), time.Now().UnixNano())}
	m.makeIn(h.Path("/"), m.root)
	return m
}

func needsRoot(t *testing.T) machine {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	return newMachine(t)
}

// makeIn makes a cgroup and all above it, which are removed when the test ends.
func (m machine) makeIn(mount, name string) string {
	m.t.Helper()
	dir := mount
	for part := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if m.h.Version == nodefs.V2 {
			if err := os.WriteFile(dir+"/cgroup.subtree_control", []byte("+memory"), 0); err != nil {
				m.t.Fatal(err)
			}
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); errors.Is(err, os.ErrExist) {
			continue
		} else if err != nil {
			m.t.Fatal(err)
		}
		made := dir
		m.t.Cleanup(func() { eventually(m.t, "remove "+made, func() bool { return os.Remove(made) == nil }) })
	}
	return dir
}

// container makes the cgroup of one.
func (m machine) container(id string) (dir string) {
	return m.makeIn(m.h.Path("/"), m.root+"/kubepods/burstable/pod"+uid+"/"+id)
}

func (m machine) kill(id string) Killed {
	m.t.Helper()
	done, err := newKiller("/", m.root).Kill(m.t.Context(), Container{PodUID: uid, QOSClass: eviction.Burstable, ID: id})
	if err != nil {
		m.t.Error(err)
	}
	return done
}

// used returns the memory used in a cgroup, in bytes.
func (m machine) used(dir string) int {
	m.t.Helper()
	name := "memory.current"
	if m.h.Version == nodefs.V1 {
		name = "memory.usage_in_bytes"
	}
	return number(m.t, filepath.Join(dir, name))
}

func startHog(t *testing.T, cgroup string, mibs int) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe", hogArg, strconv.Itoa(mibs))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	if _, err := fmt.Fprintln(in, filepath.Join(cgroup, "cgroup.procs")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "done\n" {
		t.Fatalf("hog said %q, %v", line, err)
	}
	return c
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("%s: not within 20 s", what)
			return
		}
	}
}

// A process that never gets to run stands for all on a node whose CPUs are busy. Its memory
// is back although it is still there; killed only, it keeps it.
func TestMemoryOfAProcessThatCannotRunIsBack(t *testing.T) {
	m := needsRoot(t)
	freezer := nodefs.Hierarchy{FS: nodefs.FS{}, Version: nodefs.V1, Dir: "/sys/fs/cgroup/freezer"}
	if m.h.Version != nodefs.V1 || !freezer.Exists("/") {
		t.Skip("what is frozen can be killed on cgroup version 2")
	}
	for name, released := range map[string]bool{"killed": false, "killed and released": true} {
		t.Run(name, func(t *testing.T) {
			dir, ice := m.container("c1"), m.makeIn(freezer.Path("/"), m.root)
			h := startHog(t, dir, 32)
			freeze := func(state string) {
				testos.WriteFile(t, ice+"/freezer.state", state, 0)
				eventually(t, state, func() bool {
					now, err := os.ReadFile(ice + "/freezer.state")
					return err == nil && strings.TrimSpace(string(now)) == state
				})
			}
			testos.WriteFile(t, ice+"/cgroup.procs", strconv.Itoa(h.Process.Pid), 0)
			freeze("FROZEN")
			if released {
				if done := m.kill("c1"); done.Processes != 1 || done.Released != 1 {
					t.Errorf("%+v, want one process killed and released", done)
				}
			} else if err := h.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if left := m.used(dir); (left < 4*mib) != released {
				t.Errorf("%d MiB of 32 are still in use", left/mib)
			}
			lives(t, h)
			freeze("THAWED")
			h.Wait()
		})
	}
}

// The id of a process goes to another one, which is none of the container's, between the
// look and the kill: each time, and no such process is hit. Whoever kills by id hits it.
func TestRecycledPIDsAreNotHit(t *testing.T) {
	needsRoot(t)
	c := exec.Command("/proc/self/exe", "-test.v", "-test.run=^TestInOwnPIDNamespace$")
	c.Env = append(os.Environ(), inNamespace+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the death that Pdeathsig means is this thread's
	defer runtime.UnlockOSThread()
	out, err := c.CombinedOutput()
	if err != nil || strings.Contains(string(out), "--- SKIP") {
		t.Errorf("%v", err)
	}
	t.Logf("\n%s", out)
}

func TestInOwnPIDNamespace(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		t.Skip("runs in a pid namespace of its own: TestRecycledPIDsAreNotHit")
	}
	kills := 20
	if text := os.Getenv("EVICTD_KILLS"); text != "" {
		kills, _ = strconv.Atoi(text)
	}
	byID := func(list func() ([]int, error)) {
		pids, _ := list()
		for _, pid := range pids {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	held := func(list func() ([]int, error)) {
		g := group{list: list, kill: func() error { return errors.ErrUnsupported }, most: mostHeld}
		if held, _, err := g.end(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("%d killed, %v, want none: the container's process has ended by itself", len(held), err)
		}
	}
	if hit := recycle(t, 5, byID); hit != 5 {
		t.Errorf("by id %d of 5 foreign processes hit, want all", hit)
	}
	hit := recycle(t, kills, held)
	if hit != 0 {
		t.Errorf("%d of %d foreign processes hit", hit, kills)
	}
	t.Logf("%d of %d kills hit a foreign process that had got the id; of 5 by id all did", hit, kills)
}

// recycle kills so many containers whose process ends after it was listed and whose id
// another process has got then. It returns how many of those were hit.
func recycle(t *testing.T, kills int, kill func(list func() ([]int, error))) (hit int) {
	t.Helper()
	m := newMachine(t)
	dir := m.container("c1")
	for done, missed := 0, 0; done < kills; {
		ends := sleeper(t)
		pid := ends.Process.Pid
		testos.WriteFile(t, dir+"/cgroup.procs", strconv.Itoa(pid), 0)
		var foreign *exec.Cmd
		kill(func() ([]int, error) {
			listed, err := m.h.Processes(m.root + "/kubepods/burstable/pod" + uid + "/c1")
			if foreign == nil {
				ends.Process.Kill()
				ends.Wait()
				testos.WriteFile(t, "/proc/sys/kernel/ns_last_pid", strconv.Itoa(pid-1), 0)
				foreign = sleeper(t)
			}
			return listed, err
		})
		if foreign.Process.Pid != pid { // somebody else has got it
			if missed++; missed > kills {
				t.Fatalf("%d ids were not given to the process that was to have them", missed)
			}
			continue
		}
		done++
		foreign.Process.Signal(syscall.SIGTERM) // SIGKILL, if there was one, came before
		foreign.Wait()
		if s, ok := foreign.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signal() == syscall.SIGKILL {
			hit++
		}
	}
	return hit
}

// In the guest the kernel kills the container, all below it and nothing else, and its memory is
// back.
func TestGuestContainersDieOnVersion2(t *testing.T) {
	uml.In(t)
	m := newMachine(t)
	main, below, sandbox := m.container("c1"), m.container("c2/below"), m.container("s1")
	one, other := startHog(t, main, 32), startHog(t, below, 8)
	pause := startHog(t, sandbox, 1)
	for id, c := range map[string]*exec.Cmd{"c1": one, "c2": other} {
		done := m.kill(id)
		t.Logf("%s: %+v", id, done) // with one CPU it has mostly ended before it can be released
		if done.Processes != 1 {
			t.Errorf("%s: %+v, want one process killed", id, done)
		}
		dead(t, c)
	}
	lives(t, pause)
	if left := m.used(main); left > 4*mib {
		t.Errorf("%d MiB of 32 are still in use", left/mib)
	}
}

// A pod may make cgroups of its own from Kubernetes 1.38 on: more than are listed, of which one is threaded. Its kill was an error,
// although the kernel had killed them all.
func TestGuestAContainerWithManyCgroupsDiesOnVersion2(t *testing.T) {
	uml.In(t)
	m := newMachine(t)
	dir := m.container("c1")
	within := func(name string) string {
		name = filepath.Join(dir, name)
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { eventually(t, "remove "+name, func() bool { return os.Remove(name) == nil }) })
		return name
	}
	for i := range 2000 {
		within(fmt.Sprintf("a%d", i))
	}
	within("t")
	threaded := within("t/threads")
	if err := os.WriteFile(filepath.Join(threaded, "cgroup.type"), []byte("threaded"), 0); err != nil {
		t.Fatal(err)
	}
	last := startHog(t, within("z"), 8)
	t.Logf("%+v", m.kill("c1")) // those that are not listed do not count
	dead(t, last)
	if left := m.used(dir); left > 4*mib {
		t.Errorf("%d MiB are still in use", left/mib)
	}
}

func TestOnVersion2(t *testing.T) { uml.Run(t, uml.Machine{}) }
