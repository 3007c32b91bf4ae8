package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// busyboxPath is the path in Debian's package.
const busyboxPath = "/bin/busybox"

// The images of every stack: PodImage is a busybox under its usual names, SandboxImage is for
// sandboxes.
const (
	PodImage     = "localhost/evictd/pod:1"
	SandboxImage = "localhost/evictd/pause:1"
)

const (
	startDeadline = 60 * time.Second
	closeDeadline = 5 * time.Minute // enough to unmount a filesystem of a million files on a busy disk
)

// Options configure a stack.
type Options struct {
	// Name starts the names of the stack's directory, cgroup and record.
	Name string
	// Filesystems are mounted below the stack's directory before anything else is created there.
	Filesystems []Filesystem
	// KubeletRoot, PodLogs and RuntimeRoot are the kubelet's root directory, the logs of pods and
	// containerd's root, relative to the stack's directory. The defaults are "kubelet", "logs"
	// and "containerd/root".
	KubeletRoot, PodLogs, RuntimeRoot string
	// Programs is a directory with a containerd and shim to run instead of Debian's.
	Programs string
	// Bare omits containerd, for tests with another runtime.
	Bare bool
	// PrivateDirs are directories of the machine that containerd, and programs started with
	// Inside, see as private, initially empty directories.
	PrivateDirs []string
	// Sysctls are files below /proc/sys whose initial values Close restores.
	Sysctls []string
}

// privateDirs returns the directories that are private to containerd.
func (o Options) privateDirs() []string { return append([]string{shimDir}, o.PrivateDirs...) }

// A Stack is a running private containerd with its files and cgroups.
type Stack struct {
	// Dir is the stack's own directory; Close removes it.
	Dir string
	// CgroupRoot is the parent of "kubepods", as a path inside each hierarchy.
	CgroupRoot string
	// ManifestDir contains the v1.Pod manifests of the running pods.
	ManifestDir string
	// KubeletRootDir and PodLogsDir are the kubelet's directories.
	KubeletRootDir, PodLogsDir string
	// RuntimeRootDir is containerd's root: images and writable layers.
	RuntimeRootDir string
	// Socket is the path of containerd's CRI socket.
	Socket string
	// Runtime and Images are containerd's CRI services, nil in a bare stack.
	Runtime runtimeapi.RuntimeServiceClient
	Images  runtimeapi.ImageServiceClient

	options     Options
	conn        *grpc.ClientConn
	record      record
	hierarchies []hierarchy
	tracked     hierarchy
	commands    sync.WaitGroup
	// containerd runs in the mount namespace that the descriptor namespace refers to.
	containerd *daemon
	namespace  *os.File
	// systemd: systemd makes the cgroups of pods, not RunPod.
	systemd bool
}

