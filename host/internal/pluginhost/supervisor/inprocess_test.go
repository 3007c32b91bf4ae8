package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
)

// inside is a plugin of the test's own process. A nil function is not offered,
// but for configure.
type inside struct {
	configure func(eviction.ConfigureRequest) error
	observe   func(context.Context) (eviction.ObserveReply, error)
	measure   func(eviction.MeasureRequest, func(eviction.Measurement)) error
	rank      func(eviction.RankRequest) []eviction.Ranked
	reclaim   func(context.Context, func(eviction.Reclaimed)) (eviction.Reclaimed, error)
}

func (p inside) Configure(_ context.Context, req eviction.ConfigureRequest) error {
	if p.configure == nil {
		return nil
	}
	return p.configure(req)
}

func (p inside) Observe(ctx context.Context, _ eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return p.observe(ctx)
}

func (p inside) Measure(_ context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	return p.measure(req, emit)
}

func (p inside) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return p.rank(req), nil
}

func (p inside) Reclaim(ctx context.Context, _ eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return p.reclaim(ctx, progress)
}

func (p inside) plugin() eviction.Plugin {
	e := eviction.Plugin{Name: "inside", Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}, Configurer: p}
	if p.observe != nil {
		e.Observer = p
	}
	if p.measure != nil {
		e.Measurer = p
	}
	if p.rank != nil {
		e.Ranker = p
	}
	if p.reclaim != nil {
		e.Reclaimer = p
	}
	return e
}

func inOrder(req eviction.RankRequest) []eviction.Ranked {
	var all []eviction.Ranked
	for _, c := range req.Candidates {
		all = append(all, eviction.Ranked{UID: c.Pod.UID})
	}
	return all
}

// insideHost runs plugins of the test's process until its end.
func insideHost(t *testing.T, o Options, plugins map[string]eviction.Plugin) *testHost {
	t.Helper()
	h := &testHost{t: t, dir: privateDir(t), log: &syncBuffer{}, done: make(chan error, 1)}
	h.sockets = h.dir
	o.Timeouts = patientCalls
	o.Log = slog.New(slog.NewJSONHandler(h.log, nil))
	o.Inside = plugins
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	h.Supervisor = s
	ctx, cancel := context.WithCancel(t.Context())
	h.cancel = cancel
	go func() { h.done <- s.Run(ctx) }()
	t.Cleanup(h.stop)
	select {
	case <-s.Started():
	case err := <-h.done:
		h.done <- nil
		t.Fatal(err)
	case <-time.After(patient):
		t.Fatalf("not started after %s:\n%s", patient, h.log)
	}
	return h
}

func TestPluginsOfThisProcess(t *testing.T) {
	t.Parallel()
	var facts eviction.NodeFacts
	builtin := inside{
		configure: func(req eviction.ConfigureRequest) error { facts = req.Node; return nil },
		observe: func(context.Context) (eviction.ObserveReply, error) {
			return eviction.ObserveReply{
				Observations: []eviction.Observation{{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: 7, Capacity: 7}},
				Layout:       &eviction.LayoutReport{ImageFs: true},
			}, nil
		},
		rank: inOrder,
	}.plugin()
	builtin.OwnsLayout = true
	h := insideHost(t, Options{Node: eviction.NodeFacts{NodeName: "n1"}}, map[string]eviction.Plugin{
		"disk": builtin, "acme": inside{rank: inOrder}.plugin(),
	})
	if facts.NodeName != "n1" {
		t.Errorf("configured with %+v, want the node's facts", facts)
	}
	p := h.Pin()
	defer p.Release()
	rankers := p.Providers(eviction.MemoryAvailable, eviction.CanRank)
	if len(rankers) != 2 || rankers[0].Name != "acme" || rankers[0].Builtin() || !rankers[1].Builtin() {
		t.Errorf("rankers %v, want acme before disk", rankers)
	}
	owners := p.Layouts()
	if len(owners) != 1 || owners[0].Name != "disk" {
		t.Fatalf("layout belongs to %v, want disk", owners)
	}
	owner := owners[0]
	reply, err := owner.Plugin.Observer.Observe(t.Context(), eviction.ObserveRequest{Signals: []eviction.Signal{eviction.MemoryAvailable}})
	if err != nil || reply.Observations[0].Available != 7 || !reply.Layout.ImageFs {
		t.Errorf("got %+v, %v, want 7 available and the layout", reply, err)
	}
	if s := h.plugin("acme"); s.State != Running || s.PID != 0 || s.Path != "" || len(s.Signals) != 1 {
		t.Errorf("status %+v, want one that runs without file and process", s)
	}
	h.stop()
	if s := h.plugin("acme"); s.State != Stopped {
		t.Errorf("acme is %s, want it stopped", s.State)
	}
}

