package supervisor

import (
	"context"
	"reflect"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

// able has all capabilities.
type able struct {
	inside
	eviction.Watcher
}

func (able) Metrics(context.Context) ([]eviction.Metric, error) {
	return []eviction.Metric{{Name: "a"}}, nil
}

// Whatever fields a plugin has, the host has them too: the way leads through the protocol and the client, which copy them.
func TestNoFieldOfAPluginIsLost(t *testing.T) {
	t.Parallel()
	p := eviction.Plugin{
		Name: "whole", Version: "1", Description: "d", Vendor: "v", Licence: "l", OwnsLayout: true,
		WantLabels: []string{"a"}, WantAnnotations: []string{"b"}, CheckHost: func(eviction.Host) error { return nil },
		Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}, SignalsFromConfig: true,
	}
	p.SignalsFor = func([]byte) ([]eviction.SignalSpec, error) { return p.Signals, nil }
	fields := reflect.ValueOf(&p).Elem()
	for i := range fields.NumField() {
		if f := fields.Field(i); f.Kind() == reflect.Interface {
			f.Set(reflect.ValueOf(able{}))
		} else if f.IsZero() {
			t.Errorf("the test does not set %s", fields.Type().Field(i).Name)
		}
	}
	h := insideHost(t, Options{}, map[string]eviction.Plugin{"whole": p})
	pin := h.Pin()
	defer pin.Release()
	held := reflect.ValueOf(pin.Named("whole").Plugin).Elem()
	for i := range held.NumField() {
		name, f := held.Type().Field(i).Name, held.Field(i)
		kept := name != "Configurer" && name != "CheckHost" && name != "SignalsFor" // which the supervisor calls
		switch {
		case f.IsZero() == kept:
			t.Errorf("%s: %v", name, f)
		case kept && f.Kind() == reflect.Interface && f.Elem().Type() != reflect.TypeOf(h.control.plugins["whole"].serving.client):
			t.Errorf("%s is called without the client, so without a deadline: %v", name, f.Elem().Type())
		}
	}
	if all, err := pin.Named("whole").Plugin.Meter.Metrics(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("metrics %v, %v", all, err)
	}
}
