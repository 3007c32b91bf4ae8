package cri

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evictd/evictd/test/fakes/fakecri"
)

func portIn(t *testing.T, of *httptest.Server) int {
	t.Helper()
	u, err := url.Parse(of.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// serve has a server tell of each request that it has got.
func serve(t *testing.T, secure bool, answer http.HandlerFunc) (*httptest.Server, <-chan *http.Request) {
	t.Helper()
	got := make(chan *http.Request, 10)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		if answer != nil {
			answer(w, r)
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	if secure {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s, got
}

// A hook that asks the container's server, as a kubelet asks it.
func TestAnHTTPHook(t *testing.T) {
	type request = struct{ path, host, agent, accept, header string }
	usual := request{path: "/bye?now=1", agent: "kube-lifecycle/1.36", accept: "*/*"}
	for name, c := range map[string]struct {
		secure bool
		answer http.HandlerFunc
		hook   v1.HTTPGetAction
		named  bool
		want   request
		twice  bool
		fails  string
	}{
		"plain":                {hook: v1.HTTPGetAction{Path: "/bye?now=1"}, want: usual},
		"without a slash":      {hook: v1.HTTPGetAction{Path: "bye?now=1", Scheme: v1.URISchemeHTTP}, want: usual},
		"to a port by name":    {hook: v1.HTTPGetAction{Path: "/bye?now=1"}, named: true, want: usual},
		"to a host by name":    {hook: v1.HTTPGetAction{Path: "/bye?now=1", Host: "localhost"}, want: usual},
		"over TLS, unverified": {secure: true, hook: v1.HTTPGetAction{Path: "/bye?now=1", Scheme: v1.URISchemeHTTPS}, want: usual},
		"over TLS to a server that has none": {
			hook: v1.HTTPGetAction{Path: "/bye?now=1", Scheme: v1.URISchemeHTTPS, HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: "secret"}}}, want: usual,
		},
		"with headers": {
			hook: v1.HTTPGetAction{Path: "/", HTTPHeaders: []v1.HTTPHeader{{Name: "host", Value: "me.example"}, {Name: "user-agent", Value: "own"}, {Name: "X-Own", Value: "a"}, {Name: "X-Own", Value: "b"}}},
			want: request{path: "/", host: "me.example", agent: "own", accept: "*/*", header: "a,b"},
		},
		"that is refused": {
			answer: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
			hook:   v1.HTTPGetAction{Path: "/bye?now=1"}, want: usual, fails: "answers 403 Forbidden",
		},
		"that is sent on": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/old" {
					http.Redirect(w, r, "/bye?now=1", http.StatusFound)
				}
			},
			hook: v1.HTTPGetAction{Path: "/old"}, want: usual, twice: true,
		},
		"that is sent elsewhere, where no pod goes": {
			answer: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
			},
			hook: v1.HTTPGetAction{Path: "/bye?now=1"}, want: usual,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server, got := serve(t, c.secure, c.answer)
			of := part{name: "main", hook: &v1.LifecycleHandler{HTTPGet: &c.hook}}
			c.hook.Port = intstr.FromInt(portIn(t, server))
			s := fakecri.New()
			target := run(s, of)
			if c.named {
				c.hook.Port = intstr.FromString("web")
				target.API.Spec.Containers[0].Ports = []v1.ContainerPort{{Name: "other", ContainerPort: 1}, {Name: "web", ContainerPort: int32(portIn(t, server))}}
			}
			var reported bytes.Buffer
			if err := New(Options{Runtime: s.Client(), Log: logTo(&reported)}).Kill(t.Context(), with(target, 30)); err != nil {
				t.Fatal(err)
			}
			if c.fails == "" && !strings.Contains(reported.String(), "preStop hook ended") || !strings.Contains(reported.String(), c.fails) {
				t.Fatalf("log %q, want %q in it", reported.String(), c.fails)
			}
			if c.twice {
				<-got
			}
			r := <-got
			if auth := r.Header.Get("Authorization"); auth != "" {
				t.Errorf("sent %q without TLS", auth)
			}
			saw := request{r.RequestURI, c.want.host, r.UserAgent(), r.Header.Get("Accept"), strings.Join(r.Header["X-Own"], ",")}
			if c.want.host != "" {
				saw.host = r.Host
			}
			if saw != c.want {
				t.Errorf("the server saw %+v, want %+v", saw, c.want)
			}
		})
	}
}