func TestInsidePluginsThatCannotServe(t *testing.T) {
	t.Parallel()
	picky := inside{rank: inOrder}.plugin()
	picky.CheckHost = func(eviction.Host) error { return errors.New("want a newer host") }
	_, err := New(Options{Inside: map[string]eviction.Plugin{"picky": picky, "nothing": {Name: "nothing"}}})
	want(t, fmt.Sprint(err), "plugin nothing: signals is empty", "plugin picky: want a newer host")

	refuses := inside{rank: inOrder, configure: func(eviction.ConfigureRequest) error { return errors.New("config.color: unknown field") }}
	var s *Supervisor
	late := inside{rank: inOrder, configure: func(eviction.ConfigureRequest) error {
		eventually(t, "b serves", func() bool {
			p := s.Pin()
			defer p.Release()
			return p.Named("b") != nil
		})
		return nil
	}}
	a, b := late.plugin(), inside{rank: inOrder}.plugin()
	a.Signals, b.Signals = append(a.Signals, defined("things")), append(b.Signals, defined("others"))
	s, err = New(Options{Inside: map[string]eviction.Plugin{"memory": refuses.plugin(), "a": a, "b": b}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	want(t, fmt.Sprint(s.Run(t.Context())),
		"plugin memory: configure: plugin refused: config.color: unknown field", `plugin b: plugins "a" and "b" define acme.example/x differently`)
	select {
	case <-s.Started():
		t.Error("started, want it not to")
	default:
	}
}

// A call that never returns costs its deadline, and no more than a few of them
// are waited out.
func TestInsidePluginThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		hung := inside{observe: func(context.Context) (eviction.ObserveReply, error) {
			<-hang
			return eviction.ObserveReply{Observations: []eviction.Observation{{Signal: eviction.MemoryAvailable, State: eviction.Observed}}}, nil
		}}
		h := insideHost(t, Options{}, map[string]eviction.Plugin{"a": hung.plugin()})
		p, i := h.pinned("a")
		defer p.Release()
		for range 3 {
			_, err := observe(t.Context(), i)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("got %v, want a timeout", err)
			}
		}
		_, err := observe(t.Context(), i)
		if !errors.Is(err, eviction.ErrUnavailable) {
			t.Errorf("got %v, want the plugin left alone", err)
		}
		want(t, h.plugin("a").LastError, "3 calls have not returned")
		if s := h.plugin("a"); s.State != Running {
			t.Errorf("a is %s, want it in service: there is nothing to end", s.State)
		}
		close(hang)
		eventually(t, "a answers again", func() bool {
			_, err := observe(t.Context(), i)
			return err == nil
		})
	})
}

