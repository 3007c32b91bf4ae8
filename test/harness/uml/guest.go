package uml

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// inGuest is set in the environment of tests that run inside the guest.
const inGuest = "EVICTD_TEST_GUEST"

// A Mount is a filesystem to mount for the guest's tests.
type Mount struct {
	Source, Target, Type, Options string
}

// Main runs the guest's tests if this process is the init of a guest, and does not return then:
// it mounts /proc, /sys, /tmp and the given mounts in their order, runs the tests and halts the
// machine. Otherwise it does nothing.
func Main(mounts ...Mount) {
	if os.Getpid() != 1 || os.Args[0] != "/init" {
		return
	}
	own := []Mount{{"proc", "/proc", "proc", ""}, {"sysfs", "/sys", "sysfs", ""}, {"tmpfs", "/tmp", "tmpfs", ""}}
	for _, m := range append(own, mounts...) {
		if err := m.mount(); err != nil {
			fmt.Println("guest:", err)
		}
	}
	tests := exec.Command("/proc/self/exe", "-test.v", "-test.timeout=3m", "-test.run=^TestGuest")
	tests.Env = []string{"PATH=/", inGuest + "=1", "TMPDIR=/tmp"}
	tests.Stdout, tests.Stderr = os.Stdout, os.Stdout
	if err := tests.Run(); err != nil {
		fmt.Println("guest:", err)
	} else {
		fmt.Println(passed)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // an error cannot be reported any more
}

func (m Mount) mount() error {
	if err := os.MkdirAll(m.Target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.Source, m.Target, m.Type, 0, m.Options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.Source, m.Target, err)
	}
	return nil
}

// In skips a test that is not inside the guest.
func In(t *testing.T) {
	t.Helper()
	if os.Getenv(inGuest) != "1" {
		t.Skip("runs inside User-Mode Linux")
	}
}
