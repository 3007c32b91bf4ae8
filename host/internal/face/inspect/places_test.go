package inspect

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

const inMountNamespace = "EVICTD_TEST_MOUNTS"

// places are the directories of a node with a threshold of nodefs.
func places(t *testing.T) (*config.Config, *fakecri.Server) {
	t.Helper()
	s, c := fakecri.Start(t), config.Default()
	c.RootDir, c.RuntimeEndpoint, c.ImageEndpoint, c.Mode, c.PodManifestDir = t.TempDir(), s.Endpoint(), s.Endpoint(), config.ModeCRI, t.TempDir()
	c.EvictionHard = map[string]string{"nodefs.available": "10%"}
	for _, dir := range []string{"/var/lib/kubelet/pods", "/var/log/pods", "/images", "/plugins"} {
		testos.MkdirAll(t, c.RootDir+dir, 0o755)
	}
	s.SetImageDir("/images")
	c.PluginDir = c.RootDir + "/plugins"
	testos.WriteFile(t, c.PluginDir+"/disk", "", 0o755)
	return &c, s
}

// found returns what a probe finds, each with its level.
func found(t *testing.T, c *config.Config, begun map[string]string, name string) (texts []string) {
	t.Helper()
	for _, f := range run(t.Context(), Options{Config: c, left: new(hang.Left), begun: begun}, func(p probe) bool { return p.name == name }) {
		texts = append(texts, string(f.Level)+" "+strings.ReplaceAll(f.Text, c.RootDir, "ROOT"))
	}
	return texts
}

