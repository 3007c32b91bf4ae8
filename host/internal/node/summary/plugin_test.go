package summary

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/leaks"
)

// provider returns a Provider whose source is f.
func provider(t *testing.T, f func(context.Context) ([]byte, error)) *Provider {
	t.Helper()
	p := New(FromFunc(f, 0), nodefs.FS{}, func() bool { return false })
	closeLater(t, p)
	return p
}

// counting returns a source whose answers differ in their available process ids.
func counting() func(context.Context) ([]byte, error) {
	var fetches atomic.Int64
	return func(context.Context) ([]byte, error) { return tasks(fetches.Add(1)), nil }
}

func tasks(available int64) []byte {
	return fmt.Appendf(nil, `{"node":{"rlimit":{"maxpid":%d,"curproc":0}}}`, available)
}

func before(pass uint64) eviction.PassView {
	return eviction.PassView{Pass: pass, View: eviction.ViewBefore}
}

func after(pass uint64) eviction.PassView {
	return eviction.PassView{Pass: pass, View: eviction.ViewAfterReclaim}
}

// seen returns the available process ids of a view, or why they are unknown.
func seen(ctx context.Context, p *Provider, at eviction.PassView) string {
	reply, err := p.Observe(ctx, eviction.ObserveRequest{PassView: at, Signals: []eviction.Signal{eviction.PIDAvailable}})
	switch {
	case err != nil:
		return err.Error()
	case reply.Observations[0].State != eviction.Observed:
		return reply.Observations[0].Err
	}
	return fmt.Sprint(reply.Observations[0].Available)
}

func TestTheContractIsKept(t *testing.T) {
	p := provider(t, counting()).Plugin()
	if err := p.Validate(); err != nil || !p.OwnsLayout {
		t.Errorf("%v, owns the layout: %v", err, p.OwnsLayout)
	}
	for _, s := range eviction.BuiltinSignals() {
		if got := p.For(s); got != eviction.CanObserve|eviction.CanMeasure {
			t.Errorf("%s: offers %v", s, got.Names())
		}
	}
}

func TestAllCallsOfAViewShareOneFetch(t *testing.T) {
	for want, c := range map[string]struct {
		summary string
		err     error
	}{
		"7": {summary: string(tasks(7))},
		"get summary from the embedding program: no stats":                          {err: errors.New("no stats")},
		"get summary from the embedding program: summary: node: missing":            {summary: `{"node":null}`},
		"get summary from the embedding program: nothing in it, want a JSON object": {},
	} {
		t.Run(want, func(t *testing.T) {
			leaks.None(t)
			var fetches atomic.Int32
			release := make(chan struct{})
			p := provider(t, func(context.Context) ([]byte, error) {
				fetches.Add(1)
				<-release
				return []byte(c.summary), c.err
			})
			var calls sync.WaitGroup
			for range 10 {
				calls.Go(func() {
					if got := seen(t.Context(), p, before(7)); got != want {
						t.Errorf("%q, want %q", got, want)
					}
				})
			}
			close(release)
			calls.Wait()
			if n := fetches.Load(); n != 1 {
				t.Errorf("%d fetches, want 1", n)
			}
		})
	}
}

func TestViewsAreKeptForTwoPasses(t *testing.T) {
	p := provider(t, counting())
	for _, c := range []struct {
		at   eviction.PassView
		want string
	}{
		{before(1), "1"},
		{after(1), "2"},
		{before(1), "1"},
		{before(2), "3"},
		{after(1), "2"},
		{before(3), "4"},
		{before(2), "3"},
		{after(2), "pass 2 is over"},
		{before(1), "pass 1 is over"},
		{before(3), "4"},
	} {
		if got := seen(t.Context(), p, c.at); got != c.want {
			t.Errorf("%+v: %q, want %q", c.at, got, c.want)
		}
	}
}

// A pass begins with the layout: it is reported even if there is no summary.
func TestTheLayoutIsReportedWithoutASummary(t *testing.T) {
	p := provider(t, func(context.Context) ([]byte, error) { return nil, errors.New("no stats") })
	want := &eviction.LayoutReport{ImageFs: true, ContainerFsErr: "no label"}
	p.Begin(t.Context(), before(1), want, true)
	p.Begin(t.Context(), before(2), nil, false) // which asks for none
	reply, err := p.Observe(t.Context(), eviction.ObserveRequest{PassView: before(2), Signals: []eviction.Signal{eviction.NodeFsAvailable}})
	if err != nil || reply.Layout == nil || *reply.Layout != *want || !strings.Contains(reply.Observations[0].Err, "no stats") {
		t.Errorf("%+v, %v; want the layout %+v", reply, err, want)
	}
	err = p.Measure(t.Context(), eviction.MeasureRequest{PassView: before(2), Signals: []eviction.Signal{eviction.NodeFsAvailable}}, nil)
	wantError(t, err, "no stats")
}