var (
	safeName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}-[0-9]+-[0-9]+$`)
	counter  atomic.Int64
)

// Start removes what killed owners left behind, then starts a stack. The caller must Close it,
// even after ctx has ended.
func Start(ctx context.Context, o Options) (*Stack, error) {
	ctx, cancel := context.WithTimeout(ctx, startDeadline)
	defer cancel()
	if err := Preflight(); err != nil {
		return nil, err
	}
	if err := Sweep(ctx); err != nil {
		return nil, err
	}
	s, err := newStack(o)
	if err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start stack: %w", err), s.Close()) //nolint:contextcheck // removing must work after ctx has ended
	}
	return s, nil
}

// newStack chooses all names and records them before anything is created.
func newStack(o Options) (*Stack, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	tracked, err := tracker(all)
	if err != nil {
		return nil, err
	}
	owner, err := self()
	if err != nil {
		return nil, err
	}
	id := fmt.Sprintf("%s-%d-%d", o.Name, owner.PID, counter.Add(1))
	if !safeName.MatchString(id) {
		return nil, fmt.Errorf("stack name %q, want lower-case letters, digits and dashes, at most 31", o.Name)
	}
	dir := filepath.Join("/var/tmp", id)
	s := &Stack{
		Dir: dir, CgroupRoot: "/" + id, ManifestDir: filepath.Join(dir, "manifests"), Socket: filepath.Join(dir, "containerd.sock"),
		KubeletRootDir: filepath.Join(dir, cmp.Or(o.KubeletRoot, "kubelet")),
		PodLogsDir:     filepath.Join(dir, cmp.Or(o.PodLogs, "logs")),
		RuntimeRootDir: filepath.Join(dir, cmp.Or(o.RuntimeRoot, "containerd/root")),
		options:        o,
		record:         record{ID: id, Owner: owner, Dir: dir, Cgroup: "/" + id},
		hierarchies:    all, tracked: tracked,
	}
	for _, dir := range o.privateDirs() {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			s.record.MadeDirs = append(s.record.MadeDirs, dir)
		}
	}
	if s.record.Sysctls, err = readSysctls(o.Sysctls); err != nil {
		return nil, err
	}
	return s, s.record.save()
}

func (s *Stack) start(ctx context.Context) error {
	// Fail if the directory exists: its name contains a PID, which may have been reused.
	if err := os.Mkdir(s.Dir, 0o755); err != nil {
		return err
	}
	for _, f := range s.options.Filesystems {
		if err := f.mount(ctx, s.Dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{s.ManifestDir, s.podsDir(), s.PodLogsDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for _, path := range append([]string{""}, qosGroups...) {
		if err := makeCgroup(s.hierarchies, filepath.Join(s.CgroupRoot, path)); err != nil {
			return err
		}
	}
	for _, path := range []string{runtimeGroup, toolsGroup} {
		if err := makeCgroup([]hierarchy{s.tracked}, filepath.Join(s.CgroupRoot, path)); err != nil {
			return err
		}
	}
	if s.options.Bare {
		return nil
	}
	if err := configureContainerd(s.Dir, s.Socket, s.RuntimeRootDir, s.options.privateDirs()); err != nil {
		return err
	}
	if err := s.StartContainerd(ctx); err != nil {
		return err
	}
	return s.ImportBasics(ctx)
}

// ImportBasics imports the images of every stack.
func (s *Stack) ImportBasics(ctx context.Context) error {
	for _, image := range []Image{
		{Name: SandboxImage, Files: map[string]string{"bin/busybox": busyboxPath}, Command: []string{"/bin/busybox", "sleep", "2147483647"}},
		BusyboxImage(PodImage, nil),
	} {
		if err := s.Import(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

func (s *Stack) podsDir() string { return filepath.Join(s.KubeletRootDir, "pods") }

// The cgroups of the stack's own processes, besides kubepods.
const (
	runtimeGroup = "runtime"
	toolsGroup   = "tools"
)

// qosGroups are the cgroups of pods by QoS class, as the kubelet's cgroupfs driver names them.
var qosGroups = []string{"kubepods", "kubepods/burstable", "kubepods/besteffort"}

// joinScript moves the shell into a cgroup before it executes the program, so that all processes
// that the program ever starts are inside.
const joinScript = `echo $$ >"$1/cgroup.procs"; shift; exec "$@"`

// Processes returns the PIDs of the programs started with Command, and of their descendants.
func (s *Stack) Processes() []int {
	return slices.Sorted(maps.Keys(cgroupProcesses([]hierarchy{s.tracked}, filepath.Join(s.CgroupRoot, toolsGroup))))
}

// Command prepares a program that Close kills. It runs in a separate session, so that a Ctrl-C
// for the owner does not reach it.
func (s *Stack) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return s.command(ctx, joinScript, toolsGroup, name, args...)
}

func (s *Stack) command(ctx context.Context, script, group, name string, args ...string) *exec.Cmd {
	dir := filepath.Join(s.tracked.mount, s.CgroupRoot, group)
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-ec", script, "sh", dir, name}, args...)...)
	cmd.SysProcAttr = detached()
	return cmd
}

// LimitPods limits the memory of all pods together, like a kubelet that enforces node allocatable.
// On cgroup v2 a pod must have run before, since the runtime enables the controllers.
func (s *Stack) LimitPods(bytes int64) error {
	file := "memory.limit_in_bytes"
	if s.tracked.v2 {
		file = "memory.max"
	}
	if err := os.WriteFile(filepath.Join(s.tracked.mount, s.CgroupRoot, "kubepods", file), strconv.AppendInt(nil, bytes, 10), 0o644); err != nil {
		return fmt.Errorf("limit the memory of all pods: %w", err)
	}
	return nil
}

// A LeftBehindError lists what Close could not remove; the next Start tries again.
type LeftBehindError struct {
	Stack string
	Err   error
}

func (e *LeftBehindError) Error() string { return "clean up " + e.Stack + ": " + e.Err.Error() }

// Unwrap returns the reasons.
func (e *LeftBehindError) Unwrap() error { return e.Err }

// Close removes the stack and reports everything that it could not remove. It uses no context of
// the caller, so that it works after Ctrl-C.
func (s *Stack) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeDeadline)
	defer cancel()
	if s.conn != nil {
		_ = s.conn.Close() // no calls to containerd follow
	}
	if s.namespace != nil {
		_ = s.namespace.Close() // the mounts end with the last process
	}
	err := s.record.remove(ctx, s.hierarchies)
	s.commands.Wait()
	reapShims()
	if err != nil {
		return &LeftBehindError{Stack: s.record.ID, Err: err}
	}
	return nil
}
