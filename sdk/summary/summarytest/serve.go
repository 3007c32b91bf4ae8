// Package summarytest provides the host's side of package summary for tests of plugins: a private
// socket with summaries from a function. It keeps the host's protocol, but shares no code with it.
package summarytest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

// An Answer is the host's answer for one pass and view.
type Answer struct {
	// Summary is the kubelet's JSON.
	Summary string
	// Err says why there is no summary, "" if there is one.
	Err string
	// Layout, ImageFsErr and ContainerFsErr are sent as headers unless empty.
	Layout         string
	ImageFsErr     string
	ContainerFsErr string
}

// Serve serves answers on a new socket until the test ends. It is safe for concurrent use;
// answer is called concurrently.
func Serve(t testing.TB, answer func(pass uint64, view eviction.View) Answer) (socket string) {
	t.Helper()
	return ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, err := summaryapi.ParseQuery(r.URL.RawQuery)
		if r.Method != http.MethodGet || r.URL.Path != summaryapi.Path || err != nil {
			http.Error(w, "not in the protocol: "+r.Method+" "+r.URL.String(), http.StatusNotFound)
			return
		}
		write(w, answer(at.Pass, at.View))
	}))
}

// ServeHTTP serves any handler on a new socket until the test ends, to simulate hosts that
// break the protocol.
func ServeHTTP(t testing.TB, h http.Handler) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "summary") // the test's directory may be too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

func write(w http.ResponseWriter, a Answer) {
	for header, value := range map[string]string{
		summaryapi.HeaderLayout:           a.Layout,
		summaryapi.HeaderImageFsError:     a.ImageFsErr,
		summaryapi.HeaderContainerFsError: a.ContainerFsErr,
	} {
		if value != "" {
			w.Header().Set(header, value)
		}
	}
	if a.Err != "" {
		http.Error(w, a.Err, http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, a.Summary) // ignore a client that went away
}
