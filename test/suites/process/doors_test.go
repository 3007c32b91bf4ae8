package process

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
)

// Status, rankings and logs of plugins were readable for every program of the node. Each address has
// one page; all of them are on the socket of root.
func TestEachDoorHasItsPages(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory")
	w.config["healthzBindAddress"], w.config["metricsBindAddress"] = "127.0.0.1:0", "127.0.0.1:0"
	d := w.startReady()
	for _, page := range []string{"/healthz", "/metrics", "/status", "/ranking?signal=memory.available", "/", "/debug/pprof/", "/healthz/../status"} {
		name := strings.TrimPrefix(page, "/")
		for _, door := range []string{"healthz", "metrics"} {
			answer, err := http.Get("http://" + d.Address(door) + page)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			if _ = answer.Body.Close(); (answer.StatusCode != http.StatusNotFound) != (name == door) {
				t.Errorf("%s of %s: %d", page, door, answer.StatusCode)
			}
		}
		if code, _ := d.Get(page); (code != http.StatusNotFound) != (name == "healthz" || name == "metrics" || name == "status" || strings.HasPrefix(name, "ranking?") || strings.HasPrefix(name, "healthz/..")) {
			t.Errorf("%s on the socket: %d", page, code)
		}
	}
	socket := filepath.Join(d.RunDir, "evictd.sock")
	for path, want := range map[string]os.FileMode{socket: 0o600 | os.ModeSocket, d.RunDir: 0o711 | os.ModeDir} {
		if info, err := os.Stat(path); err != nil || info.Mode()&^0o011 != want&^0o011 {
			t.Errorf("%s has mode %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}

// A cleaner removed the socket of the commands: they failed for ever, while evictd went on.
func TestASocketThatACleanerRemovesIsMadeAgain(t *testing.T) {
	w := emptyWorld(t)
	w.plugins("memory")
	d := w.startReady()
	socket := filepath.Join(d.RunDir, "evictd.sock")
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for _, err := os.Stat(socket); err != nil; _, err = os.Stat(socket) {
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if code, _ := d.Get("/status"); code != http.StatusOK {
		t.Errorf("/status on the new socket: %d", code)
	}
}

// Another user's process is refused by the socket.
func TestTheSocketIsOfItsUserAlone(t *testing.T) {
	const socketEnv = "EVICTD_TEST_SOCKET"
	if socket := os.Getenv(socketEnv); socket != "" {
		if _, err := net.Dial("unix", socket); !errors.Is(err, os.ErrPermission) {
			t.Errorf("connect as user %d: %v, want it refused", os.Getuid(), err)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user")
	}
	w := emptyWorld(t)
	w.plugins("memory")
	d := w.startReady()
	program := filepath.Join(t.TempDir(), "test")
	for _, dir := range []string{filepath.Dir(program), filepath.Dir(filepath.Dir(program))} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	own, err := os.Executable()
	if err == nil {
		err = evictd.Install(own, program)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-test.run=^"+t.Name()+"$")
	cmd.Env, cmd.Dir = []string{socketEnv + "=" + filepath.Join(d.RunDir, "evictd.sock")}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v: %s", err, out)
	}
}
