package supervisor

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/startup"
	"github.com/evictd/evictd/shared/eviction"
)

// A workshop launches plugins in memory that can be replaced, fail to start and crash, as
// processes do.
type workshop struct {
	t *testing.T
	*Supervisor
	log *syncBuffer

	mu    sync.Mutex
	files map[string]plugindir.File
	// broken holds the errors of starts, by plugin; held the channels they wait for.
	broken map[string]error
	held   map[string]chan struct{}
	// units holds the units in which plugins define acme.example/x; the others do not define it.
	units map[string]string
	// ends is closed when processes may end, nil for at once.
	ends chan struct{}
	// crash ends the latest process of a plugin.
	crash map[string]func()
	// reported holds the configurations that plugins received, one after the other.
	reported map[string][]string
}

// open runs a supervisor of plugins that all rank by memory.available.
func open(t *testing.T, names ...string) *workshop {
	t.Helper()
	return openWith(t, func(*workshop) {}, names...)
}

// openWith does as open after prepare.
func openWith(t *testing.T, prepare func(*workshop), names ...string) *workshop {
	t.Helper()
	w := &workshop{
		t: t, log: &syncBuffer{}, files: map[string]plugindir.File{},
		broken: map[string]error{}, held: map[string]chan struct{}{}, crash: map[string]func(){}, reported: map[string][]string{},
	}
	for _, name := range names {
		w.write(name)
	}
	prepare(w)
	w.Supervisor = newSupervisor(Options{Log: slog.New(slog.NewTextHandler(w.log, nil)), Timeouts: patientCalls}, w)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", w.log)
		}
	})
	<-w.Started()
	return w
}

// write makes a file, or another one in its place.
func (w *workshop) write(name string) {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	id, err := plugindir.Identify(path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.files[name] = plugindir.File{ID: id, Fit: true}
}

// change changes what is launched from now on.
func (w *workshop) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *workshop) look() (map[string]plugindir.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.files), nil
}

func (w *workshop) complete(_ context.Context, name string) (plugindir.ID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.files[name].ID, nil
}

func (w *workshop) launch(ctx context.Context, s start) (running, error) {
	w.mu.Lock()
	broken, held, unit := w.broken[s.Name], w.held[s.Name], w.units[s.Name]
	w.mu.Unlock()
	if held != nil {
		<-held
	}
	if broken != nil {
		return nil, broken
	}
	p := inside{rank: inOrder, configure: func(req eviction.ConfigureRequest) error {
		w.change(func() { w.reported[s.Name] = append(w.reported[s.Name], string(req.Config)) })
		return nil
	}}.plugin()
	if unit != "" {
		p.Signals = append(p.Signals, defined(unit))
	}
	r, err := InProcess{s.Name: p}.launch(ctx, s)
	m := &mortal{running: r, exit: make(chan struct{}), ends: func() (ends chan struct{}) {
		w.change(func() { ends = w.ends })
		return ends
	}}
	w.change(func() { w.crash[s.Name] = m.end })
	return m, err
}

// defined returns acme.example/x with a unit.
func defined(unit string) eviction.SignalSpec {
	const name = "acme.example/x"
	return eviction.SignalSpec{Signal: name, Definition: &eviction.Definition{Unit: eviction.Unit(unit), Format: eviction.FormatDecimalSI, Resource: name, Condition: name}}
}

// A mortal is a plugin that can end.
type mortal struct {
	running

	exit chan struct{}
	once sync.Once
	ends func() chan struct{} // closed when it may end, nil for at once
}

func (m *mortal) end()                    { m.once.Do(func() { close(m.exit) }) }
func (m *mortal) exited() <-chan struct{} { return m.exit }

func (m *mortal) ending(time.Duration) string {
	select {
	case <-m.exit:
		return "exit status 3"
	default:
		return ""
	}
}

func (m *mortal) close(grace time.Duration) error {
	m.end()
	if ends := m.ends(); ends != nil {
		<-ends
	}
	return m.running.close(grace)
}

func (w *workshop) plugin(name string) Status {
	for _, s := range w.Status() {
		if s.Name == name {
			return s
		}
	}
	return Status{}
}

func (w *workshop) want(name, what string, ok func(Status) bool) {
	w.t.Helper()
	eventually(w.t, name+" "+what, func() bool { return ok(w.plugin(name)) })
}

