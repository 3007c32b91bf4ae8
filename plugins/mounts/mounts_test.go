package mounts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

const (
	scratch eviction.Signal = "evictd.io/scratch.available"
	inodes  eviction.Signal = "evictd.io/scratch.inodesFree"
)

// A machine is a made-up node with a real filesystem, a part of /dev/shm, on /mnt/nvme.
type machine struct {
	*testing.T

	root, disk string
	device     string // of the disk, as in mountinfo
	pids       int
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	disk, err := os.MkdirTemp("/dev/shm", "mounts-")
	if err != nil {
		t.Skipf("no second filesystem: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(disk) })
	m := &machine{T: t, root: t.TempDir(), disk: disk}
	var s unix.Stat_t
	if err := unix.Stat(disk, &s); err != nil {
		t.Fatal(err)
	}
	m.device = fmt.Sprintf("%d:%d", unix.Major(s.Dev), unix.Minor(s.Dev))
	at := filepath.Join(m.root, "mnt/nvme")
	testos.MkdirAll(t, at, 0o755)
	if err := unix.Mount(disk, at, "", unix.MS_BIND, ""); err != nil {
		t.Skipf("SKIPPED, NOTHING TESTED: mount needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	m.file("proc/self/status", "NSpid:\t1\n")
	m.file("sys/fs/cgroup/cgroup.controllers", "memory pids\n")
	m.file("proc/1/mountinfo", "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n"+m.mount(2, 1, "", "/mnt/nvme", "rw"))
	return m
}

func (m *machine) file(name, content string) {
	m.Helper()
	testos.MkdirAll(m.T, filepath.Dir(filepath.Join(m.root, name)), 0o755)
	testos.WriteFile(m.T, filepath.Join(m.root, name), content, 0o600)
}

// mount is a line about a directory of the disk.
func (m *machine) mount(id, parent int, dir, point, options string) string {
	shm, _ := filepath.Rel("/dev/shm", m.disk)
	return fmt.Sprintf("%d %d %s /%s %s %s - tmpfs shm rw\n", id, parent, m.device, filepath.Join(shm, dir), point, options)
}

// process starts a process of a pod with mounts in it. Each line is like that of mount, below its root.
func (m *machine) process(uid string, lines ...string) {
	m.Helper()
	m.pids++
	pid := 100 + m.pids
	procs := "sys/fs/cgroup/kubepods/besteffort/pod" + uid + "/main/cgroup.procs"
	former, _ := os.ReadFile(filepath.Join(m.root, procs))
	m.file(procs, string(former)+fmt.Sprintln(pid))
	m.file("sys/fs/cgroup/kubepods/besteffort/pod"+uid+"/cgroup.procs", "")
	m.file(fmt.Sprintf("proc/%d/mountinfo", pid), "10 9 0:99 / / rw - overlay overlay rw\n"+strings.Join(lines, ""))
	testos.MkdirAll(m.T, filepath.Join(m.root, fmt.Sprintf("proc/%d/ns", pid)), 0o755)
	if err := os.Symlink(fmt.Sprintf("mnt:[%d]", pid), filepath.Join(m.root, fmt.Sprintf("proc/%d/ns/mnt", pid))); err != nil {
		m.Fatal(err)
	}
}

// write writes files of 4 KiB into a directory of the disk.
func (m *machine) write(dir string, files int) {
	m.Helper()
	testos.MkdirAll(m.T, filepath.Join(m.disk, dir), 0o755)
	for i := range files {
		testos.WriteFile(m.T, filepath.Join(m.disk, dir, fmt.Sprint(i)), strings.Repeat("x", 4096), 0o600)
	}
}

func (m *machine) plugin(at string) sdk.Plugin {
	m.Helper()
	p := New()
	facts := eviction.NodeFacts{RootDir: m.root, CgroupRoot: "/", CgroupDriver: "cgroupfs", KubeletRootDir: "/kubelet"}
	if err := p.Configurer.Configure(m.Context(), eviction.ConfigureRequest{Node: facts, Config: []byte(`{"paths": {"scratch": "` + at + `"}}`)}); err != nil {
		m.Fatal(err)
	}
	return p
}

// named returns the pods that the ranking of a signal names, with their use in files of 4 KiB or inodes.
func (m *machine) named(p sdk.Plugin, s eviction.Signal, uids ...string) (order []string, measured map[string]eviction.Measurement) {
	m.Helper()
	ctx, cancel := context.WithTimeout(m.Context(), 5*time.Second)
	defer cancel()
	var pods []eviction.Pod
	for _, uid := range uids {
		pods = append(pods, eviction.Pod{UID: uid, QoSClass: eviction.BestEffort})
	}
	measured = map[string]eviction.Measurement{}
	req := eviction.RankRequest{Signal: s, Unit: eviction.UnitBytes, Hard: true}
	if err := p.Measurer.Measure(ctx, eviction.MeasureRequest{Signals: []eviction.Signal{s}, Pods: pods}, func(of eviction.Measurement) {
		measured[of.UID] = of
	}); err != nil {
		m.Fatal(err)
	}
	for _, pod := range pods {
		req.Candidates = append(req.Candidates, eviction.Candidate{Pod: pod, Measurement: measured[pod.UID]})
	}
	ranked, err := p.Ranker.Rank(ctx, req)
	if err != nil {
		m.Fatal(err)
	}
	for _, r := range ranked {
		of := measured[r.UID]
		use := of.UsageFor(s)
		if s == scratch {
			use /= 4096
		}
		order = append(order, fmt.Sprintf("%s %d", r.UID, use))
	}
	return order, measured
}

// Only pods that have files on the disk are named, however they came to have them.
func TestOnlyPodsWithFilesThereAreNamed(t *testing.T) {
	m := newMachine(t)
	m.write("little", 2)
	m.write("much", 8)
	m.write("much/deep", 1)
	m.write("claim", 4)
	m.write("shared", 16)
	m.write("single", 1)
	m.process("little", m.mount(11, 10, "little", "/data", "rw"))
	m.process("much", m.mount(11, 10, "much", "/data", "rw"), m.mount(12, 10, "much/deep", "/deep", "rw"))
	m.process("much", m.mount(11, 10, "much", "/elsewhere", "rw")) // a second container
	m.process("none")
	m.process("reads", m.mount(11, 10, "shared", "/data", "ro,relatime"))
	m.process("file", m.mount(11, 10, "single/0", "/one", "rw"))
	// The node's root directory, below which the disk comes along; and the disk itself, which the pod asked for.
	m.process("inherits", "11 10 8:1 / /host rw - ext4 /dev/sda1 rw\n", m.mount(12, 11, "", "/host/mnt/nvme", "rw"))
	m.process("part", "11 10 8:1 /mnt /there rw - ext4 /dev/sda1 rw\n", m.mount(12, 11, "", "/there/nvme", "rw"))
	m.file("proc/1/mountinfo", string(testos.ReadFile(t, filepath.Join(m.root, "proc/1/mountinfo")))+
		m.mount(3, 1, "claim", "/kubelet/pods/ended/volumes/kubernetes.io~local-volume/claim", "rw"))
	p := m.plugin("/mnt/nvme")
	all := []string{"none", "little", "inherits", "part", "much", "reads", "file", "ended", "gone"}
	if got, _ := m.named(p, scratch, all...); fmt.Sprint(got) != "[much 9 ended 4 little 2 file 1]" {
		t.Errorf("named %q", got)
	}
	if got, _ := m.named(p, inodes, all...); fmt.Sprint(got) != "[much 11 ended 5 little 3 file 1]" {
		t.Errorf("named by inodes %q", got)
	}
}

// A pod that asked for the whole disk has all of it.
func TestAPodMayHaveTheWholeDisk(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("mounts a filesystem: run make test")
	}
	m := newMachine(t)
	at := filepath.Join(m.root, "mnt/disk")
	testos.MkdirAll(t, at, 0o755)
	if err := unix.Mount("evictd-test", at, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	var s unix.Stat_t
	if err := unix.Stat(at, &s); err != nil {
		t.Fatal(err)
	}
	line := func(id, parent int, dir, point string) string {
		return fmt.Sprintf("%d %d %d:%d %s %s rw - tmpfs x rw\n", id, parent, unix.Major(s.Dev), unix.Minor(s.Dev), dir, point)
	}
	m.file("proc/1/mountinfo", "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n"+line(2, 1, "/", "/mnt/disk"))
	testos.MkdirAll(t, filepath.Join(at, "part"), 0o755)
	testos.WriteFile(t, filepath.Join(at, "part/file"), strings.Repeat("x", 8192), 0o600)
	testos.WriteFile(t, filepath.Join(at, "file"), strings.Repeat("x", 4096), 0o600)
	m.process("whole", line(11, 10, "/", "/disk"))
	m.process("part", line(11, 10, "/part", "/part"))
	m.process("inherits", "11 10 8:1 / /host rw - ext4 /dev/sda1 rw\n", line(12, 11, "/", "/host/mnt/disk"))
	if got, _ := m.named(m.plugin("/mnt/disk"), scratch, "inherits", "part", "whole"); fmt.Sprint(got) != "[whole 3 part 2]" {
		t.Errorf("named %q", got)
	}
}

// What cannot be known of a pod is unknown, and names no pod.
func TestUnknownIsNotNone(t *testing.T) {
	m := newMachine(t)
	m.write("a", 2)
	m.process("a", m.mount(11, 10, "a", "/data", "rw"))
	got, measured := m.named(m.plugin("/mnt/nvme"), scratch, "a", "../a")
	if fmt.Sprint(got) != "[a 2]" {
		t.Errorf("named %q", got)
	}
	if of := measured["../a"]; of.State != eviction.MeasurementUnknown || !strings.Contains(of.Err, "pod uid") {
		t.Errorf("%+v, want unknown because of its uid", of)
	}
}

// A pod with 65 directories or mount namespaces, or a megabyte of mounts, was unknown, so that others went.
func TestAPodWithManyMountsIsNotImmune(t *testing.T) {
	m := newMachine(t)
	m.write("a", 2)
	m.process("a", m.mount(11, 10, "a", "/data", "rw"))
	var dirs []string
	for i := range mostDirs + 1 {
		dir := fmt.Sprintf("d%03d", i)
		m.write(dir, 1)
		dirs = append(dirs, m.mount(20+i, 10, dir, "/"+dir, "rw"))
		m.process("spaces", m.mount(11, 10, dir, "/data", "rw"))
	}
	m.process("dirs", dirs...)
	m.process("exact", dirs[:mostDirs]...)
	m.process("bytes", dirs[0]+strings.Repeat("11 10 0:77 / /x rw - tmpfs x rw\n", 40_000))
	got, measured := m.named(m.plugin("/mnt/nvme"), scratch, "a", "dirs", "spaces", "bytes", "exact")
	if fmt.Sprint(got) != "[dirs 64 spaces 64 exact 64 a 2 bytes 1]" {
		t.Errorf("named %q", got)
	}
	for uid, lower := range map[string]bool{"a": false, "dirs": true, "spaces": true, "bytes": true, "exact": false} {
		if of := measured[uid]; of.State != eviction.Measured || (of.Usage[0].AtMost >= 1<<20) != lower || !lower && of.Usage[0].AtMost != 0 {
			t.Errorf("%s: %+v, want a lower bound: %v", uid, of, lower)
		}
	}
}

// A pod that was not counted to the end has at least what was seen, and at most the whole disk.
func TestATreeThatIsTooLargeIsALowerBound(t *testing.T) {
	m := newMachine(t)
	m.write("a", 3)
	m.process("a", m.mount(11, 10, "a", "/data", "rw"))
	p := m.plugin("/mnt/nvme")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.Measurer.Measure(ctx, eviction.MeasureRequest{Signals: []eviction.Signal{scratch}, Pods: []eviction.Pod{{UID: "a"}}}, func(of eviction.Measurement) {
		if of.State != eviction.Measured || of.Usage[0].AtMost < 1<<20 {
			t.Errorf("%+v, want a lower bound", of)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// In a pid namespace of its own the plugin took all pods for ones without files.
func TestItMustSeeTheProcessesOfPods(t *testing.T) {
	m := newMachine(t)
	m.file("proc/self/status", "NSpid:\t4711\t1\n")
	facts := eviction.NodeFacts{RootDir: m.root, CgroupRoot: "/", CgroupDriver: "cgroupfs"}
	err := New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: facts, Config: []byte(`{"paths": {"scratch": "/mnt/nvme"}}`)})
	if err == nil || !strings.Contains(err.Error(), "hostPID: true") {
		t.Errorf("error %v, want that it lacks the node's pid namespace", err)
	}
}

func TestWhereNothingIsMountedNothingIsKnown(t *testing.T) {
	m := newMachine(t)
	testos.MkdirAll(t, filepath.Join(m.root, "mnt/other"), 0o755)
	for at, want := range map[string]string{"/mnt/nvme": "", "/mnt/other": "nothing is mounted on /mnt/other", "/mnt/gone": "no such file"} {
		reply, err := m.plugin(at).Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: []eviction.Signal{scratch, inodes, "evictd.io/former.available"}})
		if err != nil || len(reply.Observations) != 2 {
			t.Fatalf("%s: %+v, %v", at, reply, err)
		}
		for i, o := range reply.Observations {
			if known := o.State == eviction.Observed; known != (want == "") || !strings.Contains(o.Err, want) || known && (o.Capacity <= 0 || o.Available > o.Capacity) || o.Signal != []eviction.Signal{scratch, inodes}[i] {
				t.Errorf("%s: %+v, want %q", at, o, want)
			}
		}
	}
}

func TestConfigurationsThatCannotBe(t *testing.T) {
	for text, want := range map[string][]string{
		``:                         {"paths: 0 mounts, want 1 to 16"},
		`{"paths": {"s": "/mnt"}}`: {`name "s", want 2 to 32`},
		`{"paths": {"Scratch": "mnt", "x/y": "/"}}`: {`name "Scratch"`, `paths.Scratch: "mnt", want a mount point`, `name "x/y"`, `paths.x/y: "/"`},
		`{"paths": {"scratch": "/mnt/../etc"}}`:     {`"/mnt/../etc", want a mount point`},
		`{"path": {}}`:                              {`unknown field "path"`},
	} {
		_, err := signalsFor([]byte(text))
		for _, part := range want {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", text, err, part)
			}
		}
	}
	specs, err := signalsFor([]byte(`{"paths": {"scratch": "/mnt/nvme", "logs": "/var/log"}}`))
	if err != nil || len(specs) != 4 || specs[0].Signal != "evictd.io/logs.available" || specs[3].Definition.Condition != "evictd.io/ScratchPressure" || specs[3].Definition.Candidates != eviction.RankedPods {
		t.Errorf("%+v, %v", specs, err)
	}
	p := New()
	p.Signals = specs
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
}

// The plugin keeps the contract, on this machine.
func TestThePluginKeepsTheContract(t *testing.T) {
	if _, err := os.Stat("/dev/shm"); err != nil {
		t.Skip(err)
	}
	sdktest.Run(t, New(), sdktest.Config(map[string]any{"paths": map[string]string{"shm": "/dev/shm"}}))
}
