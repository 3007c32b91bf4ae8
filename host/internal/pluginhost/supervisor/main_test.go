package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
	"github.com/evictd/evictd/test/harness/uml"
)

// patient bounds a test's wait for something that takes milliseconds on a quiet machine.
const patient = time.Minute

// patientCalls are for plugins that are not expected to hang: a busy machine takes more
// than the usual deadlines now and then.
var patientCalls = client.Timeouts{}.AtLeast(patient)

// hostDirEnv makes the test binary a host of the plugins in that directory.
const hostDirEnv = "EVICTD_TEST_HOST_DIR"

// faultyProgram is the broken plugin, built.
var faultyProgram string

func TestMain(m *testing.M) {
	if dir := os.Getenv(hostDirEnv); dir != "" {
		beHost(dir)
		return
	}
	uml.Main(uml.Mount{Source: "cgroup2", Target: guestCgroups, Type: "cgroup2"})
	code, err := testWithFaulty(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func testWithFaulty(m *testing.M) (int, error) {
	if os.Getenv("EVICTD_TEST_GUEST") == "1" { // set by test/harness/uml: there is no Go
		faultyProgram = "/faulty"
		if err := os.Chmod(faultyProgram, 0o755); err != nil {
			return 0, err
		}
		return m.Run(), nil
	}
	program, err := daemon.Program("broken")
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "evictd")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Where and with what mode the checkout is does not matter to plugins, which must not be writable by others.
	faultyProgram = filepath.Join(dir, "faulty")
	if err := evictd.Install(program, faultyProgram); err != nil {
		return 0, err
	}
	if err := os.Chmod(faultyProgram, 0o755); err != nil { // whatever the umask
		return 0, err
	}
	return m.Run(), nil
}

// A testHost is a running supervisor with its directories.
type testHost struct {
	t *testing.T
	*Supervisor
	dir, sockets string
	log          *syncBuffer
	cancel       context.CancelFunc
	done         chan error
}

// privateDir is not t.TempDir, whose path is too long for sockets and whose mode
// depends on the umask.
func privateDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// install puts the faulty program under those names into a new directory.
func install(t *testing.T, names ...string) string {
	t.Helper()
	dir := privateDir(t)
	for _, name := range names {
		testos.Symlink(t, faultyProgram, filepath.Join(dir, name))
	}
	return dir
}

// shortStop is for plugins that are expected not to end.
func shortStop(o *Options) { o.Timeouts.Stop = 300 * time.Millisecond }

// startHost starts a supervisor of dir and waits until it has started. At the
// end of the test it is stopped, and nothing of it may be left.
func startHost(t *testing.T, dir string, change ...func(*Options)) *testHost {
	t.Helper()
	return startWithPolicy(t, defaultRestartPolicy(), dir, change...)
}

// startWithPolicy is startHost with another restart policy.
func startWithPolicy(t *testing.T, p restartPolicy, dir string, change ...func(*Options)) *testHost {
	t.Helper()
	return startPrepared(t, func(s *Supervisor) { s.control.restartPolicy = p }, dir, change...)
}

// startPrepared does as startHost with a supervisor that was changed before it runs.
func startPrepared(t *testing.T, prepare func(*Supervisor), dir string, change ...func(*Options)) *testHost {
	t.Helper()
	h := &testHost{t: t, dir: dir, sockets: privateDir(t), log: &syncBuffer{}, done: make(chan error, 1)}
	o := Options{
		Dir: dir, SocketRoot: h.sockets, Timeouts: patientCalls,
		Log: slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	prepare(s)
	h.Supervisor = s
	ctx, cancel := context.WithCancel(t.Context())
	h.cancel = cancel
	go func() { h.done <- s.Run(ctx) }()
	t.Cleanup(h.stop)
	select {
	case <-s.Started():
	case <-time.After(patient):
		t.Fatalf("not started after %s:\n%s", patient, h.log)
	}
	return h
}

func (h *testHost) stop() {
	h.t.Helper()
	h.cancel()
	select {
	case err := <-h.done:
		if err != nil {
			h.t.Errorf("Run: %v", err)
		}
		h.done <- nil // for another stop
	case <-time.After(patient):
		h.t.Fatalf("Run did not return after %s:\n%s", patient, h.log)
	}
	if left := processesOf(h.sockets); len(left) > 0 {
		h.t.Errorf("processes left: %v", left)
	}
	if strings.Contains(h.log.String(), "something of a plugin is left") { // for want of time: it goes with the next host
		sandbox.NewRoot(h.sockets, sandbox.Tell{Left: func(_ string, err error) { h.t.Error(err) }}).Sweep()(context.WithoutCancel(h.t.Context()))
	}
	if left, _ := os.ReadDir(h.sockets); len(left) > 0 {
		h.t.Errorf("socket directories left: %v", left)
	}
	if h.t.Failed() {
		h.t.Logf("log of the host:\n%.8000s", h.log)
	}
}

// processesOf returns the living processes that have sockets below root, and
// their children.
func processesOf(root string) []string {
	found, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []string
	for _, file := range found {
		env, err := os.ReadFile(file) // empty for a zombie
		if err == nil && bytes.Contains(env, []byte(root+"/")) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(patient); !ok(); <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patient, what)
		}
	}
}

// strict reports whether times are checked: only where the tests have the
// machine for themselves, not in a plain go test beside other packages.
func strict() bool { return os.Getenv("EVICTD_TEST_ROOT") == "1" }

// suspend stops a process and waits until all its threads have.
func suspend(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is stopped", func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		for _, task := range tasks {
			if stat, _ := os.ReadFile(task); !bytes.Contains(stat, []byte(") T ")) {
				return false
			}
		}
		return len(tasks) > 0
	})
}

func (h *testHost) plugin(name string) Status {
	h.t.Helper()
	for _, s := range h.Status() {
		if s.Name == name {
			return s
		}
	}
	return Status{}
}

// pinned returns the running instance of that name.
func (h *testHost) pinned(name string) (*registry.Pin, *registry.Instance) {
	h.t.Helper()
	p := h.Pin()
	for _, i := range p.Instances() {
		if i.Name == name {
			return p, i
		}
	}
	p.Release()
	h.t.Fatalf("%s does not run: %+v", name, h.plugin(name))
	return nil, nil
}

// observed returns what a running plugin observes.
func (h *testHost) observed(name string) eviction.Observation {
	h.t.Helper()
	p, i := h.pinned(name)
	defer p.Release()
	o, err := observe(h.t.Context(), i)
	if err != nil {
		h.t.Fatal(err)
	}
	return o
}

// observe asks for the only signal that the instance serves.
func observe(ctx context.Context, i *registry.Instance) (eviction.Observation, error) {
	r, err := i.Plugin.Observer.Observe(ctx, eviction.ObserveRequest{Signals: []eviction.Signal{i.Plugin.Signals[0].Signal}})
	if err != nil {
		return eviction.Observation{}, err
	}
	return r.Observations[0], nil
}

// want fails unless text contains all parts.
func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, want %q in it", text, part)
		}
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// drain empties a channel that coalesces.
func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}
