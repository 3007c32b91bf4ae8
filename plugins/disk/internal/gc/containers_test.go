package gc_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/plugins/disk/internal/cri"
	"github.com/evictd/evictd/plugins/disk/internal/gc"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// Ids count up: the pod's sandbox is 1, its containers are 2, 3 and so on.
func TestWhatGoesOfAPod(t *testing.T) {
	const ready, unready = true, false
	for name, c := range map[string]struct {
		state      eviction.PodState // 0: not in the list
		sandbox    bool
		containers string
		incomplete bool
		want       string
		sandboxes  int
	}{
		"active: the last dead instance of each container stays": {
			state: eviction.PodActive, sandbox: ready, containers: "a:exited a:exited a b:exited b:exited",
			want: "a-3 a-4 b-6 p", sandboxes: 1,
		},
		"active: one made and not yet started is the newest": {
			state: eviction.PodActive, sandbox: ready, containers: "a:exited a:created",
			want: "a-3 p", sandboxes: 1,
		},
		"ended: its containers go, its logs are for whoever asks why": {
			state: eviction.PodTerminated, containers: "a:exited b:exited",
			want: "p",
		},
		"evicted: all goes": {state: eviction.PodEvicted, containers: "a:exited b:exited"},
		"evicted and still dying: what runs stays, and the logs": {
			state: eviction.PodEvicted, sandbox: ready, containers: "a:exited b",
			want: "b-3 p", sandboxes: 1,
		},
		"deleted: all goes":         {state: eviction.PodDeleted, containers: "a:exited"},
		"not in the list: all goes": {containers: "a:exited b:lost"},
		"not in the list and runs: it may be new": {
			sandbox: ready, containers: "a:exited a:exited b",
			want: "a-3 b-4 p", sandboxes: 1,
		},
		"not in the list and about to start":    {sandbox: ready, containers: "a:created", want: "a-2 p", sandboxes: 1},
		"the list is not complete: limits only": {containers: "a:exited a:exited", incomplete: true, want: "a-3 p", sandboxes: 1},
		"evicted, but the list is not complete: limits only": {
			state: eviction.PodEvicted, containers: "a:exited a:exited", incomplete: true,
			want: "a-3 p", sandboxes: 1,
		},
		"evicted without containers, the list is not complete: the sandbox goes": {
			state: eviction.PodEvicted, incomplete: true, want: "p",
		},
		"active and down: the newest sandbox stays": {
			state: eviction.PodActive, containers: "a:exited",
			want: "a-2 p", sandboxes: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_ = unready
			n := newNode(t, gc.Settings{})
			n.pod(t, "p", c.sandbox, strings.Fields(c.containers)...)
			write(t, filepath.Join(n.logDir("p"), "readme"), 1)
			old(t, n.logDir("p"))
			var pods []eviction.PodPhase
			if c.state != 0 {
				pods = append(pods, is("p", c.state))
			}
			released, err := n.containers(t, !c.incomplete, pods...)
			if err != nil {
				t.Error(err)
			}
			if got := n.left(t); got != c.want {
				t.Errorf("left %q, want %q (%s)", got, c.want, released.Message)
			}
			if got := len(n.SandboxIDs()); got != c.sandboxes {
				t.Errorf("%d sandboxes left, want %d", got, c.sandboxes)
			}
			for _, link := range names(t, n.links) {
				if _, err := os.Stat(filepath.Join(n.links, link)); err != nil {
					t.Errorf("dead link left: %v", err)
				}
			}
		})
	}
}

func old(t *testing.T, path string) {
	t.Helper()
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, long, long); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

func TestItTellsWhatItFreed(t *testing.T) {
	n := newNode(t, gc.Settings{})
	n.pod(t, "p", true, "a:exited", "a:exited", "a:exited", "a")
	released, err := n.containers(t, true, is("p", eviction.PodActive))
	if err != nil {
		t.Fatal(err)
	}
	// Two containers with two files of two blocks of 4 KiB, and two dead links.
	want := eviction.Reclaimed{Bytes: 2 * (1000 + 2*8192), Inodes: 2 * (2 + 2 + 1), Message: released.Message}
	if released != want {
		t.Errorf("freed %+v, want %+v", released, want)
	}
	wantIn(t, "message", released.Message, "removed 2 containers, 2 dead log links, writable layers 2.0 KiB and 4 inodes, logs 32.0 KiB and 6 inodes")
	if !slices.IsSortedFunc(n.progress, func(a, b eviction.Reclaimed) int { return int(a.Bytes - b.Bytes) }) || len(n.progress) < 4 {
		t.Errorf("progress %+v, want growing figures after each removal", n.progress)
	}
	released, err = n.containers(t, true, is("p", eviction.PodActive))
	if want := (eviction.Reclaimed{Message: "removed nothing"}); released != want || err != nil {
		t.Errorf("again: %+v, %v, want %+v", released, err, want)
	}
}