func TestAnHTTPHookThatCannotBeSent(t *testing.T) {
	server, _ := serve(t, false, nil)
	port := intstr.FromInt(portIn(t, server))
	for name, c := range map[string]struct {
		hook v1.HTTPGetAction
		want string
	}{
		"nobody has the port's name": {v1.HTTPGetAction{Port: intstr.FromString("web")}, `port \"web\" is neither a number from 1 to 65535 nor the name of a port of the container`},
		"no port":                    {v1.HTTPGetAction{}, `port \"0\" is neither`},
		"another scheme":             {v1.HTTPGetAction{Port: port, Scheme: "GOPHER"}, `scheme \"GOPHER\" is unknown, want HTTP or HTTPS`},
		"a host that is none":        {v1.HTTPGetAction{Port: port, Host: "a b"}, "lifecycle.preStop.httpGet: "},
		"a header that is none":      {v1.HTTPGetAction{Port: port, HTTPHeaders: []v1.HTTPHeader{{Name: "a\nb", Value: "c"}}}, "lifecycle.preStop.httpGet: "},
		"nobody listens":             {v1.HTTPGetAction{Port: intstr.FromInt(1)}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := fakecri.New()
			target := run(s, part{name: "main", hook: &v1.LifecycleHandler{HTTPGet: &c.hook}})
			var reported bytes.Buffer
			if err := New(Options{Runtime: s.Client(), Log: logTo(&reported)}).Kill(t.Context(), with(target, 30)); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(reported.String(), "preStop hook failed") || !strings.Contains(reported.String(), c.want) || s.Running("u") {
				t.Errorf("log %q, running %v, want %q in it and the pod stopped", reported.String(), s.Running("u"), c.want)
			}
		})
	}
}

// A server that does not answer, or never comes to the end of its answer, has the time
// that the hook has.
func TestAnHTTPHookIsCutShort(t *testing.T) {
	for name, begin := range map[string]func(http.ResponseWriter){
		"no answer":      func(http.ResponseWriter) {},
		"half an answer": func(w http.ResponseWriter) { w.(http.Flusher).Flush() },
	} {
		t.Run(name, func(t *testing.T) {
			server, got := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
				begin(w)
				<-r.Context().Done()
			})
			h := hooks{web: newWeb()}
			ctx, cut := context.WithCancelCause(t.Context())
			go func() {
				<-got
				cut(errGraceOver)
			}()
			of := &v1.Container{Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.FromInt(portIn(t, server))}}}}
			if err := h.run(ctx, step{of: of}, nil); !errors.Is(err, errGraceOver) {
				t.Errorf("error %v, want that the grace is over", err)
			}
		})
	}
}

// A kubelet reaches a pod by its address, and one in the node's network by the node's.
func TestWhereAPodIsReached(t *testing.T) {
	s := fakecri.New()
	h := hooks{s.Client(), newWeb()}
	for ip, want := range map[string]string{"10.1.2.3": "10.1.2.3", "fd00::7": "fd00::7", "": nodeAddress()} {
		added := s.Add(fakecri.Pod{UID: "u" + ip, IP: ip})
		if got, err := h.podIP(t.Context(), []string{"a former one", added.SandboxID}); got != want || err != nil {
			t.Errorf("pod with the address %q is reached at %q, %v, want %q", ip, got, err, want)
		}
	}
	if net.ParseIP(nodeAddress()) == nil {
		t.Errorf("the node's address is %q", nodeAddress())
	}
	for what, sandboxes := range map[string][]string{"no sandbox": nil, "gone": {"gone"}} {
		if got, err := h.podIP(t.Context(), sandboxes); err == nil {
			t.Errorf("%s: reached at %q, want an error", what, got)
		}
	}
	r, err := request(t.Context(), &v1.HTTPGetAction{Port: intstr.FromInt(80)}, nil, "fd00::7")
	if err != nil || r.URL.String() != "http://[fd00::7]:80/" {
		t.Errorf("%v, %v, want a URL with the address in brackets", r, err)
	}
}
