package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/stack"
)

const (
	readyDeadline = 20 * time.Second
	stopDeadline  = 20 * time.Second
)

// Options say which evictd runs and how.
type Options struct {
	// Binary is the evictd binary.
	Binary string
	// Plugins are files that are copied into the plugin directory.
	Plugins []string
	// Config is merged into the configuration that fits the stack.
	Config map[string]any
	// OnRecord, if set, is called for each log record, in order, from one goroutine.
	OnRecord func(Record)
}

// An Agent is a running evictd.
type Agent struct {
	// Config is the path of its configuration file, Dir where all its files are.
	Config, Dir string
	// PluginDir is the directory its plugins were copied to.
	PluginDir string

	cmd    *exec.Cmd
	log    *log
	exited chan struct{}
	err    error // of Wait; read after exited is closed
	once   sync.Once
}

// Start copies the plugins, writes the configuration, starts evictd and waits
// until it is ready.
func Start(ctx context.Context, s *stack.Stack, o Options) (*Agent, error) {
	dir, err := os.MkdirTemp(s.Dir, "evictd-")
	if err != nil {
		return nil, fmt.Errorf("start evictd: %w", err)
	}
	a := &Agent{Dir: dir, Config: filepath.Join(dir, "evictd.yaml"), PluginDir: filepath.Join(dir, "plugins"), exited: make(chan struct{})}
	if err := a.prepare(s, o); err != nil {
		return nil, fmt.Errorf("start evictd: %w", err)
	}
	// Not bound to ctx: evictd is to end in order, by Stop.
	a.cmd = s.Command(context.WithoutCancel(ctx), o.Binary, "run", "--config", a.Config)
	stderr, err := a.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start evictd: %w", err)
	}
	a.log = newLog(o.OnRecord)
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start evictd: %w", err)
	}
	go func() { // ends with evictd, which Stop or the stack's Close ends
		defer close(a.exited)
		a.log.read(stderr)
		a.err = a.cmd.Wait()
		a.log.close()
	}()
	ctx, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	if _, err := a.Wait(ctx, func(r Record) bool { return r.Msg == "evictd ready" }); err != nil {
		return nil, errors.Join(fmt.Errorf("evictd did not become ready: %w\n%s", err, a.log.tail()), a.Stop())
	}
	return a, nil
}

func (a *Agent) prepare(s *stack.Stack, o Options) error {
	// evictd refuses plugins that others could have written.
	if err := errors.Join(os.Chmod(a.Dir, 0o755), os.Mkdir(a.PluginDir, 0o755)); err != nil {
		return err
	}
	for _, plugin := range o.Plugins {
		if err := copyExecutable(plugin, filepath.Join(a.PluginDir, filepath.Base(plugin))); err != nil {
			return err
		}
	}
	config := map[string]any{
		"nodeName":        "stack",
		"pluginDir":       a.PluginDir,
		"runDir":          filepath.Join(a.Dir, "run"),
		"podManifestDir":  s.ManifestDir,
		"runtimeEndpoint": "unix://" + s.Socket,
		"imageEndpoint":   "unix://" + s.Socket,
		"cgroupRoot":      s.CgroupRoot,
		"listenAddress":   "127.0.0.1:0",
	}
	maps.Copy(config, o.Config)
	raw, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(a.Config, raw, 0o644)
}

// Wait returns the first record, of those already read or still to come, that
// match accepts.
func (a *Agent) Wait(ctx context.Context, match func(Record) bool) (Record, error) {
	return a.log.wait(ctx, match)
}

// Records returns what was logged so far with the message.
func (a *Agent) Records(msg string) []Record { return a.log.withMessage(msg) }

// LogTail returns the last lines of the log, as they were written.
func (a *Agent) LogTail() string { return a.log.tail() }

// Status asks evictd for its status.
func (a *Agent) Status(ctx context.Context) (map[string]any, error) {
	ready := a.Records("evictd ready")
	if len(ready) == 0 {
		return nil, errors.New("evictd is not ready")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ready[0].String("listenAddress")+"/status", nil)
	if err != nil {
		return nil, fmt.Errorf("status of evictd: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("status of evictd: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // only read
	var status map[string]any
	if err := json.NewDecoder(io.LimitReader(resp.Body, 8<<20)).Decode(&status); err != nil {
		return nil, fmt.Errorf("status of evictd: %w", err)
	}
	return status, nil
}

// Stop sends SIGTERM and waits; evictd must end with exit code 0.
func (a *Agent) Stop() error {
	var err error
	a.once.Do(func() {
		_ = a.cmd.Process.Signal(syscall.SIGTERM) // an error is an exit, seen below
		timer := time.NewTimer(stopDeadline)
		defer timer.Stop()
		select {
		case <-a.exited:
			err = a.err
		case <-timer.C:
			_ = a.cmd.Process.Kill() // a child may still hold the log open: the stack's Close ends those
			err = fmt.Errorf("still running %v after SIGTERM", stopDeadline)
		}
		if err != nil {
			err = fmt.Errorf("evictd: %w\n%s", err, a.log.tail())
		}
	})
	return err
}

// Process is evictd's own process.
func (a *Agent) Process() *os.Process { return a.cmd.Process }

func copyExecutable(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o755)
}
