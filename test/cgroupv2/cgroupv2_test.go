package cgroupv2

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	kernel = "linux.uml"
	// passed is what the guest prints last when all its tests have passed.
	passed = "guest: all passed"
)

// TestMemoryPluginOnVersion2 runs the tests of guest_test.go in User-Mode Linux.
func TestMemoryPluginOnVersion2(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs User-Mode Linux: run make test")
	}
	uml, err := exec.LookPath(kernel)
	if err != nil {
		t.Fatalf("%s is missing: install the Debian package user-mode-linux", kernel)
	}
	dir := t.TempDir()
	console := runGuest(t, uml, dir, makeInitramfs(t, dir))
	t.Logf("console of the guest:\n%s", console)
	if !strings.Contains(console, passed) {
		t.Errorf("the guest did not print %q", passed)
	}
}

// makeInitramfs packs a static build of this package's tests as the guest's only
// program.
func makeInitramfs(t *testing.T, dir string) string {
	t.Helper()
	binary := filepath.Join(dir, "guest.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, out)
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	initramfs := filepath.Join(dir, "initramfs.cpio")
	if err := os.WriteFile(initramfs, archive(
		entry{name: "dev", mode: modeDir},
		entry{name: "dev/console", mode: modeCharDevice, major: 5, minor: 1},
		entry{name: "dev/null", mode: modeCharDevice, major: 1, minor: 3},
		entry{name: "proc", mode: modeDir},
		entry{name: "sys", mode: modeDir},
		entry{name: "tmp", mode: modeDir},
		entry{name: "init", mode: modeExecutable, content: content},
	), 0o600); err != nil {
		t.Fatal(err)
	}
	return initramfs
}

// runGuest runs User-Mode Linux until it halts and returns what it printed.
func runGuest(t *testing.T, uml, dir, initramfs string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var console bytes.Buffer
	cmd := exec.CommandContext(ctx, uml, "mem=256M", "initrd="+initramfs, "rdinit=/init",
		"con=null", "con0=null,fd:1", "con1=null", "uml_dir="+dir, "quiet")
	cmd.Env = append(os.Environ(), "TMPDIR="+memoryDir(dir))
	cmd.Stdout, cmd.Stderr = &console, &console
	// It is several processes; they end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if killErr := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
		t.Errorf("end User-Mode Linux: %v", killErr)
	}
	if err != nil {
		// Its exit status says nothing of the guest's tests.
		t.Logf("User-Mode Linux ended with %v", err)
	}
	return console.String()
}

// memoryDir is where User-Mode Linux keeps the guest's memory.
func memoryDir(otherwise string) string {
	if stat, err := os.Stat("/dev/shm"); err == nil && stat.IsDir() {
		return "/dev/shm"
	}
	return otherwise
}
