package summary_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/sdk/summary/summarytest"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

func pidNode(running uint64) string {
	return fmt.Sprintf(`{"node":{"rlimit":{"maxpid":1000,"curproc":%d}},"pods":[{"podRef":{"uid":"u"},"process_stats":{"process_count":7}}]}`, running)
}

func TestEachPassAndViewIsFetchedOnce(t *testing.T) {
	var mu sync.Mutex
	fetched := make(map[string]int)
	socket := summarytest.Serve(t, func(pass uint64, view eviction.View) summarytest.Answer {
		mu.Lock()
		defer mu.Unlock()
		fetched[fmt.Sprintf("%d %s", pass, summaryapi.ViewName(view))]++
		return summarytest.Answer{Summary: pidNode(pass)}
	})
	s := &summary.Source{Socket: socket}
	defer s.Close()
	for _, pass := range []uint64{7, 8, 7, 8} { // limits of 7 are measured while 8 has begun
		for _, view := range []eviction.View{eviction.ViewBefore, eviction.ViewAfterReclaim} {
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					sum, err := s.Get(t.Context(), eviction.PassView{Pass: pass, View: view})
					if err != nil || sum.Node.Rlimit.Running != eviction.Some(int64(pass)) {
						t.Errorf("pass %d: got %+v, %v", pass, sum, err)
					}
				})
			}
			wg.Wait()
		}
	}
	want := map[string]int{"7 before": 1, "7 after-reclaim": 1, "8 before": 1, "8 after-reclaim": 1}
	if diff := cmp.Diff(want, fetched); diff != "" {
		t.Errorf("fetches (-want +got):\n%s", diff)
	}
}

func TestOldPassesAreForgotten(t *testing.T) {
	var fetches atomic.Int32
	socket := summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer {
		fetches.Add(1)
		return summarytest.Answer{Summary: pidNode(1)}
	})
	s := &summary.Source{Socket: socket}
	defer s.Close()
	for _, pass := range []uint64{1, 2, 3, 1} {
		if _, err := s.Get(t.Context(), eviction.PassView{Pass: pass, View: eviction.ViewBefore}); err != nil {
			t.Fatal(err)
		}
	}
	if got := fetches.Load(); got != 4 {
		t.Errorf("%d fetches, want 4: pass 1 is old when 3 has come", got)
	}
}

func TestConnectionsAreReused(t *testing.T) {
	var connections atomic.Int32
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, pidNode(1)) })
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}}}
	server.Start()
	defer server.Close()
	s := &summary.Source{Socket: listener.Addr().String()}
	defer s.Close()
	for pass := range uint64(10) {
		if _, err := s.Get(t.Context(), eviction.PassView{Pass: pass, View: eviction.ViewBefore}); err != nil {
			t.Fatal(err)
		}
	}
	if got := connections.Load(); got != 1 {
		t.Errorf("%d connections, want 1", got)
	}
}

func TestTheHostsErrorIsAnAnswer(t *testing.T) {
	var fetches atomic.Int32
	socket := summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer {
		fetches.Add(1)
		return summarytest.Answer{Err: "kubelet: connection refused\n", Layout: "imagefs", ContainerFsErr: "no label"}
	})
	s := &summary.Source{Socket: socket}
	defer s.Close()
	for range 2 {
		_, err := s.Get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore})
		if !errors.Is(err, summary.ErrNoSummary) || err.Error() != "no summary: kubelet: connection refused" {
			t.Errorf("error is %v, want the host's", err)
		}
	}
	got, err := s.Layout(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore})
	want := layout{InForce: eviction.LayoutImageFs, Report: &eviction.LayoutReport{ImageFs: true, ContainerFsErr: "no label"}}
	if diff := cmp.Diff(want, layout{got.InForce, got.Report()}); diff != "" || err != nil {
		t.Errorf("error %v, layout (-want +got):\n%s", err, diff)
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

func TestABadSummaryIsAnAnswerToo(t *testing.T) {
	var fetches atomic.Int32
	socket := summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer {
		fetches.Add(1)
		return summarytest.Answer{Summary: `{"node":{"fs":{"inodes":-1}}}`, Layout: "shared"}
	})
	s := &summary.Source{Socket: socket}
	defer s.Close()
	for range 2 {
		if _, err := s.Get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore}); err == nil || !strings.Contains(err.Error(), "node.fs.inodes") {
			t.Errorf("error is %v, want one with the path", err)
		}
	}
	if layout, err := s.Layout(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore}); err != nil || layout.InForce != eviction.LayoutShared {
		t.Errorf("layout is %+v, %v, want it all the same", layout, err)
	}
	if n := fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

func TestTheHostsFailureIsAskedAgain(t *testing.T) {
	var fetches atomic.Int32
	socket := summarytest.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch fetches.Add(1) {
		case 1:
			http.Error(w, "pass not known", http.StatusNotFound)
		case 2:
			w.Header().Set(summaryapi.HeaderLayout, "round")
		case 3:
			w.Header().Set("Content-Length", "100") // and ends before
			fmt.Fprint(w, `{"node":`)
		default:
			fmt.Fprint(w, pidNode(1))
		}
	}))
	s := &summary.Source{Socket: socket}
	defer s.Close()
	for _, want := range []string{"404 Not Found: pass not known", `X-Evictd-Layout "round"`, "unexpected EOF"} {
		if _, err := s.Get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	if _, err := s.Get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore}); err != nil {
		t.Error(err)
	}
}

