package cgroups

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

// machine is a node of version 2 whose cgroups a test makes, with a runtime that may
// tell its driver and pods that run.
type machine struct {
	t       *testing.T
	fs      nodefs.FS
	runtime string
	pods    []Pod
	// listings are the pods of the listings to come, before pods.
	listings [][]Pod
	reported []string
	tally    int
	refuse   error
	log      strings.Builder
	// mu guards pods, told and refuse, which a test may change while a Watch runs.
	mu sync.Mutex
}

func newMachine(t *testing.T, cgroups ...string) *machine {
	t.Helper()
	m := &machine{t: t, fs: nodefs.FS{Root: t.TempDir()}, tally: -1}
	m.grow(cgroups...)
	testos.WriteFile(t, filepath.Join(m.fs.Root, "sys/fs/cgroup/cgroup.controllers"), "memory pids\n", 0o600)
	return m
}

func (m *machine) grow(cgroups ...string) {
	m.t.Helper()
	for _, c := range append(cgroups, "") {
		if err := os.MkdirAll(filepath.Join(m.fs.Root, "sys/fs/cgroup", c), 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
}

// change sets pods and refuse while a Watch runs. It returns what was reported so far.
func (m *machine) change(pods []Pod, refuse error) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pods, m.refuse = pods, refuse
	return slices.Clone(m.reported)
}

func (m *machine) watch(configured string) *Watch {
	return NewWatch(Options{
		Node: Node{FS: m.fs, Root: "/", Ask: func(context.Context) (string, error) {
			if m.runtime == "none" {
				return "", errors.New("no runtime")
			}
			return m.runtime, nil
		}},
		Configured: configured,
		Running: func(context.Context) ([]Pod, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.listings) > 0 {
				pods := m.listings[0]
				m.listings = m.listings[1:]
				return pods, nil
			}
			return m.pods, nil
		},
		Tell: func(_ context.Context, driver string) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.reported = append(m.reported, driver)
			return m.refuse
		},
		Tally: func(n int) { m.tally = n },
		Log:   slog.New(slog.NewTextHandler(&m.log, nil)),
	})
}

const systemdPod = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice"

var x, y = Pod{UID: "x", Name: "a/x", QoSClass: "Burstable"}, Pod{UID: "y", Name: "a/y"}

// A Kubernetes node names cgroups by systemd, and no setting says so. With cgroupfs assumed every
// pod was without figures, and the wrong pod was evicted without a warning.
func TestTheDriverOfANodeIsDetected(t *testing.T) {
	for name, c := range map[string]struct {
		cgroups []string
		runtime string
		want    string
		by      string
	}{
		"systemd, by its pods":                  {[]string{systemdPod}, "", "systemd", "kubepods.slice"},
		"cgroupfs, by its pods":                 {[]string{"kubepods/burstable/podx"}, "", "cgroupfs", "kubepods"},
		"the runtime knows before there is any": {nil, "systemd", "systemd", "the container runtime"},
		"a runtime that is not there":           {[]string{systemdPod}, "none", "systemd", "kubepods.slice"},
		"nothing to see: plugins look":          {nil, "", "", ""},
		"no pod yet: it may be left over":       {[]string{"kubepods"}, "", "", "kubepods"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.cgroups...)
			m.runtime = c.runtime
			w := m.watch("")
			w.Look(t.Context())
			if s := w.Status(); s.Driver != c.want || !strings.HasSuffix(s.SeenBy, c.by) || s.Problem != "" || w.Healthy() != nil {
				t.Errorf("status %+v, %v, want driver %q by %q and no problem", s, w.Healthy(), c.want, c.by)
			}
		})
	}
}

func TestAWrongDriverIsReportedAndNotUsed(t *testing.T) {
	for name, c := range map[string]struct {
		configured, runtime, inUse string
		cgroups                    []string
	}{
		"the cgroups say otherwise":              {"cgroupfs", "", "systemd", []string{systemdPod}},
		"the other way round":                    {"systemd", "", "cgroupfs", []string{"kubepods/podx"}},
		"the runtime says otherwise":             {"cgroupfs", "systemd", "systemd", nil},
		"so do the cgroups, without pods so far": {"cgroupfs", "", "", []string{"kubepods.slice"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.cgroups...)
			m.runtime = c.runtime
			w := m.watch(c.configured)
			w.Look(t.Context())
			s, err := w.Status(), w.Healthy()
			if s.Driver != c.inUse || s.Configured != c.configured || err == nil || s.Problem != err.Error() ||
				!strings.Contains(s.Problem, `"cgroupfs"`) || !strings.Contains(s.Problem, `"systemd"`) {
				t.Errorf("status %+v, healthy %v, want %q in use and a problem with both names", s, err, c.inUse)
			}
			if text := m.log.String(); !strings.Contains(text, "level=ERROR") {
				t.Errorf("the log has %q, want an error", text)
			}
		})
	}
	m := newMachine(t, systemdPod)
	w := m.watch("systemd")
	if w.Look(t.Context()); w.Healthy() != nil || w.Status().Problem != "" {
		t.Errorf("the right driver: %+v, want no problem", w.Status())
	}
}

func TestARunningPodWithoutItsCgroupIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		pods      []Pod
		cgroups   []string
		misplaced []string
		healthy   bool
	}{
		"all are there":                 {[]Pod{x}, []string{systemdPod}, nil, true},
		"one is not":                    {[]Pod{x, y}, []string{systemdPod}, []string{"a/y"}, true},
		"none is":                       {[]Pod{y}, []string{systemdPod}, []string{"a/y"}, false},
		"nor is there a cgroup of pods": {[]Pod{x, y}, nil, []string{"a/x", "a/y"}, false},
		"one of its containers is not":  {[]Pod{of(x, "c1", "c2"), y}, []string{systemdPod + "/some-other-c1.scope"}, []string{"a/x", "a/y"}, false},
		"its containers are there":      {[]Pod{of(x, "c1")}, []string{systemdPod + "/some-other-c1.scope"}, nil, true},
		"no container is found":         {[]Pod{of(x, "c1")}, []string{systemdPod + "/elsewhere"}, []string{"a/x"}, false},
		"nothing runs":                  {nil, nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.cgroups...)
			m.pods = c.pods
			w := m.watch("")
			w.Look(t.Context())
			s, err := w.Status(), w.Healthy()
			if !slices.Equal(s.Pods, c.misplaced) || s.Misplaced != len(c.misplaced) || s.Running != len(c.pods) || m.tally != len(c.misplaced) {
				t.Errorf("status %+v, tally %d, want misplaced %v", s, m.tally, c.misplaced)
			}
			if (err == nil) != c.healthy || (s.Problem == "") != (len(c.misplaced) == 0) {
				t.Errorf("healthy: %v, problem %q, want healthy %v", err, s.Problem, c.healthy)
			}
		})
	}
}

func of(p Pod, containers ...string) Pod {
	p.Containers = containers
	return p
}

// Containers were killed in vain where their cgroups have names of another runtime, and no
// line said so.
func TestWhatIsMisplacedIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup, problem string
	}{
		"the pods":         {"kubepods.slice/kubepods-pody.slice", "has its cgroup where it should be: cgroupRoot or cgroupDriver may be wrong"},
		"their containers": {systemdPod, "has the cgroups of all its containers below its own: processes that outlive"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t, c.cgroup)
			m.pods = []Pod{of(x, "c1")}
			w := m.watch("")
			if w.Look(t.Context()); w.Healthy() == nil || !strings.Contains(w.Healthy().Error(), c.problem) || !strings.Contains(m.log.String(), "level=ERROR") {
				t.Errorf("healthy: %v, log %s, want %q", w.Healthy(), m.log.String(), c.problem)
			}
		})
	}
}

func TestAContainerThatHasJustBeenRestartedIsNotMissed(t *testing.T) {
	m := newMachine(t, systemdPod+"/cri-containerd-c2.scope")
	m.listings, m.pods = [][]Pod{{of(x, "c1")}}, []Pod{of(x, "c2")}
	w := m.watch("")
	if w.Look(t.Context()); w.Status().Misplaced != 0 {
		t.Errorf("status %+v, want none misplaced", w.Status())
	}
}

func TestAPodThatHasJustEndedIsNotMissed(t *testing.T) {
	m := newMachine(t, systemdPod)
	m.listings, m.pods = [][]Pod{{x, y}}, []Pod{x}
	w := m.watch("")
	if w.Look(t.Context()); w.Status().Misplaced != 0 {
		t.Errorf("status %+v, want nobody misplaced", w.Status())
	}
}

// The driver was changed in place: pods of one tree counted as misplaced, or it had to be configured.
func TestPodsInTwoTreesAreAllInTheirPlace(t *testing.T) {
	m := newMachine(t, systemdPod+"/c1", "kubepods/pody/c2")
	m.pods = []Pod{of(x, "c1"), of(y, "c2")}
	newest, err := m.fs.FindCgroupDriver("/")
	if err != nil {
		t.Fatal(err)
	}
	for _, configured := range []string{"", nodefs.Cgroupfs, nodefs.Systemd} {
		w := m.watch(configured)
		w.Look(t.Context())
		wrong := configured != "" && configured != newest.Driver
		if s := w.Status(); s.Driver != newest.Driver || s.Misplaced != 0 || (w.Healthy() != nil) != wrong {
			t.Errorf("configured %q: %+v, %v, want %s in use and no pod misplaced", configured, s, w.Healthy(), newest.Driver)
		}
	}
}

// A kubelet with another driver makes a running pod's cgroup again; its containers stay where they were.
func TestContainersOfAPodInBothTreesAreFound(t *testing.T) {
	m := newMachine(t, systemdPod, "kubepods/burstable/podx/c1")
	m.pods = []Pod{of(x, "c1")}
	w := m.watch("systemd")
	if w.Look(t.Context()); w.Status().Misplaced != 0 {
		t.Errorf("%+v, want no pod misplaced", w.Status())
	}
}

// Before the first pod there is nothing to see on a node whose runtime does not
// tell.
func TestTheFirstPodShowsTheDriverAndPluginsGetIt(t *testing.T) {
	m := newMachine(t)
	synctest.Test(t, func(t *testing.T) {
		w := m.watch("")
		w.Begin(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); w.Run(ctx) }()
		synctest.Wait()
		if reported := m.change(nil, nil); w.Driver() != "" || len(reported) != 0 {
			t.Errorf("driver %q, told %q, want nothing yet", w.Driver(), reported)
		}
		m.grow(systemdPod)
		m.change([]Pod{x}, errors.New("a plugin refuses"))
		time.Sleep(lookAgain)
		synctest.Wait()
		if reported := m.change([]Pod{x}, nil); !slices.Equal(reported, []string{"systemd"}) {
			t.Errorf("told %q, want it told with the first pod", reported)
		}
		time.Sleep(3 * lookEvery)
		cancel()
		<-ended
		if w.Driver() != "systemd" || !slices.Equal(m.reported, []string{"systemd", "systemd"}) {
			t.Errorf("driver %q, told %q, want it told until it was taken, and not again", w.Driver(), m.reported)
		}
	})
}
