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

// A Handshake is the line with which a plugin says where it is.
type Handshake struct {
	// Socket is the path that it listens on.
	Socket string
	// Certificate is what it shows there, nil without TLS.
	Certificate *x509.Certificate
}

// A Part is one part of the line that can be wrong.
type Part uint8

// The parts of a handshake. Of a line that is none nothing else is said.
const (
	Line Part = iota
	Major
	Address
	Protocol
	Certificate
)

// A Fault is what is wrong with one part of a handshake.
type Fault struct {
	Part Part
	Err  error
}

// Faults are the error of a handshake, one line for each part that is wrong.
type Faults []Fault

func (f Faults) Error() string {
	var lines []string
	for _, one := range f {
		lines = append(lines, one.Err.Error())
	}
	return strings.Join(lines, "\n")
}

// Of returns what is wrong with a part, nil if nothing is.
func (f Faults) Of(p Part) error {
	for _, one := range f {
		if one.Part == p {
			return one.Err
		}
	}
	return nil
}

// lookInterval is how often the caller of Ready looks at what the plugin does
// meanwhile.
const lookInterval = 20 * time.Millisecond

// Ready waits for the handshake and returns it; the error may be Faults. While it waits
// look is called now and then, which may be nil; its error ends the wait.
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

// parse checks a plugin's first line: core version, protocol major, network and
// address, RPC protocol, certificate. The socket must be directly in dir.
func parse(line, dir string, tls bool) (Handshake, error) {
	var (
		h      Handshake
		faults Faults
	)
	wrong := func(part Part, format string, args ...any) {
		faults = append(faults, Fault{part, fmt.Errorf(format, args...)})
	}
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) < 5 || parts[0] != strconv.Itoa(plugin.CoreProtocolVersion) {
		wrong(Line, "wrote %.100q to stdout, want go-plugin's handshake first: serve the plugin with the evictd SDK and write to stderr instead", line)
		return h, faults
	}
	if parts[1] != strconv.Itoa(wire.ProtocolMajor) {
		wrong(Major, "speaks protocol major %.20s, this host speaks %d: use a build of the plugin for this host", parts[1], wire.ProtocolMajor)
	}
	h.Socket = parts[3]
	if parts[2] != "unix" || filepath.Dir(filepath.Clean(h.Socket)) != filepath.Clean(dir) {
		wrong(Address, "listens on %s %.100q, want a unix socket directly in %s ($%s)", parts[2], h.Socket, dir, plugin.EnvUnixSocketDir)
	}
	if parts[4] != string(plugin.ProtocolGRPC) {
		wrong(Protocol, "speaks %.20q, want %q", parts[4], plugin.ProtocolGRPC)
	}
	sent := ""
	if len(parts) > 5 {
		sent = parts[5]
	}
	switch {
	case tls && sent == "":
		wrong(Certificate, "sent no certificate, want one: autoMTLS is on for it, set autoMTLS: false if it has none")
	case tls:
		var err error
		if h.Certificate, err = parseCertificate(sent); err != nil {
			wrong(Certificate, "sent a certificate that cannot be used: %w", err)
		}
	case sent != "":
		wrong(Certificate, "sent a certificate, want none: autoMTLS is off for it")
	}
	if len(faults) > 0 {
		return h, faults
	}
	return h, nil
}

// Credentials are those of a connection by this handshake, which shows i.
func (h *Handshake) Credentials(i *Identity) credentials.TransportCredentials {
	if h.Certificate == nil {
		return insecure.NewCredentials()
	}
	return credentials.NewTLS(i.Trusting(h.Certificate))
}
