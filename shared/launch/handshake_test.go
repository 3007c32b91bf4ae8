package launch

import (
	"encoding/base64"
	"path/filepath"
	"strings"
	"testing"
)

// field is a certificate as a plugin sends it.
func field(t *testing.T) string {
	t.Helper()
	i, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawStdEncoding.EncodeToString(i.pair.Certificate[0])
}

func TestHandshakeLine(t *testing.T) {
	for name, c := range map[string]struct {
		line string
		mtls bool
		want string
	}{
		"good":                    {"1|1|unix|/s/x|grpc|", false, ""},
		"good, with certificate":  {"1|1|unix|/s/x|grpc|" + field(t), true, ""},
		"no certificate":          {"1|1|unix|/s/x|grpc|", true, "sent no certificate"},
		"rubbish for one":         {"1|1|unix|/s/x|grpc|QUJD", true, "certificate is not DER"},
		"one that is not wanted":  {"1|1|unix|/s/x|grpc|QUJD", false, "sent a certificate, want none"},
		"socket of somebody else": {"1|1|unix|/run/containerd.sock|grpc|", false, "want a unix socket directly in /s"},
		"dots":                    {"1|1|unix|/s/../run/x|grpc|", false, "want a unix socket directly in /s"},
		"core version":            {"2|1|unix|/s/x|grpc|", false, "want go-plugin's handshake first"},
		"all at once":             {"1|7|tcp|h:1|netrpc|", true, "protocol major 7"},
	} {
		_, err := parse(c.line, "/s", c.mtls)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func FuzzHandshakeLine(f *testing.F) {
	for _, line := range []string{"1|1|unix|/s/x|grpc|", "1|1|unix|/s/x|grpc|QUJD", "1|9|tcp|:1|netrpc", "hello", "||||||", "1|1|unix|\x00|grpc|\xff"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		_, plain := parse(line, "/s", false)
		_, tls := parse(line, "/s", true)
		if plain == nil && tls == nil {
			t.Errorf("%q is good with a certificate and without", line)
		}
		if h, err := parse(line, "/s", false); err == nil && filepath.Dir(filepath.Clean(h.Socket)) != "/s" {
			t.Errorf("%q has the socket %q outside of its directory", line, h.Socket)
		}
	})
}
