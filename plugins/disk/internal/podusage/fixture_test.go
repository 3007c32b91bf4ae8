package podusage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// A node is a directory tree that looks like a node's, and a runtime in memory.
type node struct {
	t       testing.TB
	root    string
	runtime *fakecri.Server
	layout  eviction.Layout
	used    int64 // of each filesystem
	meter   *Meter
	mounts  string // of the node's first process
}

func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{t: t, root: t.TempDir(), runtime: fakecri.New(), layout: eviction.LayoutShared}
	n.start(Walk{})
	return n
}

// start begins anew with a meter.
func (n *node) start(w Walk) {
	n.meter = New(Options{
		Node: eviction.NodeFacts{
			RootDir: n.root, CgroupRoot: "/", CgroupDriver: "cgroupfs", KubeletRootDir: "/kubelet", PodLogsDir: "/logs",
		},
		Runtime: n.runtime.Client(), Contents: n.contents, Walk: w,
	})
	n.t.Cleanup(n.meter.Close)
}

// contents are those of the layout.
func (n *node) contents(s eviction.Signal) (filesystem.Contents, bool) {
	b, _ := eviction.Builtin(s)
	return filesystem.Contents{Signal: s, Unit: b.Unit, Parts: figures.PartsOf(s, n.layout), Used: n.used}, n.layout != 0
}

// add runs a pod with the given volumes and makes their directories.
func (n *node) add(uid string, volumes []eviction.Volume, containers ...fakecri.Container) eviction.Pod {
	n.t.Helper()
	row := eviction.Pod{UID: uid, Namespace: "ns", Name: "pod-" + uid, QoSClass: eviction.Burstable, Volumes: volumes}
	n.runtime.Add(fakecri.Pod{UID: uid, Namespace: row.Namespace, Name: row.Name, Containers: containers})
	for i := range volumes {
		if dir := n.meter.places.volume(&row, &volumes[i]); dir != "" {
			n.mkdir(dir)
		}
	}
	for _, c := range containers {
		n.mkdir(n.meter.places.logs(&row) + "/" + c.Name)
	}
	return row
}

func (n *node) path(name string) string { return filepath.Join(n.root, name) }

func (n *node) mkdir(name string) {
	n.t.Helper()
	if err := os.MkdirAll(n.path(name), 0o755); err != nil {
		n.t.Fatal(err)
	}
}

// write makes a file of so many bytes and returns its name.
func (n *node) write(name string, bytes int) string {
	n.t.Helper()
	n.mkdir(filepath.Dir(name))
	if err := os.WriteFile(n.path(name), make([]byte, bytes), 0o600); err != nil {
		n.t.Fatal(err)
	}
	return name
}

// text makes a file with a content.
func (n *node) text(name, content string) {
	n.t.Helper()
	n.mkdir(filepath.Dir(name))
	if err := os.WriteFile(n.path(name), []byte(content), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// fill makes so many empty files in a directory, ten thousand in each one below.
func (n *node) fill(dir string, count int) {
	n.t.Helper()
	for i := range count {
		if i%10_000 == 0 {
			n.mkdir(fmt.Sprintf("%s/%d", dir, i/10_000))
		}
		f, err := os.Create(n.path(fmt.Sprintf("%s/%d/%d", dir, i/10_000, i)))
		if err != nil {
			n.t.Fatal(err)
		}
		f.Close()
	}
}

// du returns the usage that du counts for names together.
func (n *node) du(names ...string) walk.Usage {
	n.t.Helper()
	var total walk.Usage
	for _, name := range names {
		total.Bytes += n.duOf(name, "-B1")
		total.Inodes += n.duOf(name, "--inodes")
	}
	return total
}

func (n *node) duOf(name, unit string) int64 {
	n.t.Helper()
	out, err := exec.Command("du", "-s", unit, n.path(name)).Output()
	if err != nil {
		n.t.Fatalf("du %s: %v", name, err)
	}
	amount, err := strconv.ParseInt(strings.Fields(string(out))[0], 10, 64)
	if err != nil {
		n.t.Fatal(err)
	}
	return amount
}

var pass struct {
	sync.Mutex
	last uint64
}

// request asks for pods in a pass of its own.
func request(detail eviction.Detail, s eviction.Signal, pods ...eviction.Pod) eviction.MeasureRequest {
	pass.Lock()
	defer pass.Unlock()
	pass.last++
	return eviction.MeasureRequest{PassView: eviction.PassView{Pass: pass.last, View: eviction.ViewBefore}, Detail: detail, Signals: []eviction.Signal{s}, Pods: pods}
}

// measure returns the answers, by uid.
func (n *node) measure(ctx context.Context, req eviction.MeasureRequest) (map[string]eviction.Measurement, error) {
	var mu sync.Mutex
	got := make(map[string]eviction.Measurement)
	err := n.meter.Measure(ctx, req, func(m eviction.Measurement) {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := got[m.UID]; twice {
			n.t.Errorf("pod %s was answered twice", m.UID)
		}
		got[m.UID] = m
	})
	return got, err
}

// one measures one pod, which must work.
func (n *node) one(detail eviction.Detail, s eviction.Signal, row eviction.Pod) eviction.Measurement {
	n.t.Helper()
	got, err := n.measure(n.t.Context(), request(detail, s, row))
	if err != nil || len(got) != 1 {
		n.t.Fatalf("measure %s: %+v, %v", row.UID, got, err)
	}
	return got[row.UID]
}

// emptyDir is a volume that counts.
func emptyDir(name string) eviction.Volume {
	return eviction.Volume{Name: name, Kind: "emptyDir", CountsForRanking: true}
}

// hold has a process of the made-up node open a file, and deletes that.
func (n *node) hold(pid int, name string, bytes int) (used walk.Usage) {
	n.t.Helper()
	n.write(name, bytes)
	f, err := os.Open(n.path(name))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { f.Close() })
	used = n.du(name)
	n.mkdir(fmt.Sprintf("/proc/%d/fd", pid))
	err = errors.Join(os.Remove(n.path(name)),
		os.Symlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), n.path(fmt.Sprintf("/proc/%d/fd/%d", pid, f.Fd()))))
	if err != nil {
		n.t.Fatal(err)
	}
	return used
}
