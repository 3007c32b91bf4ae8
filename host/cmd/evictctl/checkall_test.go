package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/doctor"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// Each line is held against the machine that the test runs on, read in another way.
func TestCheckAllSaysWhatThisNodeIs(t *testing.T) {
	n, runtime := newNode(t), fakecri.Start(t)
	runtime.SetCgroupDriver(runtimeapi.CgroupDriver_SYSTEMD)
	args := []string{"--all", "--eviction-hard", "memory.available<1Mi,imagefs.available<1%,nodefs.available<1%,acme.com/spare<1"}
	n = n.with("runtimeEndpoint", runtime.Endpoint())
	said := n.check(t, append(args, "--json")...)
	var d doctor.Diagnosis
	if err := json.Unmarshal([]byte(said.Out), &d); err != nil {
		t.Fatalf("%v: %+v", err, said)
	}
	node := map[string]string{}
	for _, f := range d.Node {
		node[f.Name] = f.Value
	}
	for name, want := range map[string]string{
		"kernel": "Linux " + read(t, "/proc/sys/kernel/osrelease"), "cgroups": "version " + cgroupVersion(t), "runtime": "fakecri",
		"cgroup driver": "systemd", "plugins": "memory",
	} {
		if !strings.HasPrefix(node[name], want) {
			t.Errorf("%s is %q, want %q", name, node[name], want)
		}
	}
	var total int64
	if _, err := fmt.Sscanf(read(t, "/proc/meminfo"), "MemTotal: %d kB", &total); err != nil {
		t.Fatal(err)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(n.dir, &fs); err != nil {
		t.Fatal(err)
	}
	capacity := map[string]int64{"memory.available": total << 10, "nodefs.available": int64(fs.Blocks) * fs.Bsize}
	by := map[string]string{
		"memory.available": "plugin memory", "allocatableMemory.available": "plugin memory", "imagefs.available": "none", "nodefs.available": "none", "acme.com/spare": "the plugin that brings it",
	}
	for _, s := range d.Signals {
		if s.By != by[string(s.Signal)] {
			t.Errorf("%s would be observed by %q, want %q", s.Signal, s.By, by[string(s.Signal)])
		}
		if want := capacity[string(s.Signal)]; want != 0 && (s.Capacity == nil || *s.Capacity != want) {
			t.Errorf("capacity of %s is %v, want %d", s.Signal, s.Capacity, want)
		}
		if strings.Contains(s.How, "memory events") != (s.By == "plugin memory" && cgroupVersion(t) == "1") {
			t.Errorf("%s is observed %q, cgroups are version %s", s.Signal, s.How, cgroupVersion(t))
		}
		delete(by, string(s.Signal))
	}
	if len(by) > 0 {
		t.Errorf("nothing is said of %v", by)
	}
	if len(d.Features) == 0 {
		t.Error("nothing is said of the kernel's features")
	}

	tables := n.check(t, args...)
	for _, f := range d.Node {
		if !strings.Contains(tables.Out, f.Value) {
			t.Errorf("the tables do not have %q:\n%s", f.Value, tables.Out)
		}
	}
}

func TestCheckAllSaysWhatIsMissing(t *testing.T) {
	n := newNode(t)
	testos.Remove(t, n.socket)
	said := n.check(t, "--all")
	if said.Code != command.ExitFailure || !strings.Contains(said.Errors, "is the runtime running?") || !strings.Contains(said.Out, "container runtime does not answer") {
		t.Errorf("without a runtime: %+v", said)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw := testos.ReadFile(t, filepath.Clean(file))
	return strings.TrimSpace(string(raw))
}

// cgroupVersion returns the version of the hierarchy with the memory controller, from the
// mounts.
func cgroupVersion(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(read(t, "/proc/self/mounts")) {
		if f := strings.Fields(line); f[2] == "cgroup" && strings.Contains(","+f[3]+",", ",memory,") {
			return "1"
		}
	}
	return "2"
}