// A plugin that writes to its input, or uses its output again, does it to its
// own memory. The race detector watches as well.
func TestInsidePluginSharesNoMemory(t *testing.T) {
	t.Parallel()
	var usage []eviction.SignalUsage
	var ranked []eviction.Ranked
	var labels map[string]string
	rude := inside{
		measure: func(req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
			usage = []eviction.SignalUsage{{Signal: req.Signals[0]}}
			for i := range req.Pods {
				usage[0].Value++
				emit(eviction.Measurement{UID: req.Pods[i].UID, State: eviction.Measured, Usage: usage})
				req.Pods[i] = eviction.Pod{}
			}
			return nil
		},
		rank: func(req eviction.RankRequest) []eviction.Ranked {
			slices.Reverse(req.Candidates)
			labels = req.Candidates[0].Pod.Labels
			req.Candidates[0].Pod.Volumes[0].Name = "mine"
			req.Candidates[0].Measurement.Usage[0].Value = -1
			ranked = inOrder(req)
			return ranked
		},
	}.plugin()
	rude.WantLabels = []string{"app", "tier"}
	h := insideHost(t, Options{}, map[string]eviction.Plugin{"rude": rude})
	p, i := h.pinned("rude")
	defer p.Release()
	rows := []eviction.Pod{
		{UID: "a", Volumes: []eviction.Volume{{Name: "v"}}},
		{UID: "b", Volumes: []eviction.Volume{{Name: "v"}}, Labels: map[string]string{"app": "web", "secret": "x"}},
	}
	var list []eviction.Candidate
	if err := i.Plugin.Measurer.Measure(t.Context(), eviction.MeasureRequest{Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: rows}, func(m eviction.Measurement) {
		list = append(list, eviction.Candidate{Pod: rows[len(list)], Measurement: m})
	}); err != nil {
		t.Fatal(err)
	}
	order, err := i.Plugin.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: eviction.MemoryAvailable, Candidates: list})
	if err != nil {
		t.Fatal(err)
	}
	ranked[0].UID = "changed afterwards"
	if order[0].UID != "b" || order[1].UID != "a" {
		t.Errorf("order %v, want b and a", order)
	}
	for n, c := range list {
		if c.Pod.UID != rows[n].UID || c.Pod.Volumes[0].Name != "v" || c.Measurement.Usage[0].Value != int64(n+1) {
			t.Errorf("the host's %d. candidate is now %+v", n, c)
		}
	}
	if len(labels) != 1 || labels["app"] != "web" {
		t.Errorf("labels %v, want those that the plugin asked for", labels)
	}
}

func TestInsidePluginThatLies(t *testing.T) {
	t.Parallel()
	liar := inside{
		measure: func(_ eviction.MeasureRequest, emit func(eviction.Measurement)) error {
			for _, uid := range []string{"a", "never-sent", "a"} {
				emit(eviction.Measurement{UID: uid, State: eviction.Measured})
			}
			return nil
		},
		rank: func(eviction.RankRequest) []eviction.Ranked { return []eviction.Ranked{{UID: "never-sent"}} },
	}
	h := insideHost(t, Options{}, map[string]eviction.Plugin{"liar": liar.plugin()})
	p, i := h.pinned("liar")
	defer p.Release()
	got := 0
	err := i.Plugin.Measurer.Measure(t.Context(), eviction.MeasureRequest{Pods: []eviction.Pod{{UID: "a"}}}, func(eviction.Measurement) { got++ })
	if !errors.Is(err, eviction.ErrInvalidReply) || got != 1 {
		t.Errorf("%d measurements and %v, want one and an invalid reply", got, err)
	}
	ranked, err := i.Plugin.Ranker.Rank(t.Context(), eviction.RankRequest{Candidates: candidates("a")})
	if !errors.Is(err, eviction.ErrInvalidReply) || ranked != nil {
		t.Errorf("got %v, %v, want an invalid reply", ranked, err)
	}
}

func TestInsideReclaimThatIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, returned := make(chan struct{}), make(chan struct{})
		slow := inside{reclaim: func(_ context.Context, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
			defer close(returned)
			progress(eviction.Reclaimed{Bytes: 1})
			<-over
			progress(eviction.Reclaimed{Bytes: 2})
			return eviction.Reclaimed{Bytes: 3}, nil
		}}
		h := insideHost(t, Options{}, map[string]eviction.Plugin{"slow": slow.plugin()})
		p, i := h.pinned("slow")
		defer p.Release()
		var progress []int64
		released, err := i.Plugin.Reclaimer.Reclaim(t.Context(), eviction.ReclaimRequest{}, func(r eviction.Reclaimed) { progress = append(progress, r.Bytes) })
		close(over)
		<-returned
		if !errors.Is(err, context.DeadlineExceeded) || released.Bytes != 1 || len(progress) != 1 {
			t.Errorf("got %+v, %v, progress %v, want a timeout and what was freed until then", released, err, progress)
		}
	})
}

