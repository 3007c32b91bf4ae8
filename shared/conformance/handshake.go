package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/lifecycle"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
)

// start starts the executable once and checks each part of its handshake. It reports whether
// the plugin can be called.
func (r *run) start(ctx context.Context, s *lifecycle.Starter) bool {
	begin := time.Now()
	tls := !r.options.NoTLS
	p, err := s.Spawn(false, tls)
	if err == nil {
		defer p.End()
		err = p.Shake(ctx)
	}
	faults, parsed := errors.AsType[launch.Faults](err)
	started := err
	if parsed {
		started = nil
	}
	input := "the environment of a host with AutoMTLS, no arguments"
	certificate := "its own certificate, for localhost, as unpadded base64 of the DER form"
	if !tls {
		input, certificate = "the environment of a host without AutoMTLS, no arguments", "no certificate, as the host sent none"
	}
	first := Check{
		Name: "start", RPC: "(start)", Input: input,
		Expected: fmt.Sprintf("one line on standard output within %s", eviction.HandshakeDeadline), Took: time.Since(begin),
	}
	first.end(verdict(started))
	r.checks = append(r.checks, first)
	for _, part := range []struct {
		is           int
		name, expect string
	}{
		{launch.Line, "handshake-line", "first on standard output: 1|1|unix|SOCKET|grpc|CERTIFICATE"},
		{launch.Major, "handshake-major", "a protocol major of PLUGIN_PROTOCOL_VERSIONS, which is 1"},
		{launch.Address, "handshake-socket", "a unix socket directly in PLUGIN_UNIX_SOCKET_DIR"},
		{launch.Protocol, "handshake-protocol", "grpc"},
		{launch.Certificate, "handshake-certificate", certificate},
	} {
		c := Check{Name: part.name, RPC: "(handshake)", Input: input, Expected: part.expect}
		switch {
		case started != nil:
			c.Result, c.Seen = Skipped, "not run after start failed"
		case faults[launch.Line] != nil && part.is != launch.Line:
			c.Result, c.Seen = Skipped, "not run after handshake-line failed"
		default:
			c.end(verdict(faults[part.is]))
		}
		r.checks = append(r.checks, c)
	}
	return err == nil
}
