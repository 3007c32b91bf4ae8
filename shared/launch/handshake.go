package launch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evictd/evictd/shared/wire"
)

// A Handshake is the content of the line in which a plugin says where it listens.
type Handshake struct {
	// Socket is the path that it listens on.
	Socket string
	// Certificate is the plugin's, nil without TLS.
	Certificate *x509.Certificate
}

// The parts of a handshake that can be wrong. If the Line is no handshake, no other fault is
// reported.
const (
	Line = iota
	Major
	Address
	Protocol
	Certificate
	parts
)

// Faults is the error of an invalid handshake: for each part its fault, nil if the part is right.
type Faults [parts]error

func (f Faults) Error() string { return errors.Join(f[:]...).Error() }

// lookInterval is the time between two calls of look in Ready.
const lookInterval = 20 * time.Millisecond

// Ready waits for the handshake and returns it; the error may be Faults. While it waits it calls
// look every lookInterval, unless that is nil; an error of look ends the wait.
func (p *Process) Ready(ctx context.Context, look func() error) (Handshake, error) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case line, ok := <-p.first:
			if !ok {
				return Handshake{}, p.noLine()
			}
			return parse(line, p.command.Dir, p.command.Identity != nil)
		case <-tick.C:
			if look == nil {
				continue
			}
			if err := look(); err != nil {
				return Handshake{}, err
			}
		case <-ctx.Done():
			return Handshake{}, context.Cause(ctx)
		}
	}
}

func (p *Process) noLine() error {
	if !p.WaitFor(Farewell) {
		return errors.New("closed its stdout before the handshake, want one line on it: serve the plugin with the evictd SDK")
	}
	return fmt.Errorf("exited before the handshake (%s)", p.Ending())
}

// parse checks the first line of a plugin's output: core version, protocol major, network,
// address, RPC protocol, certificate. The socket must be directly in dir.
func parse(line, dir string, tls bool) (Handshake, error) {
	var (
		h      Handshake
		faults Faults
	)
	fields := strings.Split(strings.TrimSpace(line), "|")
	if len(fields) < 5 || fields[0] != strconv.Itoa(plugin.CoreProtocolVersion) {
		faults[Line] = fmt.Errorf("wrote %.100q to stdout, want go-plugin's handshake first: serve the plugin with the evictd SDK and write to stderr instead", line)
		return h, faults
	}
	if fields[1] != strconv.Itoa(wire.ProtocolMajor) {
		faults[Major] = fmt.Errorf("speaks protocol major %.20s, this host speaks %d: use a build of the plugin for this host", fields[1], wire.ProtocolMajor)
	}
	h.Socket = fields[3]
	if fields[2] != "unix" || filepath.Dir(filepath.Clean(h.Socket)) != filepath.Clean(dir) {
		faults[Address] = fmt.Errorf("listens on %s %.100q, want a unix socket directly in %s ($%s)", fields[2], h.Socket, dir, plugin.EnvUnixSocketDir)
	}
	if fields[4] != string(plugin.ProtocolGRPC) {
		faults[Protocol] = fmt.Errorf("speaks %.20q, want %q", fields[4], plugin.ProtocolGRPC)
	}
	sent := ""
	if len(fields) > 5 {
		sent = fields[5]
	}
	switch {
	case tls && sent == "":
		faults[Certificate] = fmt.Errorf("sent no certificate, want one: autoMTLS is on for it, set autoMTLS: false if it has none")
	case tls:
		var err error
		if h.Certificate, err = parseCertificate(sent); err != nil {
			faults[Certificate] = fmt.Errorf("sent a certificate that cannot be used: %w", err)
		}
	case sent != "":
		faults[Certificate] = fmt.Errorf("sent a certificate, want none: autoMTLS is off for it")
	}
	if faults != (Faults{}) {
		return h, faults
	}
	return h, nil
}

// Credentials returns those for a connection to the plugin on which the host presents i.
func (h *Handshake) Credentials(i *Identity) credentials.TransportCredentials {
	if h.Certificate == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(i.Trusting(h.Certificate))
}
