package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// A Line is one log line.
type Line map[string]any

// Msg is the line's message.
func (l Line) Msg() string { s, _ := l["msg"].(string); return s }

// Str is an attribute as text.
func (l Line) Str(key string) string {
	if v, ok := l[key]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// A Daemon is a running evictd.
type Daemon struct {
	Cmd *exec.Cmd
	// Dir has the configuration, RunDir the run directory.
	Dir, RunDir string
	// Address is where the daemon listens, known once it is ready.
	Address string

	t      testing.TB
	config map[string]any

	mu    sync.Mutex
	lines []Line
	raw   []string
	grown chan struct{}
	done  chan struct{}
	err   error
}

// Start runs evictd with a configuration of the given keys. pluginDir,
// runDir, podManifestDir and listenAddress get defaults below a temporary
// directory.
func Start(t testing.TB, config map[string]any) *Daemon {
	t.Helper()
	dir := t.TempDir()
	full := map[string]any{
		"pluginDir":      PluginDir(t),
		"runDir":         RunDir(t),
		"podManifestDir": filepath.Join(dir, "manifests"),
		"listenAddress":  "127.0.0.1:0",
		"logLevel":       "debug",
	}
	maps.Copy(full, config)
	if err := os.MkdirAll(full["podManifestDir"].(string), 0o755); err != nil {
		t.Fatal(err)
	}
	d := &Daemon{Dir: dir, RunDir: full["runDir"].(string), t: t, grown: make(chan struct{}), done: make(chan struct{})}
	d.config = full
	d.WriteConfig(full)
	d.start()
	return d
}

// Config returns a copy of the configuration that the daemon was started with.
func (d *Daemon) Config() map[string]any { return maps.Clone(d.config) }

// RunDir makes a directory with a short path, as sockets need one.
func RunDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "evictd-run-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// ConfigFile is the path of the configuration.
func (d *Daemon) ConfigFile() string { return filepath.Join(d.Dir, "evictd.yaml") }

// WriteConfig replaces the configuration file.
func (d *Daemon) WriteConfig(config map[string]any) {
	d.t.Helper()
	b, err := yaml.Marshal(config)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(d.ConfigFile(), b, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Daemon) start() {
	d.t.Helper()
	d.Cmd = exec.Command(Build(d.t, "evictd"), "run", "--config", d.ConfigFile())
	stderr, err := d.Cmd.StderrPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.Cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go d.read(stderr)
	d.t.Cleanup(func() {
		d.Cmd.Process.Kill()
		<-d.done
		if d.t.Failed() {
			d.t.Logf("log of evictd:\n%s", d.Text())
		}
	})
}

func (d *Daemon) read(r io.Reader) {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 4<<20)
	for s.Scan() {
		line := Line{}
		if json.Unmarshal(s.Bytes(), &line) != nil {
			line = Line{"msg": s.Text()}
		}
		d.mu.Lock()
		d.lines = append(d.lines, line)
		d.raw = append(d.raw, s.Text())
		close(d.grown)
		d.grown = make(chan struct{})
		d.mu.Unlock()
	}
	d.err = d.Cmd.Wait()
	close(d.done)
}

// Text returns the log so far as it was written.
func (d *Daemon) Text() string {
	var b strings.Builder
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, raw := range d.raw {
		b.WriteString(raw)
		b.WriteByte('\n')
	}
	return b.String()
}

// Lines returns the log so far.
func (d *Daemon) Lines() []Line {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]Line(nil), d.lines...)
}

// Await waits for a log line that match accepts and fails the test when none has
// come in time.
func (d *Daemon) Await(what string, within time.Duration, match func(Line) bool) Line {
	d.t.Helper()
	timeout := time.After(within)
	for seen := 0; ; {
		d.mu.Lock()
		lines, grown := d.lines, d.grown
		d.mu.Unlock()
		for ; seen < len(lines); seen++ {
			if match(lines[seen]) {
				return lines[seen]
			}
		}
		select {
		case <-grown:
		case <-d.done:
			d.mu.Lock()
			all := len(d.lines)
			d.mu.Unlock()
			if seen == all {
				d.t.Fatalf("evictd ended (%v) before: %s", d.err, what)
			}
		case <-timeout:
			d.t.Fatalf("not seen within %v: %s", within, what)
		}
	}
}

// AwaitMsg waits for a line with this message.
func (d *Daemon) AwaitMsg(msg string, within time.Duration) Line {
	d.t.Helper()
	return d.Await(msg, within, func(l Line) bool { return l.Msg() == msg })
}

// AwaitReady waits until the daemon is ready and learns its address.
func (d *Daemon) AwaitReady() {
	d.t.Helper()
	d.Address = d.AwaitMsg("evictd ready", 15*time.Second).Str("listenAddress")
}

// Count counts lines with this message.
func (d *Daemon) Count(msg string) int {
	n := 0
	for _, l := range d.Lines() {
		if l.Msg() == msg {
			n++
		}
	}
	return n
}

// Get fetches a page of the daemon.
func (d *Daemon) Get(path string) (int, string) {
	d.t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	r, err := client.Get("http://" + d.Address + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// Signal sends a signal to the daemon.
func (d *Daemon) Signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.Cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// Wait waits for the daemon's end and returns its exit status, -1 for a signal.
func (d *Daemon) Wait(within time.Duration) int {
	d.t.Helper()
	select {
	case <-d.done:
		return d.Cmd.ProcessState.ExitCode()
	case <-time.After(within):
		d.t.Fatalf("evictd has not ended within %v", within)
		return 0
	}
}

// Restart starts the binary again with the same files after it has ended.
func (d *Daemon) Restart() *Daemon {
	d.t.Helper()
	<-d.done
	again := &Daemon{Dir: d.Dir, RunDir: d.RunDir, config: d.config, t: d.t, grown: make(chan struct{}), done: make(chan struct{})}
	again.start()
	return again
}

// PluginDir makes a plugin directory with these programs; the memory plugin when
// none are named.
func PluginDir(t testing.TB, names ...string) string {
	t.Helper()
	if len(names) == 0 {
		names = []string{"memory"}
	}
	dir := t.TempDir()
	for _, name := range names {
		Install(t, Build(t, name), filepath.Join(dir, name))
	}
	return dir
}

// Install copies an executable.
func Install(t testing.TB, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// Plugins returns the pids of the daemon's living children, by the name of
// their binary. It is read from /proc, so it also finds what the daemon does not
// tell.
func (d *Daemon) Plugins() map[string]int {
	d.t.Helper()
	pids := map[string]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var pid, parent int
		var state string
		_, rest, _ := strings.Cut(string(b), ") ")
		fmt.Sscan(string(b), &pid)
		fmt.Sscan(rest, &state, &parent)
		if parent != d.Cmd.Process.Pid || state == "Z" {
			continue
		}
		if exe, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil {
			name, _, _ := strings.Cut(string(exe), "\x00")
			pids[filepath.Base(name)] = pid
		}
	}
	return pids
}

// Alive reports whether a process exists and is no zombie.
func Alive(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
