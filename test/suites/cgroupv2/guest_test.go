package cgroupv2

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/uml"
)

// hogArg makes this binary a process that uses memory.
const hogArg = "hog"

const mib = 1 << 20

// TestMain is the guest's init, and its hog.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == hogArg {
		hog(os.Args[2])
		return
	}
	uml.Main(uml.Mount{Source: "cgroup2", Target: cgroups, Type: "cgroup2"})
	os.Exit(m.Run())
}

// hog touches so many MiB when it reads a line, and says so.
func hog(mibs string) {
	n, err := strconv.Atoi(mibs)
	if err != nil {
		os.Exit(2)
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := in.ReadString('\n'); err != nil {
		os.Exit(0)
	}
	b, err := unix.Mmap(-1, 0, n*mib, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		os.Exit(3)
	}
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	fmt.Println("done")
	_, _ = in.ReadString('\n') // until the test ends it
}

const (
	cgroups = "/sys/fs/cgroup"
	uid     = "11111111-2222-3333-4444-555555555555"
)

// driver is one way to name the cgroups of pods.
type driver struct {
	name, kubepods, pod, container string
}

var drivers = []driver{
	{"cgroupfs", "kubepods", "kubepods/burstable/pod" + uid, "kubepods/burstable/pod" + uid + "/c1"},
	{
		"systemd", "kubepods.slice",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice",
		"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-c1.scope",
	},
}

// makePod makes the cgroups of a pod down to its container.
func (d driver) makePod(t *testing.T) {
	t.Helper()
	dir := cgroups
	for part := range strings.SplitSeq(d.container, "/") {
		write(t, dir+"/cgroup.subtree_control", "+memory")
		dir = filepath.Join(dir, part)
		testos.Mkdir(t, dir, 0o755)
		made := dir
		t.Cleanup(func() {
			if err := os.Remove(made); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		})
	}
}

func (d driver) configured(t *testing.T) sdk.Plugin {
	t.Helper()
	p := memory.New()
	facts := eviction.NodeFacts{RootDir: "/", CgroupRoot: "/", CgroupDriver: d.name}
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: facts}); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGuestPodsAndNode(t *testing.T) {
	uml.In(t)
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) {
			d.makePod(t)
			p := d.configured(t)
			if o := observe(t, p, eviction.AllocatableMemoryAvailable); o.State != eviction.Absent {
				t.Errorf("without a limit: %+v, want absent", o)
			}
			write(t, cgroups+"/"+d.kubepods+"/memory.max", strconv.Itoa(100*mib))
			before := observe(t, p, eviction.MemoryAvailable)
			if want := memTotal(t); before.State != eviction.Observed || before.Capacity != want || before.Available <= 0 || before.Available >= want {
				t.Errorf("node: %+v, want something of %d", before, want)
			}
			h := startHog(t, cgroups+"/"+d.container, 40)
			h.fill(t)
			after := observe(t, p, eviction.MemoryAvailable)
			if used := before.Available - after.Available; used < 30*mib || used > 60*mib {
				t.Errorf("40 MiB more in use took %d bytes from the node", used)
			}
			pods := observe(t, p, eviction.AllocatableMemoryAvailable)
			if pods.Capacity != 100*mib || pods.Available < 50*mib || pods.Available > 60*mib {
				t.Errorf("pods: %+v, want about 60 of 100 MiB", pods)
			}
			m := measure(t, p)
			if m.State != eviction.Measured || !between(m.WorkingSetBytes.Value, 40*mib, 50*mib) {
				t.Errorf("pod: %+v, want a working set of about 40 MiB", m)
			}
			if len(m.Containers) != 2 || m.Containers[0].WorkingSetBytes.OK || !between(m.Containers[1].WorkingSetBytes.Value, 40*mib, 50*mib) {
				t.Errorf("containers: %+v, want none and about 40 MiB", m.Containers)
			}
			h.end(t)
			testos.Remove(t, cgroups+"/"+d.container)
			testos.Remove(t, cgroups+"/"+d.pod)
			if m := measure(t, p); m.State != eviction.NoStats {
				t.Errorf("pod that is gone: %+v, want no stats", m)
			}
		})
	}
}

