// Package contained runs a plugin as the container of a vendor's pod does: evictd does not start
// it and finds it by its socket.
package contained

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/shared/wire"
)

// maxWait is for what a loaded machine does late; a start is half a second.
const maxWait = 10 * time.Second

// A Plugin has the calls of a running plugin.
type Plugin struct {
	eviction.Plugin
	Socket string

	cmd *exec.Cmd
	log bytes.Buffer
}

// Start starts a plugin, in place of one whose socket is left, and describes it.
func Start(t *testing.T, command ...string) *Plugin {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd-plugins-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &Plugin{Socket: filepath.Join(dir, "10-acme.sock"), cmd: exec.Command(command[0], command[1:]...)}
	testos.WriteFile(t, p.Socket, "", 0o666)
	p.cmd.Env, p.cmd.Stderr = []string{"EVICTD_PLUGIN_SOCKET=" + p.Socket}, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	for deadline := time.Now().Add(maxWait); ; time.Sleep(5 * time.Millisecond) {
		info, err := os.Lstat(p.Socket)
		if err == nil && info.Mode() == os.ModeSocket|0o600 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, error %v, want a socket of mode 0600", info, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%v, error %v, want only the socket", all, err)
	}
	conn, err := grpc.NewClient("unix:"+p.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if p.Plugin, err = wire.NewClient(conn).Describe(t.Context(), eviction.Host{Version: "test"}); err != nil {
		t.Fatal(err)
	}
	return p
}

// End ends the plugin and returns its log.
func (p *Plugin) End(t *testing.T, by os.Signal) string {
	t.Helper()
	if err := p.cmd.Process.Signal(by); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(maxWait, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v, want exit status 0; its log:\n%s", err, p.log.String())
	}
	return p.log.String()
}

// Serves tests that a plugin serves at its socket as long as it runs.
func Serves(t *testing.T, name string, command ...string) {
	for by, signal := range map[string]os.Signal{"its runtime": syscall.SIGTERM, "a terminal": syscall.SIGINT} {
		t.Run("ended by "+by, func(t *testing.T) {
			p := Start(t, command...)
			if p.Name != name || p.Ranker == nil {
				t.Errorf("%+v, want %s, which ranks", p.Plugin, name)
			}
			if log := p.End(t, signal); strings.Contains(log, "rror") {
				t.Errorf("its log:\n%s", log)
			}
			if info, err := os.Lstat(p.Socket); !os.IsNotExist(err) {
				t.Errorf("%v, error %v, want no socket", info, err)
			}
		})
	}
	t.Run("with another in its place", func(t *testing.T) {
		p := Start(t, command...)
		testos.WriteFile(t, p.Socket+".other", "", 0o600)
		testos.Rename(t, p.Socket+".other", p.Socket)
		p.End(t, syscall.SIGTERM)
		if _, err := os.Lstat(p.Socket); err != nil {
			t.Errorf("the other's: %v", err)
		}
	})
}
