package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/test/fakes/fakecri"
)

// failRuntime makes calls of the container runtime fail.
func failRuntime(w *inputWorld) {
	for _, m := range w.cell.input.methods {
		w.runtime.Inject(m, w.runtimeFault(m))
	}
}

func (w *inputWorld) runtimeFault(m fakecri.Method) fakecri.Fault {
	lost := func(pods ...string) fakecri.Fault { return fakecri.Fault{Change: fakecri.EachList(without(pods))} }
	switch w.cell.fault {
	case slow6:
		return fakecri.Fault{Delay: 6 * time.Second}
	case slow20:
		return fakecri.Fault{Delay: 20 * time.Second}
	case hangs, fromStart:
		return fakecri.Fault{Hang: true}
	case errs:
		return fakecri.Fault{Err: status.Error(codes.Unavailable, "the runtime is not well")}
	case tooLarge: // of one pod it is not
		return fakecri.Fault{Whole: m != fakecri.ContainerStatus, Err: status.Error(codes.ResourceExhausted, "grpc: trying to send message larger than max")}
	case oneItem:
		if m == fakecri.ContainerStatus {
			return fakecri.Fault{ID: w.containers[late], Err: status.Error(codes.Unknown, "this one cannot be read")}
		}
		return lost(w.cell.victim) // a list leaves out what cannot be read
	case half:
		return lost(w.cell.victim, shield)
	case empty:
		return fakecri.Fault{Change: fakecri.EachList(func([]proto.Message) []proto.Message { return nil })}
	case twice:
		return fakecri.Fault{Change: fakecri.EachList(func(items []proto.Message) []proto.Message { return append(items, items...) })}
	default: // out of date
		return fakecri.Fault{Change: fakecri.EachList(w.before)}
	}
}

// without returns a list without the items of some pods, or of images every other one.
func without(pods []string) func([]proto.Message) []proto.Message {
	return func(items []proto.Message) (kept []proto.Message) {
		for i, item := range items {
			_, image := item.(*runtimeapi.Image)
			lost := image && i%2 == 0
			for _, pod := range pods {
				lost = lost || podOf(item) == pod
			}
			if !lost {
				kept = append(kept, item)
			}
		}
		return kept
	}
}

// podOf returns the pod of an item, "" if there is none.
func podOf(item proto.Message) string {
	labels := map[string]string{}
	switch i := item.(type) {
	case *runtimeapi.ContainerStats:
		labels = i.GetAttributes().GetLabels()
	case interface{ GetLabels() map[string]string }:
		labels = i.GetLabels()
	}
	return strings.TrimPrefix(labels["io.kubernetes.pod.uid"], "uid-")
}

// before returns a list as it was before the victim came, when another pod had not ended.
func (w *inputWorld) before(items []proto.Message) []proto.Message {
	items = without([]string{w.cell.victim})(items)
	if len(items) < 2 { // the answer to a question about one pod
		return items
	}
	if ended := w.ended[items[0].ProtoReflect().Descriptor().FullName()]; ended != nil {
		items = append(items, proto.Clone(ended))
	}
	return items
}

// failDirectory makes all below dir slow, hang or fail: a filesystem in user space whose server
// does not answer, or has died.
func (w *inputWorld) failDirectory(dir string) {
	w.t.Helper()
	server, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := unix.Mount("broken", dir, "fuse", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", server.Fd())); err != nil {
		w.t.Fatal(err)
	}
	heal := func() {
		_ = server.Close() // ends calls that wait
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	}
	switch w.cell.fault {
	case errs, oneItem, half:
		_ = server.Close()
		w.t.Cleanup(heal)
	case slow6, slow20:
		after := map[string]time.Duration{slow6: 6 * time.Second, slow20: 20 * time.Second}[w.cell.fault]
		timer := time.AfterFunc(after, heal)
		w.t.Cleanup(func() {
			if timer.Stop() {
				heal()
			}
		})
	default:
		w.t.Cleanup(heal)
	}
}

// spoiled are the pods whose items fail.
func (w *inputWorld) spoiled() []string {
	switch w.cell.fault {
	case oneItem:
		return []string{w.cell.victim}
	case half:
		return []string{w.cell.victim, shield}
	default:
		return []string{greedy, lowly, shield, stranger}
	}
}

// failCgroups makes the figures of the pods' cgroups unreadable. evictd may have the files open.
func failCgroups(w *inputWorld) {
	text := "none\n" + strings.Repeat(" ", 40)
	switch w.cell.fault {
	case slow6, slow20, hangs:
		w.failDirectory(w.path("sys/fs/cgroup/memory/kubepods")) // a node without memory takes long to read these
		return
	case empty:
		text = ""
	}
	for _, pod := range w.spoiled() {
		for _, file := range []string{"memory/%s/memory.usage_in_bytes", "memory/%s/cgroup.procs", "pids/%s/pids.current"} {
			name := "sys/fs/cgroup/" + fmt.Sprintf(file, filepath.Join("kubepods", qosOf(pod), "poduid-"+pod))
			w.file(name, text)
			if err := os.Truncate(w.path(name), int64(len(text))); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// failManifests spoils the files of podManifestDir.
func failManifests(w *inputWorld) {
	file := func(pod string) string { return filepath.Join(w.manifests, pod+".yaml") }
	change := func(pod string, f func(text string) string) {
		text, err := os.ReadFile(file(pod))
		if err == nil {
			err = os.WriteFile(file(pod), []byte(f(string(text))), 0o644)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	switch w.cell.fault {
	case oneItem:
		change(w.cell.victim, func(string) string { return "kind: Po" })
	case twice:
		text, _ := os.ReadFile(file(w.cell.victim)) // an empty file fails as well
		if err := os.WriteFile(file("again"), text, 0o644); err != nil {
			w.t.Fatal(err)
		}
	case tooLarge:
		change(w.cell.victim, func(text string) string {
			return strings.Replace(text, "metadata: {", "metadata: {annotations: {a: "+strings.Repeat("x", 32<<20)+"}, ", 1)
		})
	case half, empty:
		for _, pod := range w.spoiled() {
			_ = os.Remove(file(pod)) // one pod has none
		}
	default:
		w.failDirectory(w.manifests)
	}
}

// failFiles makes the kubelet's directories of pods and logs fail. The pods go on writing.
func failFiles(w *inputWorld) {
	w.held = map[string]*os.File{}
	for _, pod := range []string{greedy, lowly, shield} {
		name := scratch(pod)
		w.file(name, "")
		f, err := os.OpenFile(w.path(name), os.O_RDWR, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = f.Close() }) // else the filesystem stays
		w.held[name] = f
	}
	dir := w.path("var/lib/kubelet/pods")
	switch w.cell.fault {
	case oneItem, half:
		for _, pod := range w.spoiled() {
			w.failDirectory(filepath.Join(dir, "uid-"+pod))
		}
	case empty:
		if err := os.Rename(dir, w.path("var/lib/kubelet/away")); err != nil {
			w.t.Fatal(err)
		}
	default:
		w.failDirectory(dir)
		w.failDirectory(w.path("var/log/pods"))
	}
}