// The kubelet's directory was there and had nothing of the pods: each counted as 0, and check and
// /healthz said nothing.
func TestPodsWithoutADirectoryInTheKubeletsAreSaid(t *testing.T) {
	const (
		kubelets = "/var/lib/kubelet/pods/"
		logs     = "/var/log/pods/"
		counts   = ": what they have there counts for none; want the kubelet's own, with its disk mounted"
	)
	api := map[string]string{"kubernetes.io/config.source": "api"}
	volume := "  volumes: [{name: v, %: {}}]\n"
	for name, c := range map[string]struct {
		mode     string
		made     map[string]string // annotations of the sandboxes
		manifest string            // of pod a, after "spec:"
		dirs     []string
		want     []string
	}{
		"all there": {config.ModeCRI, api, "", []string{kubelets + "a", kubelets + "b", logs + "ns_a_a", logs + "ns_b_b"}, nil},
		"nothing there": {config.ModeCRI, api, "", nil, []string{
			`error kubeletRootDir: "/var/lib/kubelet" has no directory of 2 of 2 running pods (first: ns/a, ROOT/var/lib/kubelet/pods/a does not exist)` + counts,
			`error podLogsDir: "/var/log/pods" has no directory of 2 of 2 running pods (first: ns/a, ROOT/var/log/pods/ns_a_a does not exist)` + counts,
		}},
		"with an API server": {config.ModeKubernetes, nil, "", []string{logs + "ns_a_a", logs + "ns_b_b"}, []string{
			`error kubeletRootDir: "/var/lib/kubelet" has no directory of 2 of 2 running pods (first: ns/a, ROOT/var/lib/kubelet/pods/a does not exist)` + counts,
		}},
		"one of two": {config.ModeCRI, api, "", []string{kubelets + "a", kubelets + "b", logs + "ns_a_a"}, []string{
			`warning podLogsDir: "/var/log/pods" has no directory of 1 of 2 running pods (first: ns/b, ROOT/var/log/pods/ns_b_b does not exist)` + counts,
		}},
		"without a kubelet": {config.ModeCRI, nil, "", nil, nil},
		"without a kubelet, a volume that is the pod's": {config.ModeCRI, nil, strings.ReplaceAll(volume, "%", "emptyDir"), nil, []string{
			`error kubeletRootDir: "/var/lib/kubelet" has no directory of 1 of 1 running pods (first: ns/a, ROOT/var/lib/kubelet/pods/a does not exist)` + counts,
		}},
		"without a kubelet, a projected volume": {config.ModeCRI, nil, strings.ReplaceAll(volume, "%", "projected"), nil, []string{
			`error kubeletRootDir: "/var/lib/kubelet" has no directory of 1 of 1 running pods (first: ns/a, ROOT/var/lib/kubelet/pods/a does not exist)` + counts,
		}},
		"without a kubelet, a directory of the node": {config.ModeCRI, nil, "  volumes: [{name: v, hostPath: {path: /x}}]\n", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, s := places(t)
			cfg.Mode = c.mode
			for _, uid := range []string{"a", "b", "ended"} {
				s.Add(fakecri.Pod{UID: uid, Namespace: "ns", Name: uid, Annotations: c.made, Containers: []fakecri.Container{{Name: "c", Exited: uid == "ended"}}})
			}
			if c.manifest != "" {
				testos.WriteFile(t, filepath.Join(cfg.PodManifestDir, "a.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns, uid: a}\nspec:\n  containers: [{name: c, image: i}]\n"+c.manifest, 0o600)
			}
			for _, dir := range c.dirs {
				testos.MkdirAll(t, cfg.RootDir+dir, 0o755)
			}
			if got := found(t, cfg, map[string]string{}, "kubelet's directories"); !slices.Equal(got, c.want) {
				t.Errorf("%s\nwant %s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// A pod ends between the list and the look: its directory is gone, and nothing is wrong.
func TestAPodThatEndsMeanwhileIsNotSaidToLackADirectory(t *testing.T) {
	cfg, s := places(t)
	cfg.Mode = config.ModeKubernetes
	for _, uid := range []string{"a", "b"} {
		s.Add(fakecri.Pod{UID: uid, Namespace: "ns", Name: uid, Containers: []fakecri.Container{{Name: "c"}}})
	}
	for _, dir := range []string{"/var/lib/kubelet/pods/b", "/var/log/pods/ns_b_b"} {
		testos.MkdirAll(t, cfg.RootDir+dir, 0o755)
	}
	n := newNode(t.Context(), Options{Config: cfg})
	defer n.close()
	listed, err := n.active(t.Context())
	if err != nil || len(listed) != 2 {
		t.Fatalf("%v, %v", listed, err)
	}
	for _, want := range []int{1, 0} {
		var f Findings
		f.lacking(t.Context(), cfg, listed, n.active)
		if len(f) != 2*want {
			t.Errorf("%v, want %d of each", f, want)
		}
		s.Remove("a")
	}
}

// Each minute the daemon read the manifests of all pods again.
func TestAnInspectionByADaemonTakesThePodsThatItHas(t *testing.T) {
	cfg, _ := places(t)
	n := newNode(t.Context(), Options{Config: cfg, Active: func(context.Context) (pods.Snapshot, error) { return pods.Snapshot{Pods: make([]pods.Pod, 3)}, nil }})
	defer n.close()
	if got, err := n.active(t.Context()); err != nil || len(got) != 3 {
		t.Errorf("%d pods, %v, want those of the daemon", len(got), err)
	}
}

// Advice of how a node works made /healthz fail after half a minute.
func TestAdviceIsNoErrorOfADaemon(t *testing.T) {
	former := probes
	t.Cleanup(func() { probes = former })
	probes = []probe{{name: "capacity", daemon: watchEvery, deadline: deadline, try: func(_ context.Context, _ *node, f *Findings) { f.add(Advice, "a limit is close") }}}
	var log bytes.Buffer
	c := config.Default()
	w := NewWatch(func() Options { return Options{Config: &c} }, func([]Lasting) {}, slog.New(slog.NewTextHandler(&log, nil)))
	if newest := w.look(t.Context()); !newest.IsZero() || w.Healthy(0) != nil || len(w.Found()) != 1 || !strings.Contains(log.String(), "level=INFO") {
		t.Errorf("since %v: %v, %v, log %s", newest, w.Healthy(0), w.Found(), &log)
	}
}

// A disk that was unmounted was noticed up to an hour later.
func TestMountsAreLookedAtEachMinute(t *testing.T) {
	former := probes
	t.Cleanup(func() { probes = former })
	for _, p := range probes {
		if want := p.name == Filesystems || p.name == "kubelet's directories"; (p.daemon == watchOften) != want {
			t.Errorf("%s is repeated each %v", p.name, p.daemon)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var often, hourly, events atomic.Int64
		probes = []probe{
			{Filesystems, watchOften, false, deadline, func(_ context.Context, _ *node, f *Findings) {
				if often.Add(1) > 1 {
					f.add(Warning, "read-only")
				}
			}},
			{"layout", watchEvery, false, deadline, func(_ context.Context, _ *node, f *Findings) {
				hourly.Add(1)
				f.add(Warning, "stays")
			}},
		}
		c := config.Default()
		w := NewWatch(func() Options { return Options{Config: &c} }, func([]Lasting) { events.Add(1) }, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		time.Sleep(59*watchOften + time.Second)
		synctest.Wait()
		if often.Load() != 60 || hourly.Load() != 1 || len(w.Found()) != 2 || events.Load() != 2 {
			t.Errorf("%d and %d looks, found %v, %d times reported; want both kept, and the first and the new ones reported", often.Load(), hourly.Load(), w.Found(), events.Load())
		}
		time.Sleep(watchOften)
		synctest.Wait()
		if hourly.Load() != 2 || len(w.Found()) != 2 {
			t.Errorf("%d looks after an hour, found %v", hourly.Load(), w.Found())
		}
		stop()
		<-done
	})
}

// TestPlaces runs TestInMounts in a mount namespace of its own.
func TestPlaces(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^TestInMounts$")
	cmd.Env = append(os.Environ(), inMountNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the death that Pdeathsig means is this thread's
	defer runtime.UnlockOSThread()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestInMounts(t *testing.T) {
	if os.Getenv(inMountNamespace) != "1" {
		t.Skip("runs inside TestPlaces")
	}
	t.Run("unmounted", testFilesystemsThatAreOthersNow)
	t.Run("read-only", testFilesystemsThatAreReadOnly)
	t.Run("logs", testLogsWithoutASignal)
	t.Run("of no pod", testDirectoriesOfNoPod)
}

func mount(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		t.Fatalf("mount %s on %s: %v", source, target, err)
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
}

// The disk below the kubelet's directory was unmounted while evictd ran: nodefs was the root filesystem
// from then on, and /healthz was ok.
func testFilesystemsThatAreOthersNow(t *testing.T) {
	for place, first := range map[string]string{"/var/lib/kubelet": "", "/var/lib/kubelet/pods": "", "/var/log/pods": "advice", "/images": ""} {
		c, _ := places(t)
		dir, begun := c.RootDir+place, map[string]string{}
		mount(t, "first", dir, "tmpfs", 0)
		testos.MkdirAll(t, c.RootDir+"/var/lib/kubelet/pods", 0o755)
		look := func() string { return strings.Join(found(t, c, begun, Filesystems), "\n") }
		if got := look(); !strings.HasPrefix(got, first) || first == "" && got != "" {
			t.Errorf("%s at the start: %s", place, got)
		}
		for step, change := range map[string]func(){
			"unmounted":             func() { _ = unix.Unmount(dir, unix.MNT_DETACH) },
			"another one":           func() { _ = unix.Unmount(dir, unix.MNT_DETACH); mount(t, "second", dir, "tmpfs", 0) },
			"another part of a one": func() { mount(t, c.PodManifestDir, dir, "", unix.MS_BIND) },
		} {
			change()
			got := look()
			if !strings.Contains(got, "error "+place+" is on another filesystem now (was first[/] (tmpfs, device 0:") || strings.Count(got, "another filesystem") != 1 {
				t.Errorf("%s, %s: %s", place, step, got)
			}
			begun = map[string]string{}
			_ = unix.Unmount(dir, unix.MNT_DETACH)
			mount(t, "first", dir, "tmpfs", 0)
			testos.MkdirAll(t, c.RootDir+"/var/lib/kubelet/pods", 0o755)
			look()
		}
		mount(t, "above", dir, "tmpfs", 0)
		testos.MkdirAll(t, c.RootDir+"/var/lib/kubelet/pods", 0o755)
		if got := look(); !strings.Contains(got, "another filesystem") {
			t.Errorf("%s mounted over: %s", place, got)
		}
		_ = unix.Unmount(dir, unix.MNT_DETACH)
		if got := look(); strings.Contains(got, "another filesystem") {
			t.Errorf("%s is back: %s", place, got)
		}
	}
}

// A disk turned read-only, pods went one by one, and nothing was freed.
func testFilesystemsThatAreReadOnly(t *testing.T) {
	c, _ := places(t)
	for _, place := range []string{"/var/lib/kubelet", "/images"} {
		dir := c.RootDir + place
		mount(t, "disk", dir, "tmpfs", 0)
		if got := found(t, c, map[string]string{}, Filesystems); len(got) != 0 {
			t.Errorf("%s is writable: %s", place, got)
		}
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		if got := found(t, c, map[string]string{}, Filesystems); len(got) != 0 {
			t.Errorf("%s is read-only for this process alone: %s", place, got)
		}
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		if got := found(t, c, map[string]string{}, Filesystems); len(got) != 1 || !strings.HasPrefix(got[0], "warning "+place+" is on a read-only filesystem, disk[/] (tmpfs, device 0:") {
			t.Errorf("%s is read-only: %s", place, got)
		}
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	}
}

// Only the log said that logs are where no threshold looks.
func testLogsWithoutASignal(t *testing.T) {
	c, s := places(t)
	look := func() string { return strings.Join(found(t, c, map[string]string{}, Filesystems), "\n") }
	if got := look(); got != "" {
		t.Errorf("on the kubelet's: %s", got)
	}
	mount(t, "logs", c.RootDir+"/var/log", "tmpfs", 0)
	testos.MkdirAll(t, c.RootDir+"/var/log/pods", 0o755)
	if got := look(); !strings.HasPrefix(got, `advice podLogsDir: "/var/log/pods" is on a filesystem without a signal`) {
		t.Errorf("on their own: %q", got)
	}
	s.SetImageDir("/var/log")
	if got := look(); got != "" {
		t.Errorf("on the images': %s", got)
	}
	s.Die()
	if got := look(); got != "" {
		t.Errorf("where images are is not known: %s", got)
	}
}
