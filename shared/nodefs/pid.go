package nodefs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/shared/eviction"
)

// PIDSample holds the node's limit on tasks and their number, by the kubelet's formula
// (stats/pidlimit/pidlimit_linux.go).
type PIDSample struct {
	// PIDMax and ThreadsMax are kernel.pid_max and kernel.threads-max, 0 if the node does not
	// have the setting.
	PIDMax     int64
	ThreadsMax int64
	// Running is the number of all tasks of the machine: threads in any state.
	Running int64
	// PodsMax is the limit of the cgroup of all pods, 0 if it has none, and PodsRunning the number
	// of tasks in it. The kubelet sets this limit, but observes only the machine.
	PodsMax, PodsRunning int64
	// LimitOf is the cgroup with that limit if it is an ancestor of the cgroup of all pods.
	LimitOf string
}

// possibleTasks and possibleThreads are the highest values that the kernel accepts for the two
// limits (PID_MAX_LIMIT of include/linux/threads.h, MAX_THREADS of kernel/fork.c).
var (
	possibleTasks   = eviction.Whole{Name: "the highest kernel.pid_max", Size: 1 << 22}
	possibleThreads = eviction.Whole{Name: "the highest kernel.threads-max", Size: 1<<30 - 1}
)

// Whole returns the tasks that a cgroup has a part of: more than kernel.pid_max after that was lowered.
func (s PIDSample) Whole() eviction.Whole {
	return eviction.Whole{Name: "the tasks that can run", Size: max(cmp.Or(s.PIDMax, possibleTasks.Size), s.Running)}
}

// TasksOf is the number of tasks, or an error if they cannot be a part of whole.
func TasksOf(tasks int64, whole eviction.Whole) (int64, error) { return tasks, whole.Check(tasks) }

// PodsFirst reports whether the pods will reach their limit before the machine reaches its own.
func (s PIDSample) PodsFirst() bool {
	return s.PodsMax > 0 && s.PodsMax-s.PodsRunning < s.machineMax()-s.Running
}

// Max returns the closer limit: the machine's or that of all pods.
func (s PIDSample) Max() int64 {
	if s.PodsFirst() {
		return s.PodsMax
	}
	return s.machineMax()
}

// machineMax returns the smaller of the machine's two limits.
func (s PIDSample) machineMax() int64 {
	return min(cmp.Or(s.PIDMax, s.ThreadsMax), cmp.Or(s.ThreadsMax, s.PIDMax))
}

// Available returns the number of tasks that pods can still start. It is negative if a limit
// was set below the number of running tasks.
func (s PIDSample) Available() int64 {
	if s.PodsFirst() {
		return s.PodsMax - s.PodsRunning
	}
	return s.machineMax() - s.Running
}

// A PIDGauge reads how many tasks pods can still start on the node.
//
// kernel.pid_max shows the pid namespace of the process that opens it, even through a mount of
// the node's /proc (Linux 6.14): see CheckPIDNamespace.
type PIDGauge = Gauge[PIDSample]

type pidFiles struct {
	pidMax, threadsMax *File // nil if missing; at most one of them is
	loadavg            *File
	// pods reads the limits of the cgroup of all pods and its ancestors. It is gone without such a
	// cgroup: root reads only the limit of "/" then.
	pods, root *Gauge[bound[int64]]
}

// PIDs returns the gauge of the node's tasks and of those of all pods, found with naming.
func (f FS) PIDs(naming *Naming) *PIDGauge {
	return &PIDGauge{open: func() (gaugeFiles[PIDSample], error) { return f.openPIDs(naming) }}
}

// ReadPIDs reads the node's tasks once, keeping nothing open.
func (f FS) ReadPIDs(naming *Naming) (PIDSample, error) {
	g := f.PIDs(naming)
	defer g.Close()
	return g.Read(&Buffer{})
}

// openPIDs opens the files that exist. As in the kubelet, one of the two limits is enough.
func (f FS) openPIDs(naming *Naming) (gaugeFiles[PIDSample], error) {
	files := &pidFiles{
		pods: f.tasksLimits(func() (string, error) { names, err := naming.Names(); return names.Kubepods(), err }),
		root: f.tasksLimits(func() (string, error) { return "/", nil }),
	}
	var pidMaxErr, threadsMaxErr, loadavgErr error
	files.pidMax, pidMaxErr = f.Open("/proc/sys/kernel/pid_max")
	files.threadsMax, threadsMaxErr = f.Open("/proc/sys/kernel/threads-max")
	files.loadavg, loadavgErr = f.Open("/proc/loadavg")
	if loadavgErr == nil && (pidMaxErr == nil || threadsMaxErr == nil) {
		return files, nil
	}
	files.close()
	if loadavgErr != nil {
		return nil, loadavgErr
	}
	return nil, errors.Join(pidMaxErr, threadsMaxErr)
}

