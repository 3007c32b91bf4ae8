package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/broken/fault"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

// slack is for a machine that runs many of these worlds at once.
const slack = 5 * time.Second

const spare = "faults.example/spare"

// run takes a world through c and returns how long the outcome took.
func (c cell) run(t *testing.T) (took time.Duration) {
	w := newWorld(t)
	signs := t.TempDir()
	c.Struck, c.Protected = filepath.Join(signs, "struck"), "uid-"+shield
	armed := filepath.Join(signs, "armed")
	if c.Call != fault.Describe && c.Call != fault.Configure && c.Call != fault.Watch {
		c.Armed = armed
	}
	c.Pressure = armed
	pressed := c.install(t, w)
	d := daemon.Start(t, w.config)
	d.AwaitReady()
	if c.Call == fault.Observe || c.outcome != reported {
		c.awaitPass(t, d)
	}
	testos.WriteFile(t, armed, "", 0o644)
	if (c.who == custom || c.who == socket) && c.Call == fault.Observe {
		c.awaitStrike(t) // else the built-in plugin, which is asked beside it, may be first
	}
	w.pressure(pressed)
	began := time.Now()
	switch c.outcome {
	case reported:
		c.awaitReport(t, d)
	case believed:
		c.awaitPasses(t, d, 2)
	default:
		c.awaitEviction(t, w, d)
	}
	took = time.Since(began)
	if c.Call == fault.Waited {
		c.awaitStandby(t, d)
	}
	if took > c.budget+slack {
		t.Errorf("took %v, want %v at most", took, c.budget)
	}
	if _, err := os.Stat(c.Struck); err != nil {
		t.Error("the fault has not struck, the cell proves nothing")
	}
	return took
}

// install puts the plugins in place and returns what is to be put under pressure.
func (c cell) install(t *testing.T, w *world) (pressed string) {
	t.Helper()
	pressed, signal, threshold := "memory", "memory.available", "1Gi"
	switch {
	case c.who == only:
		pressed, signal, threshold = "", spare, "10"
	case c.Base == "pid":
		pressed, signal, threshold = "pid", "pid.available", "100"
	case c.Base == "disk" || c.Base == "trim":
		pressed, signal, threshold = "disk", "nodefs.available", "16Mi"
	}
	w.config["evictionHard"] = map[string]string{signal: threshold}
	if c.outcome == reported {
		w.config["requiredSignals"] = []string{signal}
	}
	name := "acme"
	if c.who == builtin {
		name = c.Base
	} else if pressed != "" {
		daemon.Install(t, daemon.Build(t, pressed), filepath.Join(w.plugins, pressed))
	}
	program := filepath.Join(w.plugins, name)
	if c.who == socket {
		program = filepath.Join(t.TempDir(), name)
	}
	if err := fault.Install(daemon.Build(t, "broken"), program, c.Fault); err != nil {
		t.Fatal(err)
	}
	if c.who == socket {
		daemon.Outside(t, program, filepath.Join(w.plugins, name+".sock"))
	}
	return pressed
}

// awaitPass waits until the daemon has concluded something.
func (c cell) awaitPass(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	daemon.Eventually(t, 10*time.Second, func() error {
		if _, status := d.Get("/status"); !strings.Contains(status, `"passes": `) || strings.Contains(status, `"passes": 0,`) {
			return fmt.Errorf("no pass yet: %s", status)
		}
		return nil
	})
}

// awaitStrike waits for the pass in which the fault strikes.
func (c cell) awaitStrike(t *testing.T) {
	t.Helper()
	daemon.Eventually(t, interval+slack, func() error {
		_, err := os.Stat(c.Struck)
		return err
	})
}

// passes returns the number of passes of the daemon that concluded something.
func passes(t *testing.T, d *daemon.Daemon) (n uint64) {
	t.Helper()
	_, status := d.Get("/status")
	var s struct {
		Passes uint64 `json:"passes"`
	}
	if err := json.Unmarshal([]byte(status), &s); err != nil {
		t.Fatalf("%v: %s", err, status)
	}
	return s.Passes
}

