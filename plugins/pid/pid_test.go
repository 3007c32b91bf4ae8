package pid_test

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

var asked = []eviction.Signal{eviction.PIDAvailable}

func observe(t *testing.T, p sdk.Plugin, pass uint64) (eviction.ObserveReply, error) {
	t.Helper()
	return p.Observer.Observe(t.Context(), eviction.ObserveRequest{PassView: eviction.PassView{Pass: pass, View: eviction.ViewBefore}, Signals: asked})
}

func TestPluginKeepsTheContract(t *testing.T) {
	p := pid.New()
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	if got, want := p.For(eviction.PIDAvailable), eviction.CanObserve|eviction.CanMeasure|eviction.CanWatch|eviction.CanRank; got != want {
		t.Errorf("capabilities %b, want %b", got, want)
	}
	err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Config: []byte(`{"nested":true}`)})
	if err == nil || !strings.Contains(err.Error(), "nested") {
		t.Errorf("error is %v, want one with the unknown field", err)
	}
}

func TestBeforeItIsConfigured(t *testing.T) {
	p := pid.New()
	if _, err := observe(t, p, 1); err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("error is %v, want not configured", err)
	}
	err := p.Measurer.Measure(t.Context(), eviction.MeasureRequest{Signals: asked}, func(eviction.Measurement) { t.Error("measured") })
	if err == nil || !strings.Contains(err.Error(), "not configured") {
		t.Errorf("error is %v, want not configured", err)
	}
}