func TestACallThatGivesUpCancelsNothing(t *testing.T) {
	leaks.None(t)
	fetching, release := make(chan struct{}), make(chan struct{})
	p := provider(t, func(context.Context) ([]byte, error) {
		close(fetching)
		<-release
		return tasks(7), nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan string)
	go func() { gone <- seen(ctx, p, before(1)) }()
	receive(t, fetching, "fetch")
	cancel()
	if got := receive(t, gone, "end of the call"); got != context.Canceled.Error() {
		t.Errorf("%q, want the error of the context", got)
	}
	close(release)
	if got := seen(t.Context(), p, before(1)); got != "7" {
		t.Errorf("%q, want the figure", got)
	}
}

// A kubelet whose summary took longer than a pass waits never had one used.
func TestASummaryThatComesLateCountsForTheNextViews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches := int64(0)
		source := FromFunc(func(ctx context.Context) ([]byte, error) {
			fetches++
			summary := tasks(fetches)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(6 * time.Second):
				return summary, nil
			}
		}, time.Second)
		source.timeout = lateTimeout
		p := New(source, nodefs.FS{}, nil)
		var got []string
		for pass := range uint64(8) {
			figure := seen(t.Context(), p, before(pass))
			if strings.Contains(figure, "no whole answer within 1s") {
				figure = "-"
			}
			got = append(got, figure)
			time.Sleep(time.Second) // a pass every two seconds
		}
		if want := "- - - 1 1 1 2 2"; strings.Join(got, " ") != want {
			t.Errorf("%s, want %s", strings.Join(got, " "), want)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A call that never returns is not repeated, and is left behind at the end.
func TestACallThatIgnoresItsDeadlineIsLeftBehindOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var calls atomic.Int32
		p := New(FromFunc(func(context.Context) ([]byte, error) {
			calls.Add(1)
			<-release
			return tasks(7), nil
		}, time.Second), nodefs.FS{}, nil)
		for pass := range uint64(3) {
			if got := seen(t.Context(), p, before(pass)); !strings.Contains(got, "no whole answer within 1s") {
				t.Errorf("pass %d: %q, want that it is late", pass, got)
			}
		}
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls, want one", n)
		}
		if err := p.Close(t.Context()); err == nil {
			t.Error("closed while the call goes on")
		}
		close(release)
	})
}

func TestCloseEndsWhatIsUnderWay(t *testing.T) {
	leaks.None(t)
	fetching := make(chan struct{}, 1)
	p := provider(t, func(ctx context.Context) ([]byte, error) {
		fetching <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	got := make(chan string)
	go func() { got <- seen(t.Context(), p, before(1)) }()
	receive(t, fetching, "fetch")
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if text := receive(t, got, "answer"); text != "the host stops" {
		t.Errorf("%q, want the end", text)
	}
	for _, pass := range []uint64{1, 2} {
		if text := seen(t.Context(), p, before(pass)); text != "the host stops" {
			t.Errorf("pass %d after the end: %q", pass, text)
		}
	}
}

// The kubelet counts huge pages as available until v1.36. The memory must not look available while
// their number is unknown.
func TestHugePagesAreSubtracted(t *testing.T) {
	for meminfo, want := range map[string]string{"MemTotal: 1024000 kB\nHugetlb: 200 kB\n": "", "MemTotal: 1024000 kB\nHugetlb: many\n": "Hugetlb"} {
		root := t.TempDir()
		testos.Put(t, root+"/proc/meminfo", meminfo, 0o600)
		for subtract, available := range map[bool]int64{true: 600<<10 - 200<<10, false: 600 << 10} {
			p := New(FromFunc(func(context.Context) ([]byte, error) {
				return []byte(`{"node":{"memory":{"availableBytes":614400,"workingSetBytes":1000}}}`), nil
			}, 0), nodefs.FS{Root: root}, func() bool { return subtract })
			closeLater(t, p)
			reply, err := p.Observe(t.Context(), eviction.ObserveRequest{PassView: before(1), Signals: []eviction.Signal{eviction.MemoryAvailable}})
			if err != nil {
				t.Fatal(err)
			}
			switch o := reply.Observations[0]; {
			case subtract && want != "":
				if o.State != eviction.Unknown || !strings.Contains(o.Err, want) {
					t.Errorf("%q: %+v, want it unknown because of %s", meminfo, o, want)
				}
			case o.Available != available || o.Capacity != available+1000:
				t.Errorf("%q, subtracted %v: %+v, want %d available", meminfo, subtract, o, available)
			}
		}
	}
}
