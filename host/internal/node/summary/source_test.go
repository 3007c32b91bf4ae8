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

func TestOptionsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		options Options
		want    string
	}{
		"no kubeconfig":           {Options{}, "kubeconfig: "},
		"a relative path":         {Options{Kubeconfig: "kubeconfig"}, "want an absolute path"},
		"a timeout of minus 1 ns": {Options{Kubeconfig: "/k", Timeout: metav1.Duration{Duration: -1}}, "timeout: -1ns"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(c.options)
			wantError(t, err, c.want)
		})
	}
}

func TestAKubeconfigThatIsNoneForASummaryIsRefused(t *testing.T) {
	_, text := clientPair(t, "some")
	pem := write(t, filepath.Join(t.TempDir(), "pem"), text)
	for name, c := range map[string]struct {
		given given
		want  []string
	}{
		"no server":          {given{}, []string{"invalid configuration"}},
		"plain HTTP":         {given{Address: "http://127.0.0.1:10255"}, []string{`server: scheme "http"`, wantServer}},
		"not a URL":          {given{Address: "https://hidden\n"}, []string{"server: not a URL"}},
		"no host":            {given{Address: "https:///stats"}, []string{"server: has no host"}},
		"a user in it":       {given{Address: "https://me:hidden@host"}, []string{"server: has a user"}},
		"a query in it":      {given{Address: "https://host?token=hidden"}, []string{"server: has a user, a query"}},
		"a relative socket":  {given{Address: "unix://kubelet.sock"}, []string{"three slashes"}},
		"a half pair":        {given{Address: "https://host", CertFile: pem}, []string{"invalid configuration"}},
		"insecure with a CA": {given{Address: "https://host", CAFile: pem, InsecureSkipVerify: true}, []string{"insecure"}},
		"a command for a token": {
			given{Address: "https://host", User: "exec: {apiVersion: client.authentication.k8s.io/v1, command: hidden, interactiveMode: Never}"},
			[]string{"has exec", "want a token or a client certificate"},
		},
		"a password": {given{Address: "https://host", User: "username: me\n    password: hidden"}, []string{"a password"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, c.given).Fetch(t.Context())
			wantError(t, err, c.want...)
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("error shows what may be a secret: %v", err)
			}
		})
	}
}

// What an operator changes in the kubeconfig counts for the next pass.
func TestAKubeconfigIsFollowed(t *testing.T) {
	leaks.None(t)
	one := serveUnix(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"node":1}`) })
	two := serveUnix(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"node":2}`) })
	path := filepath.Join(t.TempDir(), "kubeconfig")
	source := openFile(t, path, 0)
	_, err := source.Fetch(t.Context())
	wantError(t, err, path, "no such file")
	write(t, path, given{Address: "unix://" + one}.kubeconfig())
	wantSummary(t, source, `{"node":1}`)
	write(t, path, given{Address: "unix://" + two}.kubeconfig())
	wantSummary(t, source, `{"node":2}`)
	if source.Unverified() {
		t.Error("a socket is not verified")
	}
}

func TestSocketSource(t *testing.T) {
	leaks.None(t)
	path := serveUnix(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
	})
	wantSummary(t, open(t, given{Address: "unix://" + path}), `{"path":"/stats/summary"}`)

	_, err := open(t, given{Address: "unix://" + path + "2"}).Fetch(t.Context())
	wantError(t, err, "unix://"+path+"2", "want a kubelet that listens there")

	hung := serveUnix(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	late := open(t, given{Address: "unix://" + hung, Timeout: 100 * time.Millisecond})
	late.timeout = late.wait
	_, err = late.Fetch(t.Context())
	wantError(t, err, "unix://"+hung, "no whole answer within 100ms")

	endless := serveUnix(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<20)
		for err := error(nil); err == nil; {
			_, err = w.Write(chunk)
		}
	})
	_, err = open(t, given{Address: "unix://" + endless, Timeout: time.Minute}).Fetch(t.Context())
	wantError(t, err, "unix://"+endless, "more than 67108864 bytes")
}

func TestFileSource(t *testing.T) {
	leaks.None(t)
	path := filepath.Join(t.TempDir(), "summary.json")
	source := open(t, given{Address: "file://" + path})
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