// awaitPasses waits until n more passes have concluded that no pod has to go.
func (c cell) awaitPasses(t *testing.T, d *daemon.Daemon, n uint64) {
	t.Helper()
	before := passes(t, d)
	daemon.Eventually(t, c.budget+slack, func() error {
		if now := passes(t, d); now < before+n {
			return fmt.Errorf("%d passes, want %d more than %d", now, n, before)
		}
		return nil
	})
	if n := len(d.Records("evicting pod")); n != 0 {
		t.Errorf("%d decisions, want none: it is known now when the plugin lies", n)
	}
}

// awaitStandby waits until log, status and metric name the plugin that is slow.
func (c cell) awaitStandby(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	name := "acme"
	if c.who == builtin {
		name = c.Base
	}
	// Calls of a decision are cut short while memory is used up: then the delays of the next passes count.
	r := d.AwaitMsg("plugin answers too slowly and is asked after all others", interval+slack)
	if r.String("plugin") != name {
		t.Errorf("%s is slow, want %s", r.String("plugin"), name)
	}
	daemon.Eventually(t, slack, func() error {
		if _, status := d.Get("/status"); !strings.Contains(status, `"standby": {`) {
			return fmt.Errorf("status does not say so: %s", status)
		}
		if _, metrics := d.Get("/metrics"); !strings.Contains(metrics, fmt.Sprintf(`evictd_plugin_standby{plugin="%s"} 1`, name)) {
			return fmt.Errorf("no metric says so")
		}
		return nil
	})
}

// awaitEviction waits for the decision, and for its victim's end.
func (c cell) awaitEviction(t *testing.T, w *world, d *daemon.Daemon) {
	t.Helper()
	r := d.AwaitMsg("evicting pod", c.budget+3*slack)
	if victim := strings.TrimPrefix(r.String("pod"), "default/"); !slices.Contains(c.victims, victim) {
		t.Errorf("victim %s by %s, want one of %v", victim, r.String("ranker"), c.victims)
	}
	d.AwaitMsg("pod finished", 10*time.Second)
	if n := len(d.Records("evicting pod")); n != 1 {
		t.Errorf("%d decisions, want one", n)
	}
	for _, name := range []string{shield, stranger} {
		if !w.runtime.Running("uid-" + name) {
			t.Errorf("%s is gone, which must not go", name)
		}
	}
	if stopped := w.runtime.Stopped(); len(stopped) != 1 {
		t.Errorf("containers %q were stopped, want one", stopped)
	}
}

// awaitReport waits until status, log and metric name the signal and the host is
// not ready.
func (c cell) awaitReport(t *testing.T, d *daemon.Daemon) {
	t.Helper()
	signal := "memory.available"
	if c.who == only {
		signal = spare
	}
	d.Await("the log names the signal", c.budget+2*slack, func(r evictd.Record) bool {
		return strings.Contains(r.Msg, "is not observed") && r.String("signal") == signal
	})
	daemon.Eventually(t, slack, func() error {
		if _, status := d.Get("/status"); !strings.Contains(status, `"unobserved": true`) || !strings.Contains(status, `"state": "unknown"`) {
			return fmt.Errorf("status does not say that %s is not observed:\n%s", signal, status)
		}
		if _, metrics := d.Get("/metrics"); !strings.Contains(metrics, fmt.Sprintf(`evictd_signal_unobserved{signal="%s"} 1`, signal)) {
			return fmt.Errorf("no metric says that %s is not observed", signal)
		}
		if code, text := d.Get("/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(text, signal) {
			return fmt.Errorf("/healthz = %d %q, want 503 and the signal", code, text)
		}
		return nil
	})
	if n := len(d.Records("evicting pod")); n != 0 {
		t.Errorf("%d decisions, want none", n)
	}
}
