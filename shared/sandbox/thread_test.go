package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCapabilityThatTheHostLacks(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	_, own, err := heldCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	if own.Has(unix.CAP_SYS_RESOURCE) {
		own &^= 1 << unix.CAP_SYS_RESOURCE // Then there may be none that it lacks.
	}
	asked := ^own & (1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_KILL)
	err = Policy{Capabilities: asked | 1<<63, Asked: true}.Possible()
	if _, ok := errors.AsType[Impossible](err); !ok {
		t.Fatalf("%v, want that it is impossible", err)
	}
	if !strings.Contains(err.Error(), "capabilities: evictd does not have") {
		t.Error(err)
	}
}

// Who may be killed last is the host, not what it runs.
func TestPluginIsNotSparedWithTheHost(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	cmd := exec.Command("/bin/sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errors.Join(cmd.Process.Kill(), cmd.Wait()) }()
	file := fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid)
	for was, want := range map[string]string{"7": "7", "-500": "0"} {
		if err := os.WriteFile(file, []byte(was), 0); err != nil && was == "-500" {
			t.Logf("this root may not lower it: %v", err) // without CAP_SYS_RESOURCE
			continue
		}
		if err := unspare(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if now, _ := os.ReadFile(file); strings.TrimSpace(string(now)) != want {
			t.Errorf("it was %s and is %s, want %s", was, now, want)
		}
	}
}

// Who may not limit another user's process read it twice of its open files.
func TestALimitThatCannotBeSetIsReportedOnce(t *testing.T) {
	const nobodysPID = 1 << 30 // beyond the kernel's PID_MAX_LIMIT
	err := (&Sandbox{policy: Policy{Custom: true}}).limit(nobodysPID)
	want := "limit of core size: no such process\nlimit of open files: no such process\n" +
		"limit of OOM score: open /proc/1073741824/oom_score_adj: no such file or directory"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