func TestALayerOfUnknownSizeIsCalledSo(t *testing.T) {
	n := newNode(t, gc.Settings{})
	n.Add(fakecri.Pod{UID: "p", NotReady: true, Containers: []fakecri.Container{{Name: "a", Exited: true}}})
	released, err := n.containers(t, true)
	if err != nil || released.Bytes != 0 {
		t.Errorf("freed %+v, %v", released, err)
	}
	wantIn(t, "message", released.Message, "removed 1 container, 1 sandbox", "1 writable layer of unknown size")
}

func TestLimitsAreThoseOfTheSettings(t *testing.T) {
	zero, two, minute := 0, 2, gc.Duration(90*time.Minute)
	for name, c := range map[string]struct {
		settings gc.Settings
		want     string
	}{
		"by default the last stays": {want: "a-3 a-4 b-6 p"},
		"none, if it says so":       {gc.Settings{MaxPerPodContainer: &zero}, "a-4 p"},
		"two of each":               {gc.Settings{MaxPerPodContainer: &two}, "a-2 a-3 a-4 b-5 b-6 p"},
		"two of all":                {gc.Settings{MaxPerPodContainer: &two, MaxContainers: &two}, "a-3 a-4 b-6 p"},
		"too young":                 {gc.Settings{MinAge: &minute}, "a-2 a-3 a-4 b-5 b-6 p"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, gc.Settings{})
			n.pod(t, "p", true, "a:exited", "a:exited", "a", "b:exited", "b:exited")
			c.settings.ContainerLogsDir = n.links
			n.collector.Apply(c.settings)
			if _, err := n.containers(t, true, is("p", eviction.PodActive)); err != nil {
				t.Error(err)
			}
			if got := n.left(t); got != c.want {
				t.Errorf("left %q, want %q", got, c.want)
			}
		})
	}
}

func TestALostContainerIsStoppedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, gc.Settings{})
		added := n.pod(t, "p", false, "a:lost")
		if _, err := n.containers(t, true); err != nil {
			t.Fatal(err)
		}
		var did []string
		for _, c := range n.Calls(fakecri.StopContainer, fakecri.RemoveContainer) {
			did = append(did, string(c.Method)+" "+c.ID)
		}
		if got, want := strings.Join(did, ", "), "StopContainer "+added.ContainerIDs[0]+", RemoveContainer "+added.ContainerIDs[0]; got != want {
			t.Errorf("did %q, want %q", got, want)
		}
		if c := n.Calls(fakecri.StopContainer); c[0].Timeout != 2 {
			t.Errorf("stopped in %d s, want the kubelet's least grace of 2", c[0].Timeout)
		}
		// One that cannot be stopped is not removed: it may run.
		n.pod(t, "q", false, "b:lost")
		n.Inject(fakecri.StopContainer, fakecri.Fault{Err: status.Error(codes.Internal, "no shim")})
		_, err := n.containers(t, true)
		if err == nil || !strings.Contains(err.Error(), "no shim") || !strings.Contains(n.left(t), "b-") {
			t.Errorf("error %v, left %q", err, n.left(t))
		}
	})
}