func runs(s Status) bool { return s.State == Running }

// Two plugins that define a signal differently cannot both serve.
func TestTwoDefinitionsOfASignal(t *testing.T) {
	refused := func(s Status) bool {
		return s.State == Refused && strings.Contains(s.Reason, `plugins "a" and "b" define acme.example/x differently`)
	}
	w := openWith(t, func(w *workshop) { w.units = map[string]string{"a": "things", "b": "others"} }, "a", "b", "memory")
	w.want("a", "serves, the first by name", runs)
	w.want("b", "is refused", refused)
	w.change(func() { delete(w.files, "a") })
	again(w)
	w.want("b", "serves when the other one is gone", runs)
	w.write("a")
	again(w)
	w.want("a", "serves again", runs)
	w.want("b", "has to go for the first by name", refused)
	w.change(func() { w.units["a"] = "others" })
	w.write("a")
	again(w)
	w.want("b", "serves beside a version that agrees with it", runs)
	before := w.plugin("b")
	w.change(func() { w.units["b"] = "things" })
	w.write("b")
	again(w)
	w.want("b", "is not replaced by one that does not", func(s Status) bool {
		return s.PID == before.PID && s.Generation == before.Generation && s.Replacement != nil && s.Replacement.State == Refused
	})
	if s := w.plugin("a"); !runs(s) || s.Restarts > 0 {
		t.Errorf("a: %+v, want it left alone", s)
	}
}

// again has the directory looked at, as after a change in it.
func again(w *workshop) { w.Supervisor.look() }

// No plugin waits for another one at the start.
func TestTheStartGoesOnWithoutAPluginThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		w := openWith(t, func(w *workshop) { w.held["slow"] = held }, "b", "memory", "slow")
		want(t, w.log.String(), `msg="plugin start timed out" plugins=[slow] waited=1m0s`)
		w.want("b", "serves", runs)
		w.want("memory", "serves", runs)
		if s := w.plugin("slow"); s.State != Starting {
			t.Errorf("slow is %s, want it still started", s.State)
		}
		close(held)
		w.want("slow", "serves when it is ready", runs)
	})
}

func TestAReplacementTakesOver(t *testing.T) {
	w := open(t, "a")
	w.want("a", "serves", runs)
	before := w.plugin("a")
	w.write("a")
	again(w)
	w.want("a", "is another process", func(s Status) bool { return s.Generation > before.Generation && s.Swaps == 1 && s.Restarts == 0 })
	w.change(func() { w.broken["a"] = errors.New("rubbish") })
	w.write("a")
	again(w)
	w.want("a", "stays as it was", func(s Status) bool {
		return s.State == Running && s.Replacement != nil && s.Replacement.State == Refused && s.Replacement.Reason == "rubbish" && s.Swaps == 1
	})
	w.change(func() { delete(w.broken, "a") })
	w.write("a")
	again(w)
	w.want("a", "is another once more", func(s Status) bool { return s.Swaps == 2 && s.Replacement == nil && s.Restarts == 0 })
}

// What has begun to take over comes sooner than another start when the former process
// crashes meanwhile, and is a start like any other from then on.
func TestTheFormerCrashesDuringAReplacement(t *testing.T) {
	for name, broken := range map[string]error{"the other comes up": nil, "nor does the other come up": errors.New("rubbish")} {
		t.Run(name, func(t *testing.T) {
			w := open(t, "a")
			w.want("a", "serves", runs)
			before, held := w.plugin("a"), make(chan struct{})
			w.change(func() { w.held["a"], w.broken["a"] = held, broken })
			w.write("a")
			again(w)
			w.want("a", "is being replaced", func(s Status) bool { return s.Replacement != nil && s.Replacement.State == Starting })
			w.mu.Lock()
			crash := w.crash["a"]
			w.mu.Unlock()
			crash()
			w.want("a", "has crashed", func(s Status) bool {
				return s.State == Starting && s.Replacement == nil && strings.Contains(s.LastError, "exited by itself (exit status 3)")
			})
			close(held)
			if broken == nil {
				w.want("a", "serves again", func(s Status) bool { return s.State == Running && s.Generation > before.Generation && s.Swaps == 0 })
				return
			}
			w.want("a", "waits for another start", func(s Status) bool { return s.State == Backoff && s.Until != nil && s.LastError == "rubbish" })
			w.change(func() { delete(w.broken, "a"); delete(w.held, "a") })
			w.want("a", "serves after it", func(s Status) bool { return runs(s) && s.Restarts > 0 && s.Until == nil })
		})
	}
}

