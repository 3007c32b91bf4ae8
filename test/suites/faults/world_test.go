package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/child"
	"github.com/evictd/evictd/test/harness/daemon"
)

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// The pods of a world. By the kubelet's order over their figures greedy goes first,
// for it uses more than it requests. Where no source has figures, which is of disks and of
// custom signals, it is lowly, whose priority is the lowest; so it is of tasks,
// where priority counts first. The others use the most and must not go.
const (
	greedy   = "greedy"   // priority 1000, requests little
	lowly    = "lowly"    // priority 0, requests much
	shield   = "shield"   // critical
	stranger = "stranger" // of which there is no manifest
)

// A world is a made-up node of 16 GiB with a runtime on it.
type world struct {
	t         *testing.T
	node      *daemon.Node
	runtime   *fakecri.Server
	manifests string
	plugins   string
	config    map[string]any
	processes map[string]chan struct{} // by cgroup, closed when its process has ended
	volume    string                   // the emptyDir of each pod, in YAML
	held      map[string]*os.File      // by name: files that are written where their path hangs
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	w.pod(greedy, "burstable", 2*gib, 1000, "requests: {memory: 512Mi}")
	w.pod(lowly, "burstable", gib, 0, "requests: {memory: 2Gi, ephemeral-storage: 100Mi}")
	w.pod(shield, "besteffort", 4*gib, 2000001000, "")
	w.pod(stranger, "besteffort", 3*gib, -1, "")
	return w
}

// emptyWorld is a world without pods.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, node: daemon.NewNode(t, 16*gib), runtime: fakecri.Start(t), manifests: t.TempDir(), plugins: daemon.RunDir(t), volume: "{}", processes: map[string]chan struct{}{}}
	w.config = map[string]any{
		"rootDir": w.node.Root, "runtimeEndpoint": w.runtime.Endpoint(), "podManifestDir": w.manifests, "pluginDir": w.plugins,
	}
	w.file("proc/self/status", "Name: evictd\nNSpid:\t1\n")
	w.file("proc/sys/kernel/pid_max", "32768\n")
	w.file("proc/sys/kernel/threads-max", "32768\n")
	w.file("sys/fs/cgroup/pids/tasks", "1\n")
	w.disk()
	return w
}

// disk gives the node a filesystem of 32 MiB with everything on it.
func (w *world) disk() {
	w.t.Helper()
	dir := w.path("var/lib/kubelet")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32m"); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			w.t.Errorf("unmount %s: %v", dir, err)
		}
	})
	w.file("var/lib/kubelet/images/x", "")
	w.file("var/log/pods/x", "")
	fs := []*runtimeapi.FilesystemUsage{{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/var/lib/kubelet/images"}}}
	w.runtime.SetImageFs(&runtimeapi.ImageFsInfoResponse{ImageFilesystems: fs, ContainerFilesystems: fs})
}

// pod runs a pod whose end ends the pressure. One of priority -1 has no manifest.
func (w *world) pod(name, qos string, usage int64, priority int, resources string) {
	w.t.Helper()
	uid := "uid-" + name
	w.node.AddPod(qos, uid, usage)
	w.file(filepath.Join("sys/fs/cgroup/pids/kubepods", qos, "pod"+uid, "pids.current"), "10\n")
	added := w.runtime.Add(fakecri.Pod{UID: uid, Namespace: "default", Name: name, Containers: []fakecri.Container{{Name: "main", Image: "none", OnTerm: w.relief}}})
	w.node.AddContainers(qos, uid, added.ContainerIDs)
	w.process(filepath.Join("sys/fs/cgroup/memory/kubepods", qos, "pod"+uid, added.ContainerIDs[0]))
	if priority < 0 {
		return
	}
	manifest := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: default, uid: %s}
spec:
  priority: %d
  volumes: [{name: scratch, emptyDir: %s}]
  containers:
  - name: main
    image: none
    resources: {%s}
`, name, uid, priority, w.volume, resources)
	if err := os.WriteFile(filepath.Join(w.manifests, name+".yaml"), []byte(manifest), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// process starts a process in a made-up cgroup. When it ends, so does the pressure.
func (w *world) process(cgroup string) {
	w.t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := child.Start(cmd); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // it is killed
	}()
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill() // evictd may have done so
		<-ended
	})
	w.processes[cgroup] = ended
	w.file(filepath.Join(cgroup, "cgroup.procs"), fmt.Sprintln(cmd.Process.Pid))
	w.file(filepath.Join(filepath.Dir(cgroup), "cgroup.procs"), "")
}

func (w *world) path(name string) string { return filepath.Join(w.node.Root, name) }

// file writes a file in place, for readers that have it open.
func (w *world) file(name, text string) {
	w.t.Helper()
	if f := w.held[name]; f != nil {
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	path := w.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		w.t.Fatal(err)
	}
}

// scratch is a file in a pod's volume.
func scratch(pod string) string {
	return "var/lib/kubelet/pods/uid-" + pod + "/volumes/kubernetes.io~empty-dir/scratch/x"
}

// pressure takes memory, the disk or the tasks under their thresholds.
func (w *world) pressure(of string) {
	w.t.Helper()
	switch of {
	case "memory":
		w.node.SetAvailable(gib / 4)
	case "disk":
		w.file(scratch(lowly), string(make([]byte, mib)))
		w.file(scratch(greedy), string(make([]byte, 20*mib)))
	case "pid":
		w.file("proc/loadavg", "0.00 0.00 0.00 1/32760 1000\n")
	}
}

// relief ends all pressure.
func (w *world) relief() {
	w.node.SetAvailable(12 * gib)
	w.file("proc/loadavg", "0.00 0.00 0.00 1/00100 1000\n")
	if f := w.held[scratch(greedy)]; f != nil {
		_ = f.Truncate(0) // a test that then sees pressure fails
		return
	}
	_ = os.Remove(w.path(scratch(greedy))) // there is none unless the disk was under pressure
}
