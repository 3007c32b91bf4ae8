package evictd

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/testos"
)

// stand is a program that takes evictd's command line, says that it is ready and
// leaves on SIGTERM with an exit status.
const stand = `#!/bin/sh
[ "$1 $2" = "run --config" ] && grep -q 'nodeName: test' "$3" || { echo "bad start: $*" >&2; exit 9; }
trap 'exit %d' TERM
echo '{"msg":"evictd ready","metrics":"127.0.0.1:1"}' >&2
while :; do sleep 0.01 2>&-; done
`

func startStand(t *testing.T, exit int) *Process {
	t.Helper()
	dir := t.TempDir()
	config, err := Configure(dir, map[string]any{"pluginDir": dir})
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "evictd")
	testos.WriteFile(t, script, fmt.Appendf(nil, stand, exit), 0o600)
	p, err := Start(Options{Binary: script, ConfigFile: config, Command: func(name string, args ...string) *exec.Cmd {
		return exec.Command("/bin/sh", append([]string{name}, args...)...)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAProcessFromStartToStop(t *testing.T) {
	p := startStand(t, 0)
	testos.MkdirAll(t, p.RunDir, 0o700)
	l, err := net.Listen("unix", filepath.Join(p.RunDir, "evictd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	pages := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, `{"path": %q}`, r.URL.Path) })}}
	pages.Start()
	defer pages.Close()
	if status, err := p.Status(t.Context()); err != nil || status["path"] != "/status" {
		t.Errorf("status = %v, %v", status, err)
	}
	if ready := p.Records(readyMessage)[0]; ready.At <= p.StartedAt {
		t.Errorf("ready at %d, started at %d", ready.At, p.StartedAt)
	}
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
	if code, err := p.Exit(t.Context()); code != 0 || err != nil {
		t.Errorf("exit status %d, %v; want 0", code, err)
	}
}

// ownerEnv makes this test binary start an evictd and wait to be killed.
const ownerEnv = "EVICTD_TEST_OWNER"

func TestATestThatIsKilledLeavesNoEvictd(t *testing.T) {
	if os.Getenv(ownerEnv) != "" {
		fmt.Println(startStand(t, 0).PID())
		select {}
	}
	owner := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$")
	owner.Env = append(os.Environ(), ownerEnv+"=1", "TMPDIR="+t.TempDir())
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	evictd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = owner.Process.Kill()
	_ = owner.Wait() // "signal: killed"
	ended := []unix.PollFd{{Fd: int32(evictd), Events: unix.POLLIN}}
	if n, err := unix.Poll(ended, 10_000); n != 1 {
		t.Errorf("evictd %d lives on 10 s after its test was killed: %v", pid, err)
	}
}

func TestAnEndThatIsNotInOrderIsAnError(t *testing.T) {
	p := startStand(t, 3)
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), readyMessage) {
		t.Errorf("Stop = %v, want the exit status and the log's end", err)
	}
	p = startStand(t, 0)
	p.Kill()
	if code, err := p.Exit(t.Context()); code != -1 || err != nil {
		t.Errorf("exit status of a killed process: %d, %v; want -1", code, err)
	}
	if _, err := p.Await(t.Context(), func(Record) bool { return false }); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Await = %v, want what ended evictd", err)
	}
}

func TestChildrenAreFoundByProgram(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	// Between fork and exec it still is this program.
	for began := time.Now(); ; {
		found, err := Children(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range found {
			if pid == cmd.Process.Pid && len(found) == 1 {
				return
			}
		}
		if time.Since(began) > 5*time.Second {
			t.Fatalf("children = %v, want sleep with pid %d", found, cmd.Process.Pid)
		}
	}
}