// The former process ends when the other one serves already: that one is not to rest for it.
func TestTheEndOfAFormerProcessDoesNotStopItsSuccessor(t *testing.T) {
	w := open(t, "a")
	w.want("a", "serves", runs)
	before, held, ends := w.plugin("a"), make(chan struct{}), make(chan struct{})
	w.change(func() { w.held["a"] = held; w.ends = ends })
	w.write("a")
	again(w)
	w.want("a", "is being replaced", func(s Status) bool { return s.Replacement != nil && s.Replacement.State == Starting })
	w.mu.Lock()
	crash := w.crash["a"]
	w.mu.Unlock()
	crash()
	w.want("a", "has crashed", func(s Status) bool { return s.State == Starting })
	close(held)
	w.want("a", "serves again", func(s Status) bool { return runs(s) && s.Generation > before.Generation })
	close(ends)
	eventually(t, "the former one has ended", func() bool { return strings.Contains(w.log.String(), "plugin exited") })
	if s := w.plugin("a"); !runs(s) || s.Until != nil {
		t.Errorf("state %s until %v, want it to run", s.State, s.Until)
	}
}

// Settings that change while a process starts with the former ones are sent to it before
// it serves, and others are not sent to it.
func TestTheLatestSettingsAreSentBeforeAProcessServes(t *testing.T) {
	for name, c := range map[string]struct{ of, want string }{"its own": {"a", "1 2 1 2"}, "of another": {"b", "1 1"}} {
		t.Run(name, func(t *testing.T) {
			settings := configs("a", "1", "b", "1")
			w := openWith(t, func(*workshop) {}, "memory")
			if err := w.Reconfigure(t.Context(), eviction.NodeFacts{}, settings); err != nil {
				t.Fatal(err)
			}
			w.write("a")
			again(w)
			w.want("a", "serves", runs)
			held := make(chan struct{})
			w.change(func() { w.held["a"] = held })
			w.write("a")
			again(w)
			w.want("a", "is being replaced", func(s Status) bool { return s.Replacement != nil })
			// The start has the settings by now, and tells them when it goes on.
			eventually(t, "it is launched", func() bool {
				launched := false
				w.call(func(ctl *controller) {
					a := ctl.plugins["a"].starting
					launched = a != nil && a.Turn != startup.Waits && a.Phase != startup.Ready
				})
				return launched
			})
			settings = maps.Clone(settings)
			settings[c.of] = Settings{Config: []byte("2")}
			if err := w.Reconfigure(t.Context(), eviction.NodeFacts{}, settings); err != nil {
				t.Fatal(err)
			}
			w.change(func() { delete(w.held, "a") })
			close(held)
			w.want("a", "is replaced", func(s Status) bool { return s.Swaps == 1 && runs(s) })
			w.change(func() {
				if got := strings.Join(w.reported["a"], " "); got != c.want {
					t.Errorf("a was told %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A change of the settings that needs another process gives an attempt up, wherever it is.
func TestSettingsChangeDuringAnAttempt(t *testing.T) {
	w := open(t, "a")
	w.want("a", "serves", runs)
	held := make(chan struct{})
	w.change(func() { w.held["a"] = held })
	w.write("a")
	again(w)
	w.want("a", "is being replaced", func(s Status) bool { return s.Replacement != nil })
	off := false
	if err := w.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"a": {AutoMTLS: &off}}); err != nil {
		t.Fatal(err)
	}
	w.change(func() { delete(w.held, "a") })
	close(held)
	w.want("a", "is replaced by one with the new settings", func(s Status) bool { return s.Swaps == 1 && s.Replacement == nil && runs(s) })
	if err := w.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"a": {Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	w.want("a", "is disabled", func(s Status) bool { return s.State == Disabled && s.Generation == 0 })
	if err := w.Reconfigure(t.Context(), eviction.NodeFacts{}, nil); err != nil {
		t.Fatal(err)
	}
	w.want("a", "serves again", runs)
}
