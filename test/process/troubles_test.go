package process

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/daemon"
	"github.com/evictd/evictd/test/evictd"
)

// fewFiles is how many descriptors a troubled evictd has: less than it is troubled
// with.
const fewFiles = 512

// Everything at once that nobody needs rights for, or a bad plugin can leave behind:
// 1000 idle connections, scrapers and a reader of the log that have stalled, a
// directory of manifests that comes and goes, and socket directories nested deeper
// than there are descriptors. The pod that has to go goes within a second of when
// it goes without.
func TestFiveTroublesAtOnceDoNotKeepTheHog(t *testing.T) {
	alone := evictionTime(t, false)
	troubled := evictionTime(t, true)
	t.Logf("gone after %v alone, after %v with five troubles", alone, troubled)
	if troubled > alone+time.Second {
		t.Errorf("gone after %v, want at most a second more than %v", troubled, alone)
	}
}

// evictionTime runs evictd on a node of its own and returns how long after the
// pressure the pod was gone.
func evictionTime(t *testing.T, troubles bool) time.Duration {
	w := newWorld(t)
	config := map[string]any{
		"pluginDir": daemon.PluginDir(t), "runDir": daemon.RunDir(t), "listenAddress": freeAddress(t), "logLevel": "debug",
	}
	maps.Copy(config, w.config)
	file, err := evictd.Configure(t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if troubles {
		fillPipe(t, writer)
		nestSockets(t, config["runDir"].(string))
	}
	cmd := exec.Command("sh", "-c", fmt.Sprintf("ulimit -n %d; exec \"$0\" \"$@\"", fewFiles), daemon.Build(t, "evictd"), "run", "--config", file)
	cmd.Stderr = writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	defer cmd.Process.Kill()
	var log bytes.Buffer
	read := make(chan struct{})
	follow := func() {
		defer close(read)
		_, _ = io.Copy(&log, reader)
	}
	if !troubles {
		go follow()
	}
	address := config["listenAddress"].(string)
	awaitHealthy(t, address)
	stop := func() {}
	if troubles {
		holdConnections(t, address)
		stallScrapers(t, address)
		stop = comeAndGo(t, w.manifests)
	}
	begin := time.Now()
	w.pressure()
	w.gone("big", 30*time.Second)
	took := time.Since(begin)
	awaitHealthy(t, address) // a scraper still gets in
	stop()
	if troubles {
		go follow() // and the log flows again
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("evictd ended: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("evictd does not end")
	}
	<-read
	if text := log.String(); strings.Count(text, `"evicting pod"`) != 1 {
		t.Errorf("the log does not tell of one victim:\n%s", strings.TrimLeft(text, "\x00"))
	}
	return took
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func awaitHealthy(t *testing.T, address string) {
	t.Helper()
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	eventually(t, 30*time.Second, func() error {
		answer, err := client.Get("http://" + address + "/healthz")
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("/healthz is %s", answer.Status)
		}
		return nil
	})
}

// holdConnections holds 1000 connections until the test ends.
func holdConnections(t *testing.T, address string) {
	t.Helper()
	for range 1000 {
		c, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
}

// stallScrapers asks for more than sockets keep, and reads nothing.
func stallScrapers(t *testing.T, address string) {
	t.Helper()
	for range 8 {
		c, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = io.WriteString(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000)) // as many as fit
	}
}

// nestSockets leaves in the run directory what a plugin of a former evictd has made.
func nestSockets(t *testing.T, runDir string) {
	t.Helper()
	dir := filepath.Join(runDir, "plugins", "plugin-dir1")
	if err := os.MkdirAll(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(runDir, 0o711); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for range 4 * fewFiles {
		if err == nil {
			err = unix.Mkdirat(at, "d", 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		below, failed := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		_ = unix.Close(at)
		at, err = below, failed
	}
	_ = unix.Close(at)
}

// comeAndGo takes the directory away and puts it back, over and over, until stop.
func comeAndGo(t *testing.T, dir string) (stop func()) {
	end := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		pause := time.NewTicker(100 * time.Millisecond)
		defer pause.Stop()
		for away := false; ; away = !away {
			from, to := dir, dir+".away"
			if away {
				from, to = to, from
			}
			if err := os.Rename(from, to); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-pause.C:
			case <-end:
				if !away {
					_ = os.Rename(to, from)
				}
				return
			}
		}
	})
	return func() { close(end); over.Wait() }
}
