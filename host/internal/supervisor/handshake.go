package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/evictd/evictd/shared/wire"
)

// A handshake starts a process for go-plugin. It reads and checks the plugin's
// first line itself, before go-plugin sees it, and gives it nothing else to
// read: go-plugin would wait, guess or panic where the contract is broken.
type handshake struct {
	proc *process
	cmd  *exec.Cmd
	name string
	// dir is the private directory that the plugin's socket must be in.
	dir  string
	mtls bool
	// given is closed when the caller of go-plugin has given up: go-plugin calls
	// Start with a context of its own.
	given <-chan struct{}

	line string
}

var _ runner.Runner = (*handshake)(nil)

// Start starts the process and waits for a valid first line.
func (h *handshake) Start(ctx context.Context) error {
	if err := h.proc.start(h.cmd); err != nil {
		return noProgram(err)
	}
	look := time.NewTicker(sizeInterval)
	defer look.Stop()
	for {
		select {
		case line, ok := <-h.proc.first:
			if !ok {
				return h.noLine()
			}
			h.line = line
			if err := checkHandshake(line, h.dir, h.mtls); err != nil {
				return err
			}
			return h.proc.how.takeBack(h.dir)
		case <-look.C:
			if err := checkSize(h.dir); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		case <-h.given:
			return errStopped
		}
	}
}

// noProgram says what of a file could not be started. Another attempt would end
// alike where the file itself is wrong.
func noProgram(err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return refusal{fmt.Errorf("it is no program for %s/%s, nor a script that begins with #!: %w", runtime.GOOS, runtime.GOARCH, syscall.ENOEXEC)}
	case errors.Is(err, syscall.ENOENT):
		return refusal{fmt.Errorf("the interpreter or loader that it names is missing: %w", syscall.ENOENT)}
	default:
		return fmt.Errorf("start: %w", err)
	}
}

func (h *handshake) noLine() error {
	if !h.proc.waitFor(farewell) {
		return errors.New("closed its stdout before the handshake, want one line on it: serve the plugin with the evictd SDK")
	}
	return fmt.Errorf("exited before the handshake (%s)", h.proc.ending())
}

// checkHandshake checks a plugin's first line: core version, protocol major,
// network, address, RPC protocol, certificate.
func checkHandshake(line, dir string, mtls bool) error {
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 5 || parts[0] != strconv.Itoa(plugin.CoreProtocolVersion) {
		return fmt.Errorf("wrote %.100q to stdout, want go-plugin's handshake first: serve the plugin with the evictd SDK and write to stderr instead", line)
	}
	var errs []error
	if parts[1] != strconv.Itoa(wire.ProtocolMajor) {
		errs = append(errs, fmt.Errorf("speaks protocol major %.20s, this host speaks %d: use a build of the plugin for this host", parts[1], wire.ProtocolMajor))
	}
	if parts[2] != "unix" || filepath.Dir(filepath.Clean(parts[3])) != dir {
		errs = append(errs, fmt.Errorf("listens on %s %.100q, want a unix socket directly in %s ($%s)", parts[2], parts[3], dir, plugin.EnvUnixSocketDir))
	}
	if parts[4] != string(plugin.ProtocolGRPC) {
		errs = append(errs, fmt.Errorf("speaks %.20q, want %q", parts[4], plugin.ProtocolGRPC))
	}
	hasCert := len(parts) > 5 && parts[5] != ""
	switch {
	case mtls && !hasCert:
		errs = append(errs, errors.New("sent no certificate, want one: autoMTLS is on for it, set autoMTLS: false if it has none"))
	case !mtls && hasCert:
		errs = append(errs, errors.New("sent a certificate, want none: autoMTLS is off for it"))
	}
	return errors.Join(errs...)
}

// Wait waits until nothing is left of the process, or it was given up.
func (h *handshake) Wait(context.Context) error {
	select {
	case <-h.proc.exited:
	case <-h.proc.abandoned:
	}
	return nil
}

// Kill is go-plugin's last resort. The supervisor has stopped the process by
// then.
func (h *handshake) Kill(context.Context) error { return h.proc.stop(0) }

// Stdout gives the line that was checked.
func (h *handshake) Stdout() io.ReadCloser { return io.NopCloser(strings.NewReader(h.line + "\n")) }

// Stderr gives nothing: the process's own lines go to its lineLog.
func (h *handshake) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is the plugin's name.
func (h *handshake) Name() string { return h.name }

// ID is the process's id.
func (h *handshake) ID() string { return strconv.Itoa(h.proc.id()) }

// Diagnose has nothing to add to the errors of Start.
func (h *handshake) Diagnose(context.Context) string { return "" }

// PluginToHost and HostToPlugin: both sides see the same files.
func (h *handshake) PluginToHost(network, addr string) (string, string, error) {
	return network, addr, nil
}

// HostToPlugin is PluginToHost the other way.
func (h *handshake) HostToPlugin(network, addr string) (string, string, error) {
	return network, addr, nil
}