func (p *pidFiles) read(b *Buffer) (s PIDSample, err error) {
	if s.PIDMax, err = readParsed(p.pidMax, b, parsePositive); err != nil {
		return PIDSample{}, err
	}
	if s.ThreadsMax, err = readParsed(p.threadsMax, b, parsePositive); err != nil {
		return PIDSample{}, err
	}
	if s.Running, err = readParsed(p.loadavg, b, parseTasks); err != nil {
		return PIDSample{}, err
	}
	if err = cmp.Or(possibleTasks.Check(s.PIDMax), possibleThreads.Check(s.ThreadsMax), possibleTasks.Check(s.Running)); err != nil {
		return PIDSample{}, err
	}
	pods, err := p.pods.Read(b)
	if errors.Is(err, ErrGone) {
		pods, err = p.root.Read(b)
	}
	if err != nil && !errors.Is(err, ErrGone) {
		return PIDSample{}, err
	}
	s.PodsMax, s.PodsRunning, s.LimitOf = pods.max, pods.use, pods.of
	return s, nil
}

func (p *pidFiles) close() {
	p.pods.Close()
	p.root.Close()
	p.pidMax.Close()
	p.threadsMax.Close()
	p.loadavg.Close()
}

// tasksLimits returns the gauge of the closest limit on the tasks of a cgroup. A read returns an
// error that wraps ErrGone while there is no such cgroup.
func (f FS) tasksLimits(cgroup func() (string, error)) *Gauge[bound[int64]] {
	return &Gauge[bound[int64]]{open: func() (gaugeFiles[bound[int64]], error) {
		at, err := cgroup()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrGone, err)
		}
		h, err := f.PIDsHierarchy()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrGone, err)
		}
		all, err := openLimits(h, at, "pids.max", func(at string) (podCgroup[int64], error) { return h.OpenTasks(at) })
		return &tasksFiles{all}, err
	}}
}

type tasksFiles struct{ limits[int64] }

func (t *tasksFiles) read(b *Buffer) (bound[int64], error) {
	running, err := t.limits[0].use.Read(b)
	if err != nil {
		return bound[int64]{}, err
	}
	return t.closest(b, bound[int64]{use: running}, possibleTasks, TasksOf)
}

func parsePositive(b []byte) (int64, error) {
	v, err := parseAmount(b)
	if err == nil && v == 0 {
		err = fmt.Errorf("%.40q, want a number above zero", b)
	}
	return v, err
}

// initialPIDNamespace names the pid namespace that the kernel boots with; its
// number is fixed (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initialPIDNamespace = "pid:[4026531836]"

// ErrNestedPIDNamespace means that the pid namespace is not the machine's initial one, which is
// right only on a nested node.
var ErrNestedPIDNamespace = errors.New("this process is not in the pid namespace of the machine: give it the host's (hostPID: true)")

var errOwnPIDNamespace = errors.New("this process has a pid namespace of its own, whose limits are not the node's: give it the host's (hostPID: true)")

// CheckPIDNamespace returns an error unless this process shares the pid namespace of the node
// below the root. Otherwise kernel.pid_max would be that of its container.
//
// If the root is a mount of the node's, its /proc shows that. Under the root "/" a process sees
// its own namespace only, which must then be the machine's initial one (else
// ErrNestedPIDNamespace), unless nested is set: a node that is itself a container (kind, LXC)
// has no process in the initial namespace.
func (f FS) CheckPIDNamespace(nested bool) error {
	status, err := f.Open("/proc/self/status")
	if errors.Is(err, ErrGone) {
		return fmt.Errorf("pid namespace: %s does not show this process: %w", f.Path("/proc"), errOwnPIDNamespace)
	}
	if err != nil {
		return fmt.Errorf("pid namespace: %w", err)
	}
	defer status.Close()
	content, err := status.Read(&Buffer{})
	if err != nil {
		return fmt.Errorf("pid namespace: %w", err)
	}
	depth, err := parseNSpid(content)
	if err != nil {
		return fmt.Errorf("pid namespace: parse %s: %w", status.Path(), err)
	}
	if depth > 1 {
		return fmt.Errorf("pid namespace: %w", errOwnPIDNamespace)
	}
	if nested || depth == 0 || filepath.Join("/", f.Root) != "/" {
		return nil
	}
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return fmt.Errorf("pid namespace: %w", err)
	}
	return checkInitialPIDNamespace(name)
}

func checkInitialPIDNamespace(name string) error {
	if name != initialPIDNamespace {
		return fmt.Errorf("pid namespace: %s, want %s: %w", name, initialPIDNamespace, ErrNestedPIDNamespace)
	}
	return nil
}
