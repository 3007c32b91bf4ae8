package supervisor

import (
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const goodSignal eviction.Signal = "faulty.example/good"

// brings returns what a new pass knows of an own signal.
func (h *testHost) brings(s eviction.Signal) (d eviction.Definition, defined, claimed, runs bool) {
	p := h.Pin()
	defer p.Release()
	d, defined = p.Definition(s)
	return d, defined, p.Claimed(s, eviction.CanObserve), len(p.Providers(s, eviction.CanObserve)) > 0
}

func TestAnOwnSignalIsDefinedAsLongAsItsPluginBelongsToTheNode(t *testing.T) {
	p := defaultPatience()
	p.first = time.Hour // a crash must last
	p.longest = 2 * time.Hour
	h := startPatient(t, p, install(t, "good"))
	want := signalOf("good").Definition
	d, defined, claimed, runs := h.brings(goodSignal)
	if d != *want || !defined || !claimed || !runs {
		t.Fatalf("while it runs: %+v, defined %v, claimed %v, runs %v; want %+v", d, defined, claimed, runs, *want)
	}
	if _, defined, claimed, _ := h.brings("faulty.example/other"); defined || claimed {
		t.Errorf("a signal that nobody brings is defined %v, claimed %v", defined, claimed)
	}
	if err := syscall.Kill(h.plugin("good").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it waits after its crash", func() bool { return h.plugin("good").State == Backoff })
	d, defined, claimed, runs = h.brings(goodSignal)
	if d != *want || !defined || !claimed || runs {
		t.Errorf("after a crash: %+v, defined %v, claimed %v, runs %v; want it to be waited for", d, defined, claimed, runs)
	}
	drain(h.changed)
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"good": {Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the signal is switched off", func() bool {
		_, defined, claimed, runs := h.brings(goodSignal)
		return !defined && !claimed && !runs
	})
	eventually(t, "that is told", func() bool { return len(h.changed) == 1 })
}

func signalOf(name string) eviction.SignalSpec {
	own := eviction.Signal("faulty.example/" + name)
	return eviction.SignalSpec{Signal: own, Definition: &eviction.Definition{
		Unit: "things", Format: eviction.FormatDecimalSI, Resource: string(own), Condition: eviction.Condition(own),
	}}
}
