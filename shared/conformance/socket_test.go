package conformance

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// listening serves a plugin in this process on a socket.
func listening(t *testing.T, p eviction.Plugin) (socket string) {
	t.Helper()
	dir, err := privateDir()
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "p.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := wire.NewGRPCServer([]grpc.ServerOption{grpc.UnaryInterceptor(catchUnary), grpc.StreamInterceptor(catchStream)})
	wire.Register(s, p)
	status := health.NewServer()
	status.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s, status)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		_ = os.RemoveAll(dir)
	})
	return socket
}

// What a value is caught at, it is caught at on a socket.
func TestFaultyPluginsOnASocketFailForTheRightReason(t *testing.T) {
	if !whole() {
		t.Skip("takes a minute: run make test")
	}
	groups := map[string]int{}
	faults := valueFaults()
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		f := faults[name]
		group := groupOf(f.fails[0])
		if groups[group]++; (groups[group] > 2 || group == "steady") && os.Getenv("EVICTD_NIGHTLY") == "" {
			continue // the checks are those of a value, and the steady ones take long
		}
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(f.fails, "steady-scale") { // as on a value
				t.Parallel()
			}
			s := newSound()
			p := s.plugin()
			f.spoil(s, &p)
			if p.Validate() != nil {
				t.Skip("is not served")
			}
			o := faultOptions(f.text, f.fails)
			o.Reclaim, o.Only = true, []string{groupOf(f.fails[0])}
			r, err := Socket(t.Context(), listening(t, p), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := judge(&r, f.text, f.fails...); err != nil {
				t.Error(err)
			}
		})
	}
}

// Faults of a process that do not concern its start and end.
func TestFaultyProcessesOnASocketFailForTheRightReason(t *testing.T) {
	if !whole() {
		t.Skip("takes seconds: run make test")
	}
	for fault, f := range map[string]struct{ text, fails string }{
		"leaks-descriptors":       {"after the checks of rank", "descriptors"},
		"leaks-memory":            {"after the checks of rank", "memory"},
		"crashes-with-many":       {"its connection ended", "rank-500"},
		"crashes-in-describe":     {"its connection ended", "describe"},
		"crashes-when-configured": {"its connection ended", "configure"},
		"no-health":               {"Unimplemented", "health"},
		"none":                    {},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			dir, err := privateDir()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			socket := filepath.Join(dir, "p.sock")
			serveOutside(t, socket, fault)
			o := Options{Reclaim: true, deadlineFactor: 4, Timeout: 2 * time.Minute}
			if strings.HasPrefix(fault, "leaks-") {
				o.Only = singleCalls
			}
			r, err := Socket(t.Context(), socket, o)
			if err != nil {
				t.Fatal(err)
			}
			if f.fails == "" {
				if failed := failures(&r); len(failed) > 0 {
					t.Errorf("failed: %q", failed)
				}
				return
			}
			n := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == f.fails })
			if n < 0 || r.Checks[n].Result != Failed || !strings.Contains(r.Checks[n].Seen, f.text) {
				t.Errorf("failed: %q, want %s with %q", failures(&r), f.fails, f.text)
			}
		})
	}
}
