package conformance

import (
	"context"
	"fmt"
	"time"
)

// checkStart starts the executable once and checks its handshake, part by part.
func (o *origin) checkStart(ctx context.Context) ([]Check, bool) {
	begin := time.Now()
	tls := !o.options.NoTLS
	p, st, err := o.process(true, tls)
	line := ""
	if err == nil {
		defer p.kill()
		line, err = p.ready(ctx)
	}
	input := "the environment of a host with AutoMTLS, no arguments"
	if !tls {
		input = "the environment of a host without AutoMTLS, no arguments"
	}
	results := []Check{{
		Name: "start", RPC: "(start)", Input: input,
		Expected: fmt.Sprintf("one line on standard output within %s", readyTime), Took: time.Since(begin),
	}}
	results[0].end(verdict(err))
	var h handshake
	if err == nil {
		h = readHandshake(line, st.dir, tls)
	}
	parts := []struct {
		name, expect string
		seen         error
	}{
		{"handshake-line", "first on standard output: 1|1|unix|SOCKET|grpc|CERTIFICATE", h.line},
		{"handshake-major", "a protocol major of PLUGIN_PROTOCOL_VERSIONS, which is 1", h.major},
		{"handshake-socket", "a unix socket directly in PLUGIN_UNIX_SOCKET_DIR", h.address},
		{"handshake-protocol", "grpc", h.protocol},
		{"handshake-certificate", certificateExpected(tls), h.certificate},
	}
	for _, part := range parts {
		c := Check{Name: part.name, RPC: "(handshake)", Input: input, Expected: part.expect}
		switch {
		case err != nil:
			c.Result, c.Seen = Skipped, "not run after start failed"
		case h.line != nil && part.name != "handshake-line":
			c.Result, c.Seen = Skipped, "not run after handshake-line failed"
		default:
			c.end(verdict(part.seen))
		}
		results = append(results, c)
	}
	return results, err == nil && !h.broken()
}

func certificateExpected(tls bool) string {
	if tls {
		return "its own certificate, for localhost, as unpadded base64 of the DER form"
	}
	return "no certificate, as the host sent none"
}
