package main

import (
	"bufio"
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
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
)

// A line is one log line and when it was read, in CLOCK_MONOTONIC.
type line struct {
	at     time.Duration
	fields map[string]any
}

func (l line) text(key string) string {
	if v, ok := l.fields[key]; ok {
		return fmt.Sprint(v)
	}
	return ""
}

// A daemon is a running evictd.
type daemon struct {
	cmd *exec.Cmd
	// started is when the process was about to be started.
	started time.Duration
	address string
	done    chan struct{} // closed when the process has ended

	mu    sync.Mutex
	lines []line        // not yet looked at
	tail  []string      // the last ones as text, for errors
	grown chan struct{} // closed when lines has more
}

const tailLines = 20

// startEvictd starts evictd with its files in dir. config is what differs from
// the common part.
func startEvictd(b *bench, dir string, config map[string]any) (*daemon, error) {
	full := map[string]any{
		"nodeName": "bench", "pluginDir": b.programs.pluginDir, "runDir": filepath.Join(dir, "run"),
		"listenAddress": "127.0.0.1:0",
	}
	maps.Copy(full, config)
	text, err := yaml.Marshal(full)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "evictd.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	d := &daemon{cmd: exec.Command(b.programs.evictd, "run", "--config", file), done: make(chan struct{}), grown: make(chan struct{})}
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	d.started = monotonic()
	if err := start(d.cmd); err != nil {
		return nil, fmt.Errorf("start evictd: %w", err)
	}
	go d.read(stderr) // ends with the process, which stop waits for
	return d, nil
}

func (d *daemon) read(stderr io.Reader) {
	s := bufio.NewScanner(stderr)
	s.Buffer(nil, 4<<20)
	for s.Scan() {
		l := line{at: monotonic()}
		if json.Unmarshal(s.Bytes(), &l.fields) != nil {
			l.fields = map[string]any{"msg": s.Text()}
		}
		d.mu.Lock()
		d.lines = append(d.lines, l)
		d.tail = append(d.tail[max(0, len(d.tail)-tailLines):], s.Text())
		close(d.grown)
		d.grown = make(chan struct{})
		d.mu.Unlock()
	}
	_ = d.cmd.Wait() // how it ended matters only to those who did not expect it
	close(d.done)
}

// await returns the next line with this message, within a time, and forgets
// those before it.
func (d *daemon) await(ctx context.Context, msg string, within time.Duration) (line, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		d.mu.Lock()
		lines, grown := d.lines, d.grown
		for i, l := range lines {
			if l.text("msg") == msg {
				d.lines = lines[i+1:]
				d.mu.Unlock()
				return l, nil
			}
		}
		d.lines = nil
		d.mu.Unlock()
		select {
		case <-grown:
		case <-d.done:
			return line{}, fmt.Errorf("evictd ended (%v) before it logged %q; its last lines:\n%s", d.cmd.ProcessState, msg, d.last())
		case <-ctx.Done():
			return line{}, fmt.Errorf("wait for evictd to log %q: %w; its last lines:\n%s", msg, ctx.Err(), d.last())
		}
	}
}

// forget drops the lines that nobody has looked at.
func (d *daemon) forget() {
	d.mu.Lock()
	d.lines = nil
	d.mu.Unlock()
}

func (d *daemon) last() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.tail, "\n")
}

// awaitReady waits until evictd listens.
func (d *daemon) awaitReady(ctx context.Context) error {
	l, err := d.await(ctx, "evictd ready", 20*time.Second)
	d.address = l.text("listenAddress")
	return err
}

// passes asks how many passes there have been.
func (d *daemon) passes(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+"/status", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end
	var status struct {
		Passes   int64  `json:"passes"`
		NotReady string `json:"notReady"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		return 0, fmt.Errorf("read evictd's status: %w", err)
	}
	if status.NotReady != "" {
		return 0, fmt.Errorf("evictd is not ready: %s", status.NotReady)
	}
	return status.Passes, nil
}

// usage reads what evictd and its plugins have used, by program.
func (d *daemon) usage() (map[string]usage, error) {
	pids, err := children(d.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	if len(pids) == 0 {
		return nil, errors.New("evictd has no plugin process")
	}
	pids["evictd"] = d.cmd.Process.Pid
	all := map[string]usage{}
	for name, pid := range pids {
		if all[name], err = usageOf(pid); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// stop ends evictd and waits for it.
func (d *daemon) stop() error { return end(d.cmd.Process, d.done) }
