package conformance

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/shared/wire"
)

// A handshake is the line with which a plugin says where it is, and what is
// wrong with each part of it.
type handshake struct {
	socket string
	cert   *x509.Certificate

	line, major, address, protocol, certificate error
}

// readHandshake checks the first line of standard output.
func readHandshake(line, dir string, tls bool) handshake {
	var h handshake
	parts := strings.Split(line, "|")
	if len(parts) < 5 || parts[0] != strconv.Itoa(plugin.CoreProtocolVersion) {
		h.line = fmt.Errorf("%.200q", line)
		return h
	}
	if parts[1] != strconv.Itoa(wire.ProtocolMajor) {
		h.major = fmt.Errorf("major %.20q", parts[1])
	}
	h.socket = parts[3]
	h.address = checkSocket(parts[2], parts[3], dir)
	if parts[4] != string(plugin.ProtocolGRPC) {
		h.protocol = fmt.Errorf("protocol %.20q", parts[4])
	}
	sent := ""
	if len(parts) > 5 {
		sent = parts[5]
	}
	switch {
	case tls && sent == "":
		h.certificate = errors.New("no certificate")
	case tls:
		h.cert, h.certificate = parseCertificate(sent)
	case sent != "":
		h.certificate = errors.New("a certificate that was not asked for")
	}
	return h
}

func checkSocket(network, path, dir string) error {
	if network != "unix" {
		return fmt.Errorf("network %.20q, address %.200q", network, path)
	}
	if filepath.Dir(filepath.Clean(path)) != filepath.Clean(dir) {
		return fmt.Errorf("socket %.200q, not in %s", path, dir)
	}
	stat, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("socket cannot be seen: %w", err)
	}
	if stat.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is not a socket", path)
	}
	return nil
}

// broken reports whether nobody can connect with it.
func (h *handshake) broken() bool {
	return errors.Join(h.line, h.major, h.address, h.protocol, h.certificate) != nil
}