func TestGuestWatch(t *testing.T) {
	uml.In(t)
	for _, d := range drivers {
		t.Run(d.name, func(t *testing.T) {
			d.makePod(t)
			write(t, cgroups+"/"+d.kubepods+"/memory.max", strconv.Itoa(100*mib))
			p := d.configured(t)
			node := eviction.Threshold{Amount: observe(t, p, eviction.MemoryAvailable).Available - 20*mib}
			ctx, cancel := context.WithCancel(t.Context())
			wakes := make(chan eviction.Wake, 100)
			var watching sync.WaitGroup
			watching.Go(func() {
				req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{
					{Signal: eviction.AllocatableMemoryAvailable, Threshold: eviction.Threshold{Fraction: 0.8}},
					{Signal: eviction.MemoryAvailable, Threshold: node},
				}}
				if err := p.Watcher.Watch(ctx, req, func(w eviction.Wake) {
					if w.Cause != eviction.CauseNear {
						wakes <- w
					}
				}); err != nil {
					t.Error(err)
				}
			})
			select {
			case w := <-wakes:
				t.Errorf("woke %v with plenty of memory", w)
			case <-time.After(500 * time.Millisecond):
			}
			h := startHog(t, cgroups+"/"+d.container, 40)
			h.fill(t)
			crossed := time.Now()
			waiting := map[eviction.Signal]bool{eviction.MemoryAvailable: true, eviction.AllocatableMemoryAvailable: true}
			for len(waiting) > 0 {
				select {
				case w := <-wakes:
					if waiting[w.Signal] {
						t.Logf("%s: woken %v after the memory was taken, cause %s", w.Signal, time.Since(crossed), w.Cause)
					}
					delete(waiting, w.Signal)
				case <-time.After(5 * time.Second):
					t.Fatalf("no wake for %v", waiting)
				}
			}
			cancel()
			watching.Wait()
			h.end(t)
		})
	}
}

// hogProcess is a hog in a cgroup.
type hogProcess struct {
	cmd *exec.Cmd
	in  interface{ Write([]byte) (int, error) }
	out *bufio.Reader
}

func startHog(t *testing.T, cgroup string, mibs int) *hogProcess {
	t.Helper()
	dir, err := os.Open(cgroup)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	cmd := exec.Command("/proc/self/exe", hogArg, strconv.Itoa(mibs))
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	h := &hogProcess{cmd: cmd, in: in, out: bufio.NewReader(out)}
	h.hears(t, "ready\n")
	return h
}

func (h *hogProcess) hears(t *testing.T, want string) {
	t.Helper()
	if line, err := h.out.ReadString('\n'); err != nil || line != want {
		t.Fatalf("hog said %q, %v", line, err)
	}
}

func (h *hogProcess) fill(t *testing.T) {
	t.Helper()
	if _, err := h.in.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	h.hears(t, "done\n")
}

func (h *hogProcess) end(t *testing.T) {
	t.Helper()
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = h.cmd.Wait() // killed
}

func observe(t *testing.T, p sdk.Plugin, s eviction.Signal) eviction.Observation {
	t.Helper()
	reply, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{PassView: eviction.PassView{View: eviction.ViewBefore}, Signals: []eviction.Signal{s}})
	if err != nil || len(reply.Observations) != 1 {
		t.Errorf("observed %+v, %v", reply, err)
		return eviction.Observation{}
	}
	return reply.Observations[0]
}

func measure(t *testing.T, p sdk.Plugin) (out eviction.Measurement) {
	t.Helper()
	req := eviction.MeasureRequest{
		PassView: eviction.PassView{View: eviction.ViewBefore}, Detail: eviction.DetailContainers, Signals: []eviction.Signal{eviction.MemoryAvailable},
		Pods: []eviction.Pod{{UID: uid, QoSClass: eviction.Burstable, Containers: []eviction.Container{{Name: "ended", ID: "c0"}, {Name: "main", ID: "c1"}}}},
	}
	if err := p.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) { out = m }); err != nil {
		t.Fatal(err)
	}
	return out
}

func memTotal(t *testing.T) int64 {
	t.Helper()
	content := testos.ReadFile(t, "/proc/meminfo")
	var kib int64
	if _, err := fmt.Sscanf(string(content), "MemTotal: %d kB", &kib); err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func between(v, low, high int64) bool { return low <= v && v <= high }

func write(t *testing.T, name, content string) {
	t.Helper()
	testos.WriteFile(t, name, content, 0)
}