func TestNoHost(t *testing.T) {
	s := &summary.Source{Socket: filepath.Join(t.TempDir(), "none")}
	if _, err := s.Get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore}); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error is %v, want one of the socket", err)
	}
	if _, err := s.Get(t.Context(), eviction.PassView{Pass: 1, View: 0}); err == nil {
		t.Error("a view that is none was answered")
	}
}

func TestACallerThatGivesUpEndsNoOtherCall(t *testing.T) {
	asked := make(chan struct{})
	var first atomic.Bool
	socket := summarytest.ServeHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first.Swap(true) {
			close(asked)
			<-r.Context().Done() // until the first caller has given up
			return
		}
		fmt.Fprint(w, pidNode(1))
	}))
	s := &summary.Source{Socket: socket}
	defer s.Close()
	ctx, giveUp := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Get(ctx, eviction.PassView{Pass: 1, View: eviction.ViewBefore}); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v, want the context's own", err)
		}
	})
	<-asked
	wg.Go(func() {
		if _, err := s.Get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore}); err != nil {
			t.Errorf("the patient caller got %v", err)
		}
	})
	giveUp()
	wg.Wait()
}

func TestWaitingEndsWithTheCallersDeadline(t *testing.T) {
	asked := make(chan struct{})
	release := make(chan struct{})
	socket := summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer {
		close(asked)
		<-release
		return summarytest.Answer{Summary: pidNode(1)}
	})
	s := &summary.Source{Socket: socket}
	defer s.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore}); err != nil {
			t.Error(err)
		}
	})
	<-asked
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := s.Get(ended, eviction.PassView{Pass: 1, View: eviction.ViewBefore}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want the context's own", err)
	}
	close(release)
	wg.Wait()
}

func TestSourceObservesAndMeasures(t *testing.T) {
	socket := summarytest.Serve(t, func(pass uint64, _ eviction.View) summarytest.Answer {
		return summarytest.Answer{Summary: pidNode(pass)}
	})
	s := &summary.Source{Socket: socket}
	defer s.Close()
	reply, err := s.Observe(t.Context(), eviction.ObserveRequest{PassView: eviction.PassView{Pass: 400, View: eviction.ViewBefore}, Signals: []eviction.Signal{eviction.PIDAvailable, eviction.MemoryAvailable}})
	if err != nil || len(reply.Observations) != 2 || reply.Observations[0].Available != 600 || reply.Observations[1].State != eviction.Absent {
		t.Errorf("got %+v, %v", reply, err)
	}
	var got []eviction.Measurement
	req := eviction.MeasureRequest{PassView: eviction.PassView{Pass: 400, View: eviction.ViewBefore}, Signals: []eviction.Signal{eviction.PIDAvailable}, Pods: []eviction.Pod{{UID: "u"}}}
	if err := s.Measure(t.Context(), req, func(m eviction.Measurement) { got = append(got, m) }); err != nil || len(got) != 1 || got[0].UsageFor(eviction.PIDAvailable) != 7 {
		t.Errorf("got %+v, %v", got, err)
	}
	req.Signals = []eviction.Signal{eviction.NodeFsAvailable}
	if err := s.Measure(t.Context(), req, func(eviction.Measurement) { t.Error("measured without a layout") }); err == nil || !strings.Contains(err.Error(), "layout") {
		t.Errorf("error is %v, want one about the layout", err)
	}
}

// A layout holds the layout that a plugin uses, and its report.
type layout struct {
	InForce eviction.Layout
	Report  *eviction.LayoutReport
}

func TestLayoutHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		answer summarytest.Answer
		want   layout
		err    string
	}{
		"not told":    {want: layout{}},
		"shared":      {answer: summarytest.Answer{Layout: "shared"}, want: layout{InForce: eviction.LayoutShared, Report: &eviction.LayoutReport{}}},
		"imagefs":     {answer: summarytest.Answer{Layout: "imagefs"}, want: layout{InForce: eviction.LayoutImageFs, Report: &eviction.LayoutReport{ImageFs: true}}},
		"containerfs": {answer: summarytest.Answer{Layout: "containerfs"}, want: layout{InForce: eviction.LayoutContainerFs, Report: &eviction.LayoutReport{ImageFs: true, ContainerFs: true}}},
		"image fs not known": {
			answer: summarytest.Answer{ImageFsErr: "no\xff device"},
			want:   layout{Report: &eviction.LayoutReport{ImageFsErr: "no? device"}},
		},
		"container fs not known": {
			answer: summarytest.Answer{Layout: "shared", ContainerFsErr: "no label"},
			want:   layout{InForce: eviction.LayoutShared, Report: &eviction.LayoutReport{ContainerFsErr: "no label"}},
		},
		"only half of it": {answer: summarytest.Answer{ContainerFsErr: "no label"}, err: "without X-Evictd-Layout"},
	} {
		t.Run(name, func(t *testing.T) {
			c.answer.Summary = pidNode(1)
			s := &summary.Source{Socket: summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer { return c.answer })}
			defer s.Close()
			got, err := s.Layout(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error is %v, want %q in it", err, c.err)
				}
				return
			}
			if diff := cmp.Diff(c.want, layout{got.InForce, got.Report()}); diff != "" || err != nil {
				t.Errorf("error %v, layout (-want +got):\n%s", err, diff)
			}
		})
	}
}
