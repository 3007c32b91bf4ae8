package summary

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/test/harness/leaks"
)

func TestOptionsAreRefusedAllAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    []string
	}{
		"no address":         {Options{}, []string{"address: ", wantAddress}},
		"plain HTTP":         {Options{Address: "http://127.0.0.1:10255"}, []string{`scheme "http"`, wantAddress}},
		"not a URL":          {Options{Address: "https://hidden\n"}, []string{"address: not a URL"}},
		"no host":            {Options{Address: "https:///stats"}, []string{"address: has no host"}},
		"a user in it":       {Options{Address: "https://me:hidden@host"}, []string{"address: has a user"}},
		"a query in it":      {Options{Address: "https://host/?token=hidden"}, []string{"address: has a user, a query"}},
		"a relative socket":  {Options{Address: "unix://kubelet.sock"}, []string{"three slashes"}},
		"a token as file":    {Options{Address: "https://host", TokenFile: "hidden"}, []string{"tokenFile: want an absolute path"}},
		"a half pair":        {Options{Address: "https://host", CertFile: "/cert"}, []string{"certFile: want keyFile"}},
		"insecure with a CA": {Options{Address: "https://host", CAFile: "/ca", InsecureSkipVerify: true}, []string{"insecureSkipVerify: want it without caFile"}},
		"a token for a file, and more": {
			Options{Address: "file:///summary", TokenFile: "/t", ServerName: "x", InsecureSkipVerify: true, Timeout: metav1.Duration{Duration: -1}},
			[]string{"tokenFile: only", "serverName: only", "insecureSkipVerify: only", "timeout: -1ns"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(c.options)
			wantError(t, err, c.want...)
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("error shows what may be a secret: %v", err)
			}
		})
	}
}

func TestSocketSource(t *testing.T) {
	leaks.None(t)
	path := serveUnix(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
	})
	wantSummary(t, open(t, Options{Address: "unix://" + path}), `{"path":"/stats/summary"}`)

	_, err := open(t, Options{Address: "unix://" + path + "2"}).Fetch(t.Context())
	wantError(t, err, "unix://"+path+"2", "want a kubelet that listens there")

	hung := serveUnix(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	late := open(t, Options{Address: "unix://" + hung, Timeout: metav1.Duration{Duration: 100 * time.Millisecond}})
	late.timeout = late.wait
	_, err = late.Fetch(t.Context())
	wantError(t, err, "unix://"+hung, "no whole answer within 100ms")

	endless := serveUnix(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for err := error(nil); err == nil; {
			_, err = w.Write(chunk)
		}
	})
	_, err = open(t, Options{Address: "unix://" + endless, Timeout: metav1.Duration{Duration: time.Minute}}).Fetch(t.Context())
	wantError(t, err, "unix://"+endless, "more than 67108864 bytes")
}

func TestFileSource(t *testing.T) {
	leaks.None(t)
	path := filepath.Join(t.TempDir(), "summary.json")
	source := open(t, Options{Address: "file://" + path})
	fetch := func() error {
		_, err := source.Fetch(t.Context())
		return err
	}
	wantError(t, fetch(), "file://"+path, "no such file")
	write(t, path, "{}\n")
	wantSummary(t, source, "{}\n")
	write(t, path, `{"node":{}}`)
	wantSummary(t, source, `{"node":{}}`)
	write(t, path, `{"node":`)
	wantError(t, fetch(), "file://"+path, "ends early")
	if err := os.Truncate(path, maxBytes+1); err != nil { // sparse
		t.Fatal(err)
	}
	wantError(t, fetch(), path+": is larger than 64 MiB")
	_ = os.Remove(path)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	wantError(t, fetch(), path+": is a pipe, want a regular file")
}

func TestFunctionSource(t *testing.T) {
	leaks.None(t)
	source := FromFunc(func(context.Context) ([]byte, error) { return []byte("{}"), nil }, 0)
	wantSummary(t, source, "{}")

	broken := errors.New("no stats yet")
	_, err := FromFunc(func(context.Context) ([]byte, error) { return nil, broken }, 0).Fetch(t.Context())
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want %v in it", err, broken)
	}
	_, err = FromFunc(func(context.Context) ([]byte, error) { return []byte("null"), nil }, 0).Fetch(t.Context())
	wantError(t, err, "embedding program", "want a JSON object")
	_, err = FromFunc(func(context.Context) ([]byte, error) { return make([]byte, maxBytes+1), nil }, 0).Fetch(t.Context())
	wantError(t, err, "more than 67108864 bytes")
}

func TestACallerWhoGivesUpWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := FromFunc(func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := source.Fetch(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want that of the caller", err)
		}
	})
}
