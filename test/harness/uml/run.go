package uml

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/child"
)

const (
	// packaged is Debian's kernel.
	packaged = "linux.uml"
	// passed is the last line that the guest prints when all its tests have passed.
	passed = "guest: all passed"
	// deadline limits the run of a guest, generously for a busy machine.
	deadline = 20 * time.Minute
)

// A Machine describes the guest, besides its kernel and the tests.
type Machine struct {
	// MemoryMiB is the guest's memory; 0 means 256.
	MemoryMiB int
	// Disks are images on this machine: /dev/ubda, /dev/ubdb and so on. The guest
	// writes to them.
	Disks []string
	// Files are put into the guest's root directory, by name.
	Files map[string][]byte
	// Root is the image of a system that starts the tests itself, prints the same words when
	// all have passed, and halts. It is /dev/ubda; changes to it are discarded. Such a machine
	// has no Files.
	Root string
	// Kernel is the path of the kernel, such as kernel.sh makes, "" for Debian's. Arguments are given to it besides its own.
	Kernel    string
	Arguments []string
	// Stock is a root that has Debian's own kernel: its path without the .ext4, beside which are .vmlinuz and .initrd. QEMU emulates
	// such a machine, with two CPUs; its disks are /dev/vda and so on, and it has no Root, Kernel and Files.
	Stock string
	// DiskBytesPerSecond and DiskRequestsPerSecond are the speed of all disks together, 0 for as fast as
	// can be. Debian's kernel ignores them.
	DiskBytesPerSecond, DiskRequestsPerSecond int
}

// Run runs the guest tests of the package in the current directory, fails unless all pass, and
// returns what the guest printed. Without EVICTD_TEST_ROOT=1 it skips.
func Run(t *testing.T, m Machine) string {
	t.Helper()
	Require(t)
	dir := t.TempDir()
	console := m.run(t, dir)
	t.Logf("console of the guest:\n%s", console)
	if !strings.Contains(console, passed) {
		t.Errorf("the guest did not print %q", passed)
	}
	return console
}

// Require skips without EVICTD_TEST_ROOT=1, and fails without User-Mode Linux.
func Require(t *testing.T) {
	t.Helper()
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs User-Mode Linux: run make test")
	}
	if _, err := exec.LookPath(packaged); err != nil {
		t.Fatalf("%s is missing: install the Debian package user-mode-linux", packaged)
	}
}

// Module reads a module of the guest's kernel, such as "fs/quota/quota_v2.ko".
func Module(t *testing.T, name string) []byte {
	t.Helper()
	release, err := exec.CommandContext(t.Context(), packaged, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", packaged, err)
	}
	content := testos.ReadFile(t, filepath.Join("/usr/lib/uml/modules", strings.TrimSpace(string(release)), "kernel", name))
	return content
}

// BuildTests makes a static build of the tests of the package in the current
// directory.
func BuildTests(t *testing.T, binary string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, out)
	}
}

// arguments returns the kernel's command line.
func (m Machine) arguments(t *testing.T, dir string) []string {
	t.Helper()
	args := []string{fmt.Sprintf("mem=%dM", cmp.Or(m.MemoryMiB, 256)), "con=null", "con0=null,fd:1", "con1=null", "uml_dir=" + dir, "quiet"}
	disks := m.Disks
	if m.Root == "" {
		args = append(args, "initrd="+m.makeInitramfs(t, dir), "rdinit=/init")
	} else {
		disks = append([]string{filepath.Join(dir, "written") + "," + m.Root}, disks...)
		args = append(args, "root=/dev/ubda", "rw", "init=/lib/systemd/systemd", "systemd.unified_cgroup_hierarchy=1", "cgroup_no_v1=all", "systemd.show_status=0")
	}
	for i, disk := range disks {
		args = append(args, fmt.Sprintf("ubd%d=%s", i, disk))
	}
	return args
}

// makeInitramfs packs the tests of the package in the current directory as the
// guest's only program.
func (m Machine) makeInitramfs(t *testing.T, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "guest.test")
	BuildTests(t, binary)
	content := testos.ReadFile(t, binary)
	entries := []entry{
		{name: "dev", mode: modeDir},
		{name: "dev/console", mode: modeCharDevice, major: 5, minor: 1},
		{name: "dev/null", mode: modeCharDevice, major: 1, minor: 3},
		{name: "proc", mode: modeDir},
		{name: "sys", mode: modeDir},
		{name: "tmp", mode: modeDir},
		{name: "init", mode: modeExecutable, content: content},
	}
	for i := range m.Disks { // 16 minors each, for partitions
		entries = append(entries, entry{name: fmt.Sprintf("dev/ubd%c", 'a'+i), mode: modeBlockDevice, major: 98, minor: 16 * i})
	}
	for name, content := range m.Files {
		entries = append(entries, entry{name: name, mode: modeFile, content: content})
	}
	initramfs := filepath.Join(dir, "initramfs.cpio")
	testos.WriteFile(t, initramfs, archive(entries...), 0o600)
	return initramfs
}

// emulation returns the command line of QEMU.
func (m Machine) emulation() []string {
	args := []string{
		"-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "Nehalem,+invtsc", "-smp", "2", "-m", fmt.Sprint(m.MemoryMiB),
		"-nodefaults", "-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot",
		"-kernel", m.Stock + ".vmlinuz", "-initrd", m.Stock + ".initrd", "-append",
		strings.Join(append([]string{"console=ttyS0 quiet tsc=reliable mitigations=off panic=-1 net.ifnames=0 systemd.show_status=0"}, m.Arguments...), " "),
	}
	for i, disk := range append([]string{m.Stock + ".ext4"}, m.Disks...) { // what is written is discarded
		args = append(args, "-device", fmt.Sprintf("virtio-blk-pci,drive=d%d", i), "-drive", fmt.Sprintf(
			"file=%s,format=raw,if=none,id=d%[2]d,snapshot=on,throttling.group=all,throttling.bps-total=%[3]d,throttling.iops-total=%[4]d",
			disk, i, m.DiskBytesPerSecond, m.DiskRequestsPerSecond))
	}
	return args
}

// run runs the machine until it halts and returns what it printed.
func (m Machine) run(t *testing.T, dir string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var console bytes.Buffer
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", m.emulation()...)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if m.Stock == "" {
		cmd = exec.CommandContext(ctx, cmp.Or(m.Kernel, packaged), append(m.arguments(t, dir), m.Arguments...)...)
		cmd.Env = append(os.Environ(), "TMPDIR="+memoryDir(dir), "LD_PRELOAD="+buildXstate(t, dir),
			fmt.Sprintf("DISK_BYTES_PER_S=%d", m.DiskBytesPerSecond), fmt.Sprintf("DISK_REQUESTS_PER_S=%d", m.DiskRequestsPerSecond))
	}
	cmd.Stdout, cmd.Stderr = &console, &console
	// User-Mode Linux is several processes, which are killed together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := child.Start(cmd); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if killErr := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
		t.Errorf("end the machine: %v", killErr)
	}
	if err != nil {
		// The exit status is not that of the guest's tests.
		t.Logf("the machine ended with %v", err)
	}
	return console.String()
}

// memoryDir returns the directory for the file with the guest's memory.
func memoryDir(otherwise string) string {
	if stat, err := os.Stat("/dev/shm"); err == nil && stat.IsDir() {
		return "/dev/shm"
	}
	return otherwise
}