// A pod that came after the host made its list must not be taken for one that is
// gone, even if nothing of it runs yet.
func TestWhatIsNewIsNotGone(t *testing.T) {
	n := newNode(t, gc.Settings{})
	ahead := time.Now().Add(time.Hour)
	n.Add(fakecri.Pod{UID: "new", NotReady: true, CreatedAt: ahead.Add(-30 * time.Second)})
	n.Add(fakecri.Pod{UID: "gone", NotReady: true, CreatedAt: ahead.Add(-2 * time.Minute)})
	n.Add(fakecri.Pod{UID: "begun", NotReady: true, Containers: []fakecri.Container{{Name: "a", Exited: true, CreatedAt: ahead}}})
	for uid, age := range map[string]time.Duration{"soon": 0, "past": 2 * time.Minute} {
		testos.Mkdir(t, n.logDir(uid), 0o755)
		if err := os.Chtimes(n.logDir(uid), ahead.Add(-age), ahead.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.containers(t, true); err != nil {
		t.Error(err)
	}
	if got, want := sorted(append(n.SandboxIDs(), n.left(t))...), sorted("sandbox-1", "sandbox-3", "a-4 soon"); got != want {
		t.Errorf("left %q, want %q", got, want)
	}
}

// Between its creation and its start a container looks dead, and the runtime
// removes it all the same.
func TestAContainerThatIsAboutToStartStays(t *testing.T) {
	ahead := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		state eviction.PodState
		age   time.Duration
		want  string
	}{
		"just made":                                 {eviction.PodActive, time.Second, "a-2 a-3"},
		"made long ago, it will not be started":     {eviction.PodActive, 2 * time.Minute, "a-3"},
		"just made, the host has not heard of that": {eviction.PodTerminated, time.Second, "a-2 a-3"},
		"just made, the manifest is gone":           {eviction.PodDeleted, time.Second, "a-2 a-3"},
		"just made, although the pod was evicted":   {eviction.PodEvicted, time.Second, "a-2 a-3"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, gc.Settings{})
			// By the limits the older one is to go: the last instance is kept.
			n.Add(fakecri.Pod{UID: "p", Containers: []fakecri.Container{
				{ID: "a-2", Name: "a", Created: true, CreatedAt: ahead.Add(-c.age)},
				{ID: "a-3", Name: "a", Created: true, CreatedAt: ahead.Add(-c.age / 2)},
			}})
			if _, err := n.containers(t, true, is("p", c.state)); err != nil {
				t.Error(err)
			}
			if got := n.left(t); got != c.want {
				t.Errorf("left %q, want %q", got, c.want)
			}
		})
	}
}

// The host's list is of a moment before: what has begun since then counts, until a
// pod is said to have been evicted.
func TestAPodThatRunsAgainIsNotOver(t *testing.T) {
	for state, want := range map[eviction.PodState]string{
		eviction.PodTerminated: "a-3 a-4 p", eviction.PodDeleted: "a-3 a-4 p", eviction.PodEvicted: "a-4 p",
	} {
		n := newNode(t, gc.Settings{})
		n.pod(t, "p", true, "a:exited", "a:exited", "a")
		if _, err := n.containers(t, true, is("p", state)); err != nil {
			t.Error(err)
		}
		if got := n.left(t); got != want {
			t.Errorf("state %v: left %q, want %q", state, got, want)
		}
	}
}

// A sandbox that is not ready yet looks like one that is over. A short job that is
// over is garbage at once: keeping it might cost another pod its life.
func TestOfWhatIsNewAndSaidToHaveEndedTheDeadGoes(t *testing.T) {
	now := time.Now().Add(time.Hour)
	n := newNode(t, gc.Settings{})
	n.Add(fakecri.Pod{UID: "again", NotReady: true, CreatedAt: now})
	n.Add(fakecri.Pod{UID: "job", NotReady: true, CreatedAt: now, Containers: []fakecri.Container{{Name: "a", Exited: true, CreatedAt: now}}})
	for _, uid := range []string{"again", "job"} {
		testos.Mkdir(t, n.logDir(uid), 0o755)
	}
	if _, err := n.containers(t, true, is("again", eviction.PodDeleted), is("job", eviction.PodDeleted)); err != nil {
		t.Error(err)
	}
	if got, want := sorted(append(n.SandboxIDs(), n.left(t))...), sorted("sandbox-1", "again"); got != want {
		t.Errorf("left %q, want %q", got, want)
	}
}

func TestOneFailureDoesNotKeepTheRest(t *testing.T) {
	n := newNode(t, gc.Settings{})
	stuck := n.pod(t, "p", false, "a:exited", "b:exited")
	n.pod(t, "q", false, "c:exited")
	sandbox := n.Add(fakecri.Pod{UID: "r", NotReady: true})
	busy := status.Error(codes.Internal, "device busy")
	n.Inject(fakecri.RemoveContainer, fakecri.Fault{ID: stuck.ContainerIDs[0], Err: busy})
	n.Inject(fakecri.StopPodSandbox, fakecri.Fault{ID: sandbox.SandboxID, Err: busy})
	released, err := n.containers(t, true)
	if err == nil {
		t.Fatal("no error")
	}
	wantIn(t, "error", err.Error(), "remove container a_00002 (a of pod p): ", "remove sandbox "+sandbox.SandboxID, "device busy")
	wantIn(t, "message", released.Message, "removed 2 containers, 1 sandbox")
	if got := n.left(t); got != "a-2" {
		t.Errorf("left %q, want the one that is busy", got)
	}
	n.Heal()
	if _, err := n.containers(t, true); err != nil || n.left(t) != "" || len(n.SandboxIDs()) != 0 {
		t.Errorf("when healed: %v, left %q", err, n.left(t))
	}
}

