package daemon

import (
	"context"
	"maps"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/evictd"
)

// A Daemon is a running evictd. Its methods fail the test where those of Process would return an
// error.
type Daemon struct {
	*evictd.Process
	// Dir contains the configuration.
	Dir string
	// ConfigFile is the path of the configuration.
	ConfigFile string

	t      testing.TB
	config map[string]any
}

// Start runs evictd with a configuration of the given keys. pluginDir,
// runDir and podManifestDir get defaults below a temporary directory.
func Start(t testing.TB, config map[string]any) *Daemon {
	t.Helper()
	dir := t.TempDir()
	full := map[string]any{
		"pluginDir":      PluginDir(t),
		"runDir":         RunDir(t),
		"podManifestDir": filepath.Join(dir, "manifests"),
		"logLevel":       "debug",
	}
	maps.Copy(full, config)
	if manifests, ok := full["podManifestDir"].(string); ok { // nil with mode kubernetes
		testos.MkdirAll(t, manifests, 0o755)
	}
	d := &Daemon{Dir: dir, t: t, config: full}
	d.WriteConfig(full)
	d.start()
	return d
}

// Config returns a copy of the configuration that the daemon was started with.
func (d *Daemon) Config() map[string]any { return maps.Clone(d.config) }

// WriteConfig replaces the configuration file.
func (d *Daemon) WriteConfig(config map[string]any) {
	d.t.Helper()
	file, err := evictd.Configure(d.Dir, config)
	if err != nil {
		d.t.Fatal(err)
	}
	d.ConfigFile = file
}

func (d *Daemon) start() {
	d.t.Helper()
	p, err := evictd.Start(evictd.Options{Binary: Build(d.t, "evictd"), ConfigFile: d.ConfigFile})
	if err != nil {
		d.t.Fatal(err)
	}
	d.Process = p
	d.t.Cleanup(func() {
		p.Kill()
		if d.t.Failed() {
			d.t.Logf("log of evictd:\n%s", p.LogText())
		}
	})
}

// Restart starts the binary again with the same files after it has ended.
func (d *Daemon) Restart() *Daemon {
	d.t.Helper()
	d.Wait(endDeadline)
	again := *d
	again.start()
	return &again
}

// endDeadline limits the wait for a daemon that was asked to end before.
const endDeadline = 10 * time.Second

// Wait waits for the daemon to end and returns its exit status, -1 for a signal.
func (d *Daemon) Wait(within time.Duration) int {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), within)
	defer cancel()
	code, err := d.Exit(ctx)
	if err != nil {
		d.t.Fatalf("within %v: %v", within, err)
	}
	return code
}

// Await waits for a log line that match accepts. It fails the test if none comes in time.
func (d *Daemon) Await(what string, within time.Duration, match func(evictd.Record) bool) evictd.Record {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), within)
	defer cancel()
	r, err := d.Process.Await(ctx, match)
	if err != nil {
		d.t.Fatalf("not seen within %v: %s: %v", within, what, err)
	}
	return r
}

// AwaitMsg waits for a line with this message.
func (d *Daemon) AwaitMsg(msg string, within time.Duration) evictd.Record {
	d.t.Helper()
	return d.Await(msg, within, func(r evictd.Record) bool { return r.Msg == msg })
}

// AwaitReady waits until the daemon is ready.
func (d *Daemon) AwaitReady() {
	d.t.Helper()
	if err := d.Ready(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

// Get fetches a page of the daemon.
func (d *Daemon) Get(path string) (int, string) {
	d.t.Helper()
	code, page, err := d.Process.Get(d.t.Context(), path)
	if err != nil {
		d.t.Fatal(err)
	}
	return code, string(page)
}

// Signal sends a signal to the daemon.
func (d *Daemon) Signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// Plugins returns the PIDs of the daemon's living children by the name of their binary.
func (d *Daemon) Plugins() map[string]int {
	d.t.Helper()
	pids, err := evictd.Children(d.PID())
	if err != nil {
		d.t.Fatal(err)
	}
	return pids
}

// Eventually calls f until it returns no error. It fails the test if that takes longer than within.
func Eventually(t *testing.T, within time.Duration, f func() error) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", within, err)
		}
	}
}
