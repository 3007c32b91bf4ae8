package summary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"

	"github.com/evictd/evictd/test/harness/leaks"
	"github.com/evictd/evictd/test/harness/testos"
)

const (
	before = eviction.ViewBefore
	after  = eviction.ViewAfterReclaim
)

// serve starts a server whose source is f.
func serve(t *testing.T, f func(context.Context) ([]byte, error)) *Server {
	t.Helper()
	dir := filepath.Join(socketDir(t), "own")
	testos.Mkdir(t, dir, 0o700)
	s, err := Listen(dir, FromFunc(f, 0), slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s)
	return s
}

// counting returns a source whose answers differ.
func counting() func(context.Context) ([]byte, error) {
	var fetches atomic.Int32
	return func(context.Context) ([]byte, error) {
		return fmt.Appendf(nil, `{"fetch":%d}`, fetches.Add(1)), nil
	}
}

// plugin returns a client of s as a plugin has one.
func plugin(t *testing.T, s *Server) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.Socket())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) String() string { return fmt.Sprintf("%d %s", r.status, r.body) }

func ask(t *testing.T, c *http.Client, query string) reply {
	t.Helper()
	r, err := try(t.Context(), c, query)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func try(ctx context.Context, c *http.Client, query string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://evictd/summary?"+query, http.NoBody)
	if err != nil {
		return reply{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, strings.TrimSpace(string(body))}, err
}

func wantReply(t *testing.T, got reply, want string) {
	t.Helper()
	if got.String() != want {
		t.Errorf("answer %q, want %q", got, want)
	}
}

func TestTenPluginsShareOneFetch(t *testing.T) {
	for name, c := range map[string]struct {
		summary string
		err     error
		want    string
	}{
		"its bytes": {`{"node":{}}`, nil, `200 {"node":{}}`},
		"its error": {"", errors.New("no\nstats"), "503 get summary from the embedding program: no stats"},
	} {
		t.Run(name, func(t *testing.T) {
			leaks.None(t)
			var fetches atomic.Int32
			fetching, release := make(chan struct{}), make(chan struct{})
			s := serve(t, func(context.Context) ([]byte, error) {
				if fetches.Add(1) == 1 {
					close(fetching)
				}
				<-release
				return []byte(c.summary), c.err
			})
			s.Begin(eviction.PassView{Pass: 7, View: before})
			replies := make(chan reply, 10)
			var plugins sync.WaitGroup
			for range cap(replies) {
				client := plugin(t, s)
				plugins.Go(func() {
					r, err := try(t.Context(), client, "pass=7&view=before")
					if err != nil {
						t.Error(err)
					}
					replies <- r
				})
				receive(t, fetching, "fetch")
			}
			close(release)
			plugins.Wait()
			for range cap(replies) {
				wantReply(t, <-replies, c.want)
			}
			if _, err := s.answers.get(t.Context(), eviction.PassView{Pass: 7, View: before}); !errors.Is(err, c.err) {
				t.Errorf("the host gets %v, want %v", err, c.err)
			}
			if n := fetches.Load(); n != 1 {
				t.Errorf("%d fetches, want 1", n)
			}
		})
	}
}

func TestAnswersAreKeptForTwoPasses(t *testing.T) {
	leaks.None(t)
	s := serve(t, counting())
	c := plugin(t, s)
	wantReply(t, ask(t, c, "pass=1&view=before"), "404 pass 1 view before: the host does not run it now")
	s.Begin(eviction.PassView{Pass: 1, View: before})
	wantReply(t, ask(t, c, "pass=1&view=before"), `200 {"fetch":1}`)
	wantReply(t, ask(t, c, "pass=1&view=after-reclaim"), "404 pass 1 view after-reclaim: the host does not run it now")
	s.Begin(eviction.PassView{Pass: 1, View: after})
	s.Begin(eviction.PassView{Pass: 1, View: before}) // changes nothing
	wantReply(t, ask(t, c, "pass=1&view=after-reclaim"), `200 {"fetch":2}`)
	wantReply(t, ask(t, c, "pass=1&view=before"), `200 {"fetch":1}`)

	s.Begin(eviction.PassView{Pass: 2, View: before})
	s.Begin(eviction.PassView{Pass: 2, View: after})
	wantReply(t, ask(t, c, "pass=1&view=before"), `200 {"fetch":1}`)
	if got, err := s.answers.get(t.Context(), eviction.PassView{Pass: 2, View: before}); err != nil || string(got) != `{"fetch":3}` {
		t.Errorf("the host gets %q, %v, want the third fetch", got, err)
	}
	wantReply(t, ask(t, c, "pass=2&view=before"), `200 {"fetch":3}`)

	s.Begin(eviction.PassView{Pass: 3, View: before})
	wantReply(t, ask(t, c, "pass=1&view=before"), "404 pass 1 view before: the host does not run it now")
	wantReply(t, ask(t, c, "pass=2&view=after-reclaim"), "404 pass 2 view after-reclaim: the host does not run it now")
	wantReply(t, ask(t, c, "pass=2&view=before"), `200 {"fetch":3}`)
	wantReply(t, ask(t, c, "pass=3&view=before"), `200 {"fetch":4}`)
}

func TestARequestThatIsNotInTheProtocolIsRefused(t *testing.T) {
	leaks.None(t)
	s := serve(t, counting())
	s.Begin(eviction.PassView{Pass: 1, View: before})
	c := plugin(t, s)
	for query, want := range map[string]string{
		"":                        `400 pass is "", want a number`,
		"pass=-1&view=before":     `400 pass is "-1", want a number`,
		"pass=1&view=now":         `400 view is "now", want before or after-reclaim`,
		"pass=1;view=before":      "400 query is malformed, want pass=N&view=before",
		"pass=1&view=before&new=": `200 {"fetch":1}`,
	} {
		wantReply(t, ask(t, c, query), want)
	}
	for name, r := range map[string]struct {
		method, path, body string
		want               int
	}{
		"another path":   {http.MethodGet, "/", "", http.StatusNotFound},
		"another method": {http.MethodDelete, "/summary?pass=1&view=before", "", http.StatusMethodNotAllowed},
		"a body":         {http.MethodGet, "/summary?pass=1&view=before", "text", http.StatusBadRequest},
	} {
		req, err := http.NewRequestWithContext(t.Context(), r.method, "http://evictd"+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		if r.body == "" {
			req.Body = http.NoBody
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != r.want {
			t.Errorf("%s: %s, want %d", name, resp.Status, r.want)
		}
	}
}

func TestAnswersCarryTheLayout(t *testing.T) {
	leaks.None(t)
	var broken error
	s := serve(t, func(context.Context) ([]byte, error) { return []byte("{}"), broken })
	c := plugin(t, s)
	for i, step := range []struct {
		layout summaryapi.Layout
		broken error
		want   [3]string
	}{
		{layout: summaryapi.Layout{}},
		{layout: summaryapi.Layout{InForce: eviction.LayoutShared}, want: [3]string{"shared"}},
		{layout: summaryapi.Layout{InForce: eviction.LayoutContainerFs}, broken: errors.New("no stats"), want: [3]string{"containerfs"}},
		{layout: summaryapi.Layout{InForce: eviction.LayoutImageFs, ContainerFsErr: "two\nlines\x00"}, want: [3]string{"imagefs", "", "two lines?"}},
		{layout: summaryapi.Layout{ImageFsErr: "nö"}, want: [3]string{"", "nö", ""}},
	} {
		broken = step.broken
		s.SetLayout(step.layout)
		s.Begin(eviction.PassView{Pass: uint64(i), View: before})
		r := ask(t, c, fmt.Sprintf("pass=%d&view=before", i))
		got := [3]string{r.header.Get(summaryapi.HeaderLayout), r.header.Get(summaryapi.HeaderImageFsError), r.header.Get(summaryapi.HeaderContainerFsError)}
		if got != step.want {
			t.Errorf("%+v: headers %q, want %q", step.layout, got, step.want)
		}
	}
	if r := ask(t, c, "pass=0&view=before"); r.header.Get(summaryapi.HeaderImageFsError) != "" {
		t.Error("a refusal has a layout")
	}
}

func TestAPluginThatGivesUpCancelsNothing(t *testing.T) {
	leaks.None(t)
	fetching, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(ctx context.Context) ([]byte, error) {
		close(fetching)
		select {
		case <-release:
			return []byte("{}"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
	s.Begin(eviction.PassView{Pass: 1, View: before})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := try(ctx, plugin(t, s), "pass=1&view=before")
		gone <- err
	}()
	receive(t, fetching, "fetch")
	cancel()
	if err := receive(t, gone, "end of the request"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if _, err := s.answers.get(ctx, eviction.PassView{Pass: 1, View: before}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	close(release)
	wantReply(t, ask(t, plugin(t, s), "pass=1&view=before"), "200 {}")
}

func TestAFetchForAPassThatIsLongOverEnds(t *testing.T) {
	leaks.None(t)
	fetching := make(chan struct{}, 1)
	s := serve(t, func(ctx context.Context) ([]byte, error) {
		fetching <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s.Begin(eviction.PassView{Pass: 1, View: before})
	got := make(chan reply)
	go func() {
		r, _ := try(t.Context(), plugin(t, s), "pass=1&view=before")
		got <- r
	}()
	receive(t, fetching, "fetch")
	s.Begin(eviction.PassView{Pass: 2, View: before})
	s.Begin(eviction.PassView{Pass: 3, View: before})
	wantReply(t, receive(t, got, "answer"), "404 the host does not run it now")
}

// A kubelet whose summary took longer than a pass waits never had one used.
func TestASummaryThatComesLateCountsForTheNextViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches := 0
		source := newSource("test", time.Second, func(ctx context.Context) ([]byte, error) {
			fetches++
			summary := fmt.Appendf(nil, `{"fetch": %d}`, fetches)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(6 * time.Second):
				return summary, nil
			}
		})
		source.timeout = lateTimeout
		v := views{source: source, fetched: answers.New("summary", source.timeout, source.Fetch), begun: map[eviction.PassView]*answer{}}
		defer v.close()
		var got []string
		for pass := range uint64(8) {
			at := eviction.PassView{Pass: pass, View: before}
			v.begin(at)
			summary, err := v.get(t.Context(), at)
			if err != nil {
				summary = []byte("-")
			}
			got = append(got, string(summary))
			time.Sleep(time.Second) // a pass every two seconds
		}
		if want := `- - - {"fetch": 1} {"fetch": 1} {"fetch": 1} {"fetch": 2} {"fetch": 2}`; strings.Join(got, " ") != want {
			t.Errorf("%s, want %s", strings.Join(got, " "), want)
		}
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	leaks.None(t)
	fetching := make(chan struct{}, 1)
	s := serve(t, func(ctx context.Context) ([]byte, error) {
		fetching <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s.Begin(eviction.PassView{Pass: 1, View: before})
	replies := make(chan reply, 5)
	for range cap(replies) {
		go func() {
			r, err := try(t.Context(), plugin(t, s), "pass=1&view=before")
			if err != nil {
				r.body = err.Error()
			}
			replies <- r
		}()
	}
	receive(t, fetching, "fetch")
	// All five must be inside, or Close may refuse some before they are served.
	if !eventually(func() bool { return s.http.Count() == cap(replies) }) {
		t.Fatal("not all have connected")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for range cap(replies) {
		if r := receive(t, replies, "answer"); r.status != http.StatusInternalServerError && r.status != 0 {
			t.Errorf("answer %q, want 500 or none", r)
		}
	}
	if _, err := s.answers.get(t.Context(), eviction.PassView{Pass: 1, View: before}); !errors.Is(err, errClosed) {
		t.Errorf("error %v after Close, want %v", err, errClosed)
	}
	if _, err := os.Lstat(s.Socket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is there after Close: %v", err)
	}
}

func TestTheSocketIsPrivate(t *testing.T) {
	leaks.None(t)
	s := serve(t, counting())
	if info, err := os.Lstat(s.Socket()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket %v, %v, want mode 0600", info.Mode(), err)
	}
	log := slog.New(slog.DiscardHandler)
	dir := socketDir(t)
	testos.Chmod(t, dir, 0o750)
	_, err := Listen(dir, &Source{}, log)
	wantError(t, err, dir+" has mode 0750, want 0700 or 0711")
	_, err = Listen(s.Socket(), &Source{}, log)
	wantError(t, err, "is not a directory")
	long := filepath.Join(dir, strings.Repeat("x", 100))
	testos.Mkdir(t, long, 0o700)
	_, err = Listen(long, &Source{}, log)
	wantError(t, err, "want at most 107 for a socket")
}

func TestTheSocketOfAKilledPredecessorIsReplaced(t *testing.T) {
	leaks.None(t)
	dir := socketDir(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketName)})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	s, err := Listen(dir, FromFunc(counting(), 0), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, s)
	s.Begin(eviction.PassView{Pass: 1, View: before})
	wantReply(t, ask(t, plugin(t, s), "pass=1&view=before"), `200 {"fetch":1}`)
}