func TestListsThatFail(t *testing.T) {
	for _, m := range []fakecri.Method{fakecri.ListContainers, fakecri.ListPodSandbox} {
		n := newNode(t, gc.Settings{})
		n.pod(t, "p", false, "a:exited")
		old(t, n.logDir("p"))
		n.Inject(m, fakecri.Fault{Err: status.Error(codes.Unavailable, "going down")})
		released, err := n.containers(t, true)
		if err == nil || !strings.Contains(err.Error(), "going down") || released.Bytes != 0 || n.left(t) != "a-2 p" {
			t.Errorf("%s fails: freed %+v, error %v, left %q, want nothing touched", m, released, err, n.left(t))
		}
	}
}

// A runtime that hangs must not cost ten minutes, one container that hangs not the
// others.
func TestHangs(t *testing.T) {
	for name, c := range map[string]struct {
		method fakecri.Method
		times  int
		most   time.Duration
		left   int
	}{
		"one removal":     {fakecri.RemoveContainer, 1, 61 * time.Second, 1},
		"all removals":    {fakecri.RemoveContainer, 0, 121 * time.Second, 5},
		"all statuses":    {fakecri.ContainerStatus, 0, 21 * time.Second, 5},
		"all lists":       {fakecri.ListContainers, 0, 11 * time.Second, 5},
		"all statistics":  {fakecri.ListContainerStats, 0, 51 * time.Second, 0},
		"the filesystems": {fakecri.ImageFsInfo, 0, 11 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, gc.Settings{})
				for _, uid := range []string{"p", "q", "r", "s", "t"} {
					n.Add(fakecri.Pod{UID: uid, NotReady: true, Containers: []fakecri.Container{{Name: "a", Exited: true}}})
				}
				n.Inject(c.method, fakecri.Fault{Hang: true, Times: c.times})
				started, last, longest := time.Now(), time.Now(), time.Duration(0)
				_, err := n.collector.Containers(t.Context(), nil, true, func(eviction.Reclaimed) {
					longest = max(longest, time.Since(last))
					last = time.Now()
				})
				if took := time.Since(started); took > c.most {
					t.Errorf("took %v, want at most %v", took, c.most)
				}
				if longest > 15*time.Second {
					t.Errorf("no progress for %v: the host would have given up", longest)
				}
				if got := len(n.ContainerIDs()); got != c.left {
					t.Errorf("%d containers left, want %d", got, c.left)
				}
				if (err == nil) != (c.left == 0) {
					t.Errorf("error %v", err)
				}
			})
		})
	}
}

func TestADeadlineEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, gc.Settings{})
		for _, uid := range []string{"p", "q"} {
			n.Add(fakecri.Pod{UID: uid, NotReady: true, Containers: []fakecri.Container{{Name: "a", Exited: true, LayerBytes: 9, LayerInodes: 1}}})
		}
		n.Inject(fakecri.RemoveContainer, fakecri.Fault{Times: 1, Delay: time.Second})
		n.Inject(fakecri.RemoveContainer, fakecri.Fault{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		started := time.Now()
		released, err := n.collector.Containers(ctx, nil, true, nil)
		if !errors.Is(err, context.DeadlineExceeded) || released.Bytes != 9 || time.Since(started) != 5*time.Second {
			t.Errorf("freed %+v, error %v, after %v", released, err, time.Since(started))
		}
	})
}

func TestARuntimeThatRestartsInBetween(t *testing.T) {
	s := fakecri.Start(t)
	client, err := cri.Dial(nodefs.FS{}, s.Endpoint(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c := gc.New(gc.Options{Client: client, PodLogsDir: t.TempDir(), Settings: gc.Settings{ContainerLogsDir: t.TempDir()}, Now: func() time.Time { return time.Now().Add(time.Hour) }})
	for _, uid := range []string{"p", "q", "r"} {
		s.Add(fakecri.Pod{UID: uid, NotReady: true, Containers: []fakecri.Container{{Name: "a", Exited: true}}})
	}
	s.Inject(fakecri.RemoveContainer, fakecri.Fault{Die: true, Times: 1})
	if _, err := c.Containers(t.Context(), nil, true, nil); err == nil || len(s.ContainerIDs()) != 3 {
		t.Errorf("while it is away: error %v, %d containers left", err, len(s.ContainerIDs()))
	}
	if err := s.Revive(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(20 * time.Second); len(s.ContainerIDs()) > 0; {
		if _, err := c.Containers(t.Context(), nil, true, nil); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
