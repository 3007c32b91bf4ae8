package loop

import (
	"context"
	"slices"
	"sync"

	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// observe asks who is in charge of each signal, all plugins in parallel, and
// goes on with the next one for signals that are still unknown. A signal that
// is not in the result has no observer at all. With layout it also asks for that
// of the filesystems, which is nil if its owner does not say.
func (l *Loop) observe(ctx context.Context, roster Roster, at sight, signals []eviction.Signal, layout bool) (map[eviction.Signal]eviction.Observation, *eviction.LayoutReport) {
	got := make(map[eviction.Signal]eviction.Observation, len(signals))
	var report *eviction.LayoutReport
	for turn := 0; ; turn++ {
		asks := map[*supervisor.Instance][]eviction.Signal{}
		for _, s := range signals {
			if o, ok := got[s]; ok && o.State != eviction.Unknown {
				continue
			}
			if ps := roster.Providers(s, eviction.CanObserve); turn < len(ps) {
				asks[ps[turn]] = append(asks[ps[turn]], s)
			}
		}
		if owner := roster.Layout(); layout && turn == 0 && owner != nil {
			asks[owner] = append(asks[owner], nil...) // also without a signal
		}
		if len(asks) == 0 {
			return got, report
		}
		for _, a := range l.ask(ctx, at, asks) {
			for _, o := range a.observations {
				got[o.Signal] = o
			}
			if layout && a.layout != nil {
				report = a.layout
			}
		}
	}
}

// An answer is what one plugin observed.
type answer struct {
	observations []eviction.Observation
	layout       *eviction.LayoutReport
}

// ask calls Observe of several plugins at once. Every asked signal has exactly
// one observation in the result.
func (l *Loop) ask(ctx context.Context, at sight, asks map[*supervisor.Instance][]eviction.Signal) []answer {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []answer
	)
	for p, signals := range asks {
		wg.Go(func() {
			reply, err := p.Plugin.Observer.Observe(ctx, eviction.ObserveRequest{Pass: at.pass, View: at.view, Signals: signals})
			if err != nil {
				l.Metrics.CallFailed(p.Name, "observe", err)
				l.Log.Warn("observation failed", "plugin", p.Name, "signals", signals, "error", err)
			}
			obs := settle(signals, reply.Observations, err)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, answer{obs, reply.Layout})
		})
	}
	wg.Wait()
	return all
}

// settle gives each asked signal its observation: the plugin's, or unknown with
// the reason.
func settle(asked []eviction.Signal, replied []eviction.Observation, err error) []eviction.Observation {
	out := make([]eviction.Observation, 0, len(asked))
	for _, s := range asked {
		i := slices.IndexFunc(replied, func(o eviction.Observation) bool { return o.Signal == s })
		switch {
		case err != nil:
			out = append(out, eviction.Observation{Signal: s, Err: err.Error()})
		case i < 0:
			out = append(out, eviction.Observation{Signal: s, Err: "left out of the plugin's reply"})
		default:
			out = append(out, replied[i])
		}
	}
	return out
}
