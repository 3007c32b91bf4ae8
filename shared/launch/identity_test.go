package launch

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/shared/wire"
)

// What of a certificate a TLS library may not be able to take.
type likeness struct {
	Curve, Signature, Subject, Issuer string
	Names                             []string
	Usage                             x509.KeyUsage
	Extended                          []x509.ExtKeyUsage
	CA, Constrained                   bool
	Days                              int
}

func likenessOf(t *testing.T, text []byte) likeness {
	t.Helper()
	block, _ := pem.Decode(text)
	if block == nil {
		t.Fatalf("%q is no PEM", text)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	key, ok := c.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		t.Fatalf("a key of type %T", c.PublicKey)
	}
	return likeness{
		Curve: key.Params().Name, Signature: c.SignatureAlgorithm.String(), Subject: c.Subject.String(), Issuer: c.Issuer.String(),
		Names: c.DNSNames, Usage: c.KeyUsage, Extended: c.ExtKeyUsage, CA: c.IsCA, Constrained: c.BasicConstraintsValid,
		Days: int(c.NotAfter.Sub(c.NotBefore) / (24 * time.Hour)),
	}
}

// A TLS library that cannot take the daemon's certificate passed verify while
// verify's own was on another curve.
func TestPluginsAreShownTheDaemonsKindOfCertificate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "certificate")
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: wire.Handshake, VersionedPlugins: wire.ServerPlugins(eviction.Plugin{}), AutoMTLS: true,
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              exec.Command("/bin/sh", "-c", `printf %s "$PLUGIN_CLIENT_CERT" > "$0"; exit 1`, file),
	})
	defer client.Kill()
	if _, err := client.Start(); err == nil {
		t.Fatal("want an error from something that is no plugin")
	}
	daemons := testos.ReadFile(t, file)
	own, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(likenessOf(t, daemons), likenessOf(t, []byte(own.PEM))); diff != "" {
		t.Errorf("verify's certificate is not like the daemon's (-daemon +verify):\n%s", diff)
	}
}