func TestReconfigureInsidePlugins(t *testing.T) {
	t.Parallel()
	var of [2]string // what each is configured with
	configurable := func(n int) eviction.Plugin {
		p := inside{rank: inOrder, configure: func(req eviction.ConfigureRequest) error {
			if string(req.Config) == "bad" {
				return errors.New("bad")
			}
			of[n] = string(req.Config)
			return nil
		}}.plugin()
		p.Signals[0].Signal = eviction.BuiltinSignals()[n]
		return p
	}
	h := insideHost(t, Options{Settings: configs("a", "1", "b", "1")}, map[string]eviction.Plugin{"a": configurable(0), "b": configurable(1)})
	err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("a", "2", "b", "bad"))
	want(t, fmt.Sprint(err), "plugin b: configure: plugin refused: bad")
	if of != [2]string{"1", "1"} {
		t.Errorf("configured with %q, want the former ones", of)
	}
	p := h.Pin()
	defer p.Release()
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"a": {Config: []byte("3")}, "b": {Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b is disabled", func() bool { return h.plugin("b").State == Disabled })
	eventually(t, "the loop is told", func() bool { return len(h.changed) == 1 })
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, configs("a", "3", "b", "4")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "b serves again", func() bool { return h.plugin("b").State == Running })
	if of != [2]string{"3", "4"} {
		t.Errorf("configured with %q, want 3 and 4", of)
	}
}

// A panic in a plugin of this process ended the process, a whole kubelet.
func TestAPanicOfAnInsidePluginFailsItsCall(t *testing.T) {
	t.Parallel()
	panics := true
	fragile := inside{
		observe: func(context.Context) (eviction.ObserveReply, error) {
			if panics {
				panic("no such mount")
			}
			return eviction.ObserveReply{Observations: []eviction.Observation{{Signal: eviction.MemoryAvailable, State: eviction.Observed}}}, nil
		},
		measure: func(_ eviction.MeasureRequest, emit func(eviction.Measurement)) error {
			emit(eviction.Measurement{UID: "a", State: eviction.Measured})
			var walks hang.Group
			walks.Go(func() { panic("walked into nil") })
			walks.Wait()
			return nil
		},
	}
	h := insideHost(t, Options{}, map[string]eviction.Plugin{"fragile": fragile.plugin()})
	p, i := h.pinned("fragile")
	defer p.Release()
	_, err := observe(t.Context(), i)
	if !errors.Is(err, eviction.ErrInvalidReply) {
		t.Errorf("got %v, want an invalid reply", err)
	}
	want(t, fmt.Sprint(err), "plugin fragile: observe: ", "panic: no such mount")
	eventually(t, "it is told of", func() bool { return strings.Contains(h.plugin("fragile").LastError, "no such mount") })
	got := 0
	err = i.Plugin.Measurer.Measure(t.Context(), eviction.MeasureRequest{Pods: []eviction.Pod{{UID: "a"}}}, func(eviction.Measurement) { got++ })
	want(t, fmt.Sprint(err), "plugin fragile: measure: ", "panic: walked into nil")
	if got != 1 {
		t.Errorf("%d measurements, want the one from before the panic", got)
	}
	want(t, h.log.String(), `"msg":"plugin panicked"`, `"call":"/evictd`, "inprocess_test.go", `"panic":"walked into nil"`)
	panics = false
	if _, err := observe(t.Context(), i); err != nil {
		t.Errorf("a call after it: %v", err)
	}
}
