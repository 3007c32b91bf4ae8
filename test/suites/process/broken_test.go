package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

var errBroken = errors.New("plugin stargz is not loaded")

// disks gives the world a kubelet's directory, images and thresholds of both.
func (w *world) disks() {
	w.t.Helper()
	w.dir("kubelet")
	w.plugins("memory", "disk")
	w.runtime.SetImageDir("/kubelet")
	w.config["kubeletRootDir"] = "/kubelet"
	w.config["evictionHard"] = map[string]string{"memory.available": "1Gi", "nodefs.available": "1%", "imagefs.available": "1%"}
}

// dir makes a directory of the node.
func (w *world) dir(name string) string {
	w.t.Helper()
	path := filepath.Join(w.node.Root, name)
	if err := os.MkdirAll(path, 0o755); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) file(name string) string {
	w.t.Helper()
	path := filepath.Join(w.dir("files"), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 3\n"), 0o755); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// readOnly mounts a filesystem that cannot be written to.
func (w *world) readOnly() string {
	w.t.Helper()
	at := w.dir("read-only")
	if err := unix.Mount("none", at, "tmpfs", unix.MS_RDONLY, "size=1m"); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			w.t.Error(err)
		}
	})
	return at
}

// listen listens and answers as answer does, or not at all.
func (w *world) listen(network, address string) string {
	w.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(w.t.Context(), network, address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// kubeconfig names an API server at an address.
func (w *world) kubeconfig(server string) {
	w.t.Helper()
	file := filepath.Join(w.dir("files"), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: \"" + server + "\"}}]\nusers: [{name: a, user: {token: a}}]\n" +
		"contexts: [{name: a, context: {cluster: a, user: a}}]\ncurrent-context: a\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	w.config["mode"], w.config["kubeconfig"], w.config["nodeName"] = "kubernetes", file, "test"
}

// A brokenNode is one on which evictd cannot do its work.
type brokenNode struct {
	breakIt func(w *world)
	// want is in the lines of check, and in the log or the status of run.
	want string
	// starts is false where run refuses to start.
	starts bool
}

var brokenNodes = map[string]brokenNode{
	"a run directory with too long a path": {func(w *world) { w.config["runDir"] = filepath.Join(w.dir("run"), strings.Repeat("x", 144)) }, "a socket's path must not exceed 107; want a shorter runDir", false},
	"a run directory below a file":         {func(w *world) { w.config["runDir"] = w.file("a") + "/run" }, "not a directory", false},
	"a run directory that others can write to": {func(w *world) {
		dir := w.dir("run")
		_ = os.Chmod(dir, 0o777)
		w.config["runDir"] = dir
	}, "has mode 0777, want 0700 or 0711: choose a directory that only evictd uses, or chmod 0711 it", false},
	"a run directory on a read-only filesystem": {func(w *world) { w.config["runDir"] = w.readOnly() + "/run" }, "read-only file system", false},
	"records on a read-only filesystem":         {func(w *world) { w.config["stateDir"] = w.readOnly() }, "read-only file system: no record of a decision is kept; want a directory", true},
	"a file in place of the records":            {func(w *world) { w.config["stateDir"] = w.file("a") }, "no record of a decision is kept; want a directory", true},
	"a port that is in use":                     {func(w *world) { w.config["metricsBindAddress"] = w.listen("tcp", "127.0.0.1:0") }, "address already in use", false},
	"no certificate": {func(w *world) {
		w.config["metricsBindAddress"], w.config["tlsCertFile"], w.config["tlsPrivateKeyFile"] = "127.0.0.1:0", "/nonexistent/cert", "/nonexistent/key"
	}, `tlsCertFile "/nonexistent/cert": `, false},
	"no plugin directory": {func(w *world) { w.config["pluginDir"] = "/nonexistent" }, "does not exist, want a directory", false},
	"a plugin directory that dpkg has begun": {func(w *world) {
		_ = os.Rename(w.plugins("memory")+"/memory", w.config["pluginDir"].(string)+"/memory.dpkg-new")
	}, "has no executable in it, want at least one plugin", true},
	"a plugin directory that others can write to": {func(w *world) { _ = os.Chmod(w.plugins("memory"), 0o777) }, "writable by others than its owner, want at most 0755 (chmod go-w)", false},
	"a plugin that others can write to":           {func(w *world) { _ = os.Chmod(w.plugins("memory")+"/memory", 0o777) }, "writable by others than its owner, want at most 0755 (chmod go-w)", true},
	"a plugin that is none": {func(w *world) {
		daemon.Install(w.t, w.file("a"), w.plugins("memory")+"/acme")
	}, "exited before the handshake (exit status 3)", true},
	"a plugin that refuses its configuration": {func(w *world) {
		w.plugins("memory")
		w.config["plugins"] = map[string]any{"memory": map[string]any{"config": map[string]any{"color": "red"}}}
	}, `unknown field "color"`, true},
	"a plugin of a user that is not there": {func(w *world) {
		w.plugins("memory")
		w.config["plugins"] = map[string]any{"memory": map[string]any{"user": "nosuchuser"}}
	}, "unknown user nosuchuser, want the name of a user of this machine or a number", true},
	"plugins without the pins that must be": {func(w *world) {
		w.plugins("memory", "oldest")
		w.config["requirePins"] = true
	}, "it has no pin, want its hash in plugins.oldest.sha256", true},
	"a required signal that no plugin brings": {func(w *world) {
		w.config["evictionHard"] = map[string]string{"memory.available": "1Gi", "acme.example/spare": "1"}
		w.config["requiredSignals"] = []string{"acme.example/spare"}
	}, "acme.example/spare", true},
	"no container runtime":          {func(w *world) { w.config["runtimeEndpoint"] = "unix:///nonexistent/cri.sock" }, "does not exist, is the runtime running? want the socket", true},
	"a file in place of the socket": {func(w *world) { w.config["runtimeEndpoint"] = "unix://" + w.file("a") }, "is not a socket, want the socket", true},
	"a container runtime that never says a word": {func(w *world) {
		w.config["runtimeEndpoint"] = "unix://" + w.listen("unix", filepath.Join(w.dir("s"), "deaf"))
	}, "no pod can be evicted; want the socket", true},
	"a container runtime that cannot list sandboxes": {func(w *world) { w.runtime.Inject(fakecri.ListPodSandbox, fakecri.Fault{Err: errBroken}) }, "ListPodSandbox: " + errBroken.Error(), true},
	"a container runtime that hangs in a call":       {func(w *world) { w.runtime.Inject(fakecri.ListContainers, fakecri.Fault{Hang: true}) }, "ListContainers: ", true},
	"a container runtime without figures of containers": {func(w *world) {
		w.disks()
		w.runtime.Inject(fakecri.ListContainerStats, fakecri.Fault{Err: errBroken})
	}, "ListContainerStats: " + errBroken.Error(), true},
	"a container runtime that cannot list images": {func(w *world) {
		w.disks()
		w.runtime.Inject(fakecri.ListImages, fakecri.Fault{Err: errBroken})
	}, "ListImages: " + errBroken.Error(), true},
	"a container runtime without an image filesystem": {func(w *world) {
		w.disks()
		w.runtime.SetImageFs(&runtimeapi.ImageFsInfoResponse{})
	}, "names no directory of images: without that directory imagefs and containerfs are not observed; want", true},
	"images on a directory that is not there": {func(w *world) {
		w.disks()
		w.runtime.SetImageDir("/gone")
	}, "no such file or directory: without that directory imagefs and containerfs are not observed; want", true},
	"an image service that is away": {func(w *world) { w.config["imageEndpoint"] = "unix:///nonexistent/images.sock" }, `imageEndpoint: "unix:///nonexistent/images.sock": does not exist`, true},
	"pods' cgroups elsewhere":       {func(w *world) { w.config["cgroupRoot"] = "/elsewhere" }, "cgroupRoot", true},
	"another cgroup driver":         {func(w *world) { w.config["cgroupDriver"] = "systemd" }, `cgroupDriver: "systemd": the cgroup driver of this node is "cgroupfs"`, true},
	"no directory of the kubelet": {func(w *world) {
		w.disks()
		w.config["kubeletRootDir"] = "/gone"
	}, `kubeletRootDir: "/gone": does not exist, want the directory of the pods' directories`, true},
	"a kubelet with pods of an API server": {func(w *world) {
		for _, name := range []string{"big.yaml", "small.yaml"} {
			_ = os.Remove(filepath.Join(w.manifests, name))
		}
		w.node.AddPod("besteffort", "uid-api", mib)
		added := w.runtime.Add(fakecri.Pod{UID: "uid-api", Namespace: "default", Name: "api", Annotations: map[string]string{"kubernetes.io/config.source": "api"}, Containers: []fakecri.Container{{Name: "main"}}})
		w.node.AddContainers("besteffort", "uid-api", added.ContainerIDs)
	}, `mode: "cri": a kubelet runs on this node, and 1 of its pods have no manifest in podManifestDir, so they are never evicted; want "kubernetes"`, true},
	"a hard threshold above the node's memory": {
		func(w *world) { w.config["evictionHard"] = map[string]string{"memory.available": "9Gi"} },
		`evictionHard["memory.available"]: "9Gi": is above the capacity of this node, 8Gi: every pod would be evicted; want less`, false,
	},
	"a soft threshold above the node's memory": {func(w *world) {
		w.config["evictionSoft"], w.config["evictionSoftGracePeriod"] = map[string]string{"memory.available": "9Gi"}, map[string]string{"memory.available": "1m"}
	}, `evictionSoft["memory.available"]: "9Gi": is above the capacity of this node, 8Gi`, false},
	"a threshold above the disk's size": {func(w *world) {
		w.disks()
		w.config["evictionHard"] = map[string]string{"nodefs.available": "900Pi"}
	}, `evictionHard["nodefs.available"]: "900Pi": is above the capacity of this node, `, false},
	"a root directory that is none":          {func(w *world) { w.config["rootDir"] = w.dir("empty") }, "no cgroup hierarchy with a memory controller: open ", true},
	"a kernel without the memory controller": {withoutMemory, noMemory, true},
	"no kubeconfig":                          {func(w *world) { w.kubeconfig("x"); w.config["kubeconfig"] = "/nonexistent" }, `kubeconfig: "/nonexistent": `, false},
	"a pipe in place of a kubeconfig": {func(w *world) {
		w.kubeconfig("x")
		pipe := filepath.Join(w.dir("files"), "pipe")
		_ = unix.Mkfifo(pipe, 0o600)
		w.config["kubeconfig"] = pipe
	}, "is a pipe, want a regular file", false},
	"an API server that does not answer": {func(w *world) { w.kubeconfig("https://127.0.0.1:1") }, `list the pods of node "test": `, true},
	"a summary that is not there": {func(w *world) {
		w.config["source"], w.config["summary"] = "summary", daemon.Summary(w.t, "file:///nonexistent/summary.json")
	}, "/nonexistent/summary.json: no such file or directory", true},
}

const noMemory = "no memory cgroup controller: the kernel was started without it; add cgroup_enable=memory to its command line"

// withoutMemory turns the memory controller off: no pod has a cgroup that evictd could find.
func withoutMemory(w *world) {
	root := w.dir("raspberry")
	for file, content := range map[string]string{
		"proc/cgroups": "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t80\t0\npids\t0\t80\t1\n",
		"proc/meminfo": "MemTotal: 4000000 kB\nMemAvailable: 2000000 kB\n", "sys/fs/cgroup/cgroup.controllers": "cpu pids\n",
	} {
		w.dir(filepath.Dir(filepath.Join("raspberry", file)))
		if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.runtime.Add(fakecri.Pod{UID: "uid-pi", Namespace: "default", Name: "pi", Containers: []fakecri.Container{{Name: "main"}}})
	w.config["rootDir"] = root
}

// check said in four lines that cgroupRoot is wrong where the kernel has no memory controller.
func TestCheckBlamesCgroupRootForTheKernel(t *testing.T) {
	w := newWorld(t)
	withoutMemory(w)
	d := w.start()
	code, said := check(t, d.ConfigFile)
	if code != 1 || strings.Count(said, noMemory) != 1 || strings.Contains(said, "cgroupRoot") {
		t.Errorf("exit code %d and\n%s, want 1 and once %q", code, said, noMemory)
	}
	if log := d.LogText(); strings.Contains(log, "cgroupRoot") {
		t.Errorf("run blames cgroupRoot:\n%s", log)
	}
}

// check or run were content with a node on which evictd does not start, or cannot do its work.
func TestBrokenNodesAreNamedByCheckAndRun(t *testing.T) {
	for name, c := range brokenNodes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.breakIt(w)
			d := w.start()
			if !c.starts { // its end gives up what it has taken
				if code := d.Wait(30 * time.Second); code != 1 || !strings.Contains(d.LogText(), c.want) {
					t.Errorf("run: exit code %d, want 1 and %q of\n%s", code, c.want, d.LogText())
				}
			}
			code, said := check(t, d.ConfigFile)
			if code != 1 || !strings.Contains(said, c.want) {
				t.Errorf("check: exit code %d, want 1 and %q of\n%s", code, c.want, said)
			}
			if !c.starts {
				return
			}
			daemon.Eventually(t, 30*time.Second, func() error {
				_, status, err := d.Process.Get(t.Context(), "/status")
				var s struct {
					NotReady   string                               `json:"notReady"`
					Inspection []struct{ Text string }              `json:"inspection"`
					Plugins    []struct{ Reason, LastError string } `json:"plugins"`
				}
				if err == nil {
					err = json.Unmarshal(status, &s)
				}
				if said := fmt.Sprint(s); err != nil || !strings.Contains(said, c.want) && !strings.Contains(d.LogText(), c.want) {
					return fmt.Errorf("run: %w, want %q of %s", err, c.want, said)
				}
				return nil
			})
		})
	}
}

// check runs evictctl check and returns its exit code and what it wrote on standard error.
func check(t *testing.T, config string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, daemon.Build(t, "evictctl"), "check", "--config", config)
	var said strings.Builder
	cmd.Stderr = &said
	err := cmd.Run()
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), said.String()
}

func TestCheckHasNoWordForAHealthyNode(t *testing.T) {
	w := newWorld(t)
	w.disks()
	d := w.startReady()
	if code, said := check(t, d.ConfigFile); code != 0 || said != "" {
		t.Errorf("beside its daemon: exit code %d and\n%s", code, said)
	}
	d.Signal(unix.SIGTERM)
	d.Wait(10 * time.Second)
	began := time.Now()
	code, said := check(t, d.ConfigFile)
	t.Logf("took %v", time.Since(began))
	if code != 0 || said != "" {
		t.Errorf("exit code %d and\n%s", code, said)
	}
	if strings.Contains(d.LogText(), "finding") {
		t.Errorf("run: %s", d.LogText())
	}
}
