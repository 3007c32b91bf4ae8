package crisocket_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/crisocket"
	"github.com/evictd/evictd/shared/nodefs"
)

// A kubelet's file with unix:/run/containerd/containerd.sock was refused.
func TestSpellingsOfASocket(t *testing.T) {
	const want = "unix:///run/x.sock"
	for _, text := range []string{want, "/run/x.sock", "unix:/run/x.sock", "UNIX:///run/x.sock", "unix://localhost/run/x.sock", "unix:///run//./x.sock", "unix:////run/x.sock"} {
		if got := crisocket.Endpoint(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "unix://run/x.sock", "tcp://localhost/run/x.sock", "run/x.sock", "unix:run/x.sock", "npipe:////./pipe/x", "unix:///%zz"} {
		if got := crisocket.Endpoint(text); got != text {
			t.Errorf("%s: %s, want it as it is", text, got)
		}
	}
}

// The node has /var/run as a link to /run, as Debian does: seen from a container, the link led to the container's own /run.
func TestASocketBelowALinkOfTheNodeIsFound(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "var"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		t.Fatal(err)
	}
	conn, err := crisocket.Dial(nodefs.FS{Root: root}, "unix://"+root+"/var/run/x.sock", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // at the end
	conn.Connect()
	time.Sleep(100 * time.Millisecond) // the socket is made after the first attempt
	if err := os.Mkdir(filepath.Join(root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(root, "run/x.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }() // at the end
	conn.ResetConnectBackoff()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = accepted.Close() // at the end
}
