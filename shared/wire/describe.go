package wire

import (
	"math"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func encodeHost(h eviction.Host) *pluginv1.DescribeRequest {
	return &pluginv1.DescribeRequest{HostVersion: text(h.Version), Features: encodeNames(h.Features), Config: h.Config}
}

func decodeHost(w *pluginv1.DescribeRequest) eviction.Host {
	return eviction.Host{Version: w.GetHostVersion(), Features: decodeNames[string](w.GetFeatures()), Config: w.Config} //nolint:protogetter // absent is not empty
}

func encodePlugin(p *eviction.Plugin) *pluginv1.DescribeResponse {
	return &pluginv1.DescribeResponse{
		Name:            text(p.Name),
		Version:         text(p.Version),
		Capabilities:    encodeCapabilities(p.Capabilities()),
		Configurable:    p.Configurer != nil,
		OwnsLayout:      p.OwnsLayout,
		Signals:         encodeRows(p.Signals, encodeSignalSpec),
		WantLabels:      encodeNames(p.WantLabels),
		WantAnnotations: encodeNames(p.WantAnnotations),
		Description:     text(p.Description),
		Vendor:          text(p.Vendor),
		Licence:         text(p.Licence),
		HasMetrics:      p.Meter != nil,

		SignalsFromConfig: p.SignalsFromConfig || p.SignalsFor != nil,
	}
}

// decodePlugin returns the description alone; the client sets the fields that are calls.
func decodePlugin(w *pluginv1.DescribeResponse) eviction.Plugin {
	p := eviction.Plugin{
		Name:            w.GetName(),
		Version:         w.GetVersion(),
		OwnsLayout:      w.GetOwnsLayout(),
		WantLabels:      decodeNames[string](w.GetWantLabels()),
		WantAnnotations: decodeNames[string](w.GetWantAnnotations()),
		Description:     w.GetDescription(),
		Vendor:          w.GetVendor(),
		Licence:         w.GetLicence(),

		SignalsFromConfig: w.GetSignalsFromConfig(),
	}
	for _, s := range w.GetSignals() {
		if spec, ok := decodeSignalSpec(s); ok {
			p.Signals = append(p.Signals, spec)
		}
	}
	return p
}

func encodeSignalSpec(w *pluginv1.SignalSpec, s *eviction.SignalSpec) {
	w.Signal = text(string(s.Signal))
	w.Capabilities = encodeCapabilities(s.Capabilities)
	if d := s.Definition; d != nil {
		w.Definition = &pluginv1.Definition{
			Unit:      text(string(d.Unit)),
			Format:    text(string(d.Format)),
			Resource:  text(d.Resource),
			Condition: text(string(d.Condition)),

			ReliefTimeMillis: d.ReliefTime.Milliseconds(),
			Candidates:       scopes.encode(d.Candidates),
			Relieves:         text(string(d.Relieves)),
		}
	}
	w.ReclaimSteps = encodeRows(s.ReclaimSteps, encodeReclaimStep)
}

// decodeSignalSpec returns false for a signal that is offered only with capabilities unknown
// to this side: an empty set would mean all of them.
func decodeSignalSpec(w *pluginv1.SignalSpec) (eviction.SignalSpec, bool) {
	s := eviction.SignalSpec{
		Signal:       eviction.Signal(w.GetSignal()),
		Capabilities: decodeCapabilities(w.GetCapabilities()),
	}
	if d := w.GetDefinition(); d != nil {
		s.Definition = &eviction.Definition{
			Unit:      eviction.Unit(d.GetUnit()),
			Format:    eviction.Format(d.GetFormat()),
			Resource:  d.GetResource(),
			Condition: eviction.Condition(d.GetCondition()),
			// Clamped: a value out of range must be refused later, not overflow here.
			ReliefTime: time.Duration(min(max(d.GetReliefTimeMillis(), -1), math.MaxInt32)) * time.Millisecond,
			Candidates: scopes.decode(d.GetCandidates(), eviction.AllPods),
			Relieves:   eviction.Signal(d.GetRelieves()),
		}
	}
	for _, step := range w.GetReclaimSteps() {
		if known, ok := decodeReclaimStep(step); ok {
			s.ReclaimSteps = append(s.ReclaimSteps, known)
		}
	}
	return s, s.Capabilities != 0 || len(w.GetCapabilities()) == 0
}

func encodeReclaimStep(w *pluginv1.ReclaimStep, s *eviction.ReclaimStep) {
	w.Name, w.EnabledBy = text(s.Name), text(s.EnabledBy)
	for _, l := range s.Layouts {
		w.Layouts = append(w.Layouts, layouts.encode(l))
	}
}

// decodeReclaimStep returns false for a step that runs only in layouts unknown to this
// side: an empty list would mean all of them.
func decodeReclaimStep(w *pluginv1.ReclaimStep) (eviction.ReclaimStep, bool) {
	s := eviction.ReclaimStep{Name: w.GetName(), EnabledBy: w.GetEnabledBy()}
	for _, l := range w.GetLayouts() {
		if known := layouts.decode(l, 0); known != 0 {
			s.Layouts = append(s.Layouts, known)
		}
	}
	return s, len(s.Layouts) > 0 || len(w.GetLayouts()) == 0
}
