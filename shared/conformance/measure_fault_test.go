package conformance

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func measureFaults() map[string]valueFault {
	// also is a fault that does something after a sound Measure.
	also := func(do func(eviction.MeasureRequest, func(eviction.Measurement))) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.measure = func(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
				_ = soundMeasure(ctx, req, emit)
				do(req, emit)
				return nil
			}
		}
	}
	// each is a fault of every answer.
	each := func(do func(eviction.MeasureRequest, *eviction.Measurement)) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.measure = func(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
				return soundMeasure(ctx, req, func(m eviction.Measurement) {
					do(req, &m)
					emit(m)
				})
			}
		}
	}
	return map[string]valueFault{
		"measures strangers": {also(func(req eviction.MeasureRequest, emit func(eviction.Measurement)) {
			if len(req.Pods) == 500 {
				emit(eviction.Measurement{UID: "stranger", State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: customSignal, Value: 1}}})
			}
		}), `"stranger"`, []string{"measure-only-asked"}},
		"answers when nothing was asked": {also(func(req eviction.MeasureRequest, emit func(eviction.Measurement)) {
			if len(req.Pods) == 0 {
				emit(eviction.Measurement{UID: "stranger"})
			}
		}), "1 answers", []string{"measure-none"}},
		"measures twice": {also(func(req eviction.MeasureRequest, emit func(eviction.Measurement)) {
			if len(req.Pods) > 1 {
				emit(eviction.Measurement{UID: req.Pods[0].UID})
			}
		}), "twice", []string{"measure-once"}},
		"negative usage": {each(func(req eviction.MeasureRequest, m *eviction.Measurement) {
			m.State, m.Usage = eviction.Measured, []eviction.SignalUsage{{Signal: req.Signals[0], Value: -1}}
		}), "is -1", []string{"measure-figures", "measure-odd-uids"}},
		"usage of other signals": {each(func(_ eviction.MeasureRequest, m *eviction.Measurement) {
			m.Usage = []eviction.SignalUsage{{Signal: eviction.PIDAvailable, Value: 1}}
		}), "not asked for", []string{"measure-figures"}},
		"zero for nothing": {each(func(req eviction.MeasureRequest, m *eviction.Measurement) {
			if len(req.Pods) == 500 {
				m.State, m.Usage = eviction.Measured, []eviction.SignalUsage{{Signal: customSignal}}
			}
		}), "zeros", []string{"measure-no-pod"}},
		"always goes into containers": {each(func(_ eviction.MeasureRequest, m *eviction.Measurement) {
			m.Containers = []eviction.ContainerMeasurement{{Name: "main"}}
		}), "DETAIL_POD", []string{"measure-detail"}},
		"follows paths in uids": {each(func(_ eviction.MeasureRequest, m *eviction.Measurement) {
			if strings.Contains(m.UID, "..") {
				m.State, m.WorkingSetBytes = eviction.Measured, eviction.Some(1<<30)
			}
		}), "is measured", []string{"measure-odd-uids"}},
		"refuses odd uids with a panic": {also(func(req eviction.MeasureRequest, _ func(eviction.Measurement)) {
			for i := range req.Pods {
				_ = req.Pods[i].UID[0]
			}
		}), "panic", []string{"measure-odd-uids"}},
		"mixes calls up": {func(s *sound, _ *eviction.Plugin) {
			var mu sync.Mutex
			var pods []eviction.Pod
			s.measure = func(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
				mu.Lock()
				pods = req.Pods
				mu.Unlock()
				<-time.After(10 * time.Millisecond)
				mu.Lock()
				req.Pods = pods
				mu.Unlock()
				return soundMeasure(ctx, req, emit)
			}
		}, "of another call", []string{"measure-parallel", "measure-cancelled"}},
	}
}
