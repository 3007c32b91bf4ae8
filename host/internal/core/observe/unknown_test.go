package observe

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/shared/eviction"
)

func TestSinceWhenASignalIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const signal = eviction.ImageFsAvailable
		o := New(Options{Metrics: metrics.New("", ""), Log: slog.New(slog.DiscardHandler)})
		note := func(all map[eviction.Signal]eviction.Observation) time.Time {
			o.of(signal).observation = all[signal]
			o.note(signal, all)
			return o.Statuses()[0].UnknownSince
		}
		of := func(s eviction.ObservationState) map[eviction.Signal]eviction.Observation {
			return map[eviction.Signal]eviction.Observation{signal: {Signal: signal, State: s}}
		}
		began := time.Now()
		for i, step := range []struct {
			all  map[eviction.Signal]eviction.Observation
			want time.Time
		}{
			{of(eviction.Unknown), began},
			{of(eviction.Unknown), began},
			{of(eviction.Absent), time.Time{}},
			{of(eviction.Unknown), began.Add(3 * time.Second)},
			{nil, time.Time{}}, // its plugin was removed, by which a signal is switched off
			{of(eviction.Observed), time.Time{}},
		} {
			if got := note(step.all); !got.Equal(step.want) {
				t.Errorf("step %d: unknown since %v, want %v", i, got, step.want)
			}
			time.Sleep(time.Second)
		}
	})
}
