package loop

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// maxTextBytes is what is kept of a text that a plugin has written.
const maxTextBytes = 1 << 10

// leftOut is why a signal is unknown that a plugin said nothing of.
const leftOut = "left out of the plugin's reply"

// observe asks who is in charge of each signal, all plugins in parallel, and
// goes on with the next one for signals that are still unknown. With layout it also asks
// for that of the filesystems.
func (l *Loop) observe(ctx context.Context, roster Roster, at eviction.PassView, signals []eviction.Signal, layout bool) observed {
	began := time.Now()
	q := l.newInquiry(roster, signals)
	owners := roster.Layouts()
	heard := map[*registry.Instance]bool{}
	for turn := 0; ; turn++ {
		asks := q.turn(turn)
		var owner *registry.Instance // of the layout; others are not asked once it is known
		if layout && q.layout == nil && turn < len(owners) && (turn == 0 || l.filesystems.layout == 0) {
			owner = owners[turn]
			asks[owner] = append(asks[owner], nil...) // also without a signal
		}
		if len(asks) == 0 {
			break
		}
		for i := range asks {
			heard[i] = true
		}
		for _, a := range l.ask(ctx, at, asks) {
			q.take(a)
			if a.by == owner {
				q.layout = a.layout
			}
		}
	}
	l.silence.keep(heard)
	l.confirm(ctx, q)
	maps.Copy(l.observers, q.by)
	for _, s := range signals {
		if _, ok := q.signals[s]; !ok {
			if why := l.awaited(roster, s); why != nil {
				q.signals[s] = eviction.Observation{Signal: s, Err: clip(why.Error())}
			}
		}
	}
	if !l.SourceStands {
		clear(q.said)
	}
	l.standIn(ctx, began, signals, q.said, q.signals)
	return q.observed
}

// An answer is what one plugin observed.
type answer struct {
	by           *registry.Instance
	observations []eviction.Observation
	layout       *eviction.LayoutReport
	err          error
}

// says reports whether it is the plugin's word that o is unknown: it is well, and
// its source is not.
func (a answer) says(o eviction.Observation) bool {
	return o.State == eviction.Unknown && (errors.Is(a.err, eviction.ErrRefused) ||
		a.err == nil && o.Err != leftOut && !strings.HasPrefix(o.Err, eviction.ErrInvalidReply.Error()))
}

// ask calls Observe of several plugins at once. Every asked signal has exactly
// one observation in the result.
func (l *Loop) ask(ctx context.Context, at eviction.PassView, asks map[*registry.Instance][]eviction.Signal) []answer {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []answer
	)
	for p, signals := range asks {
		wg.Go(func() {
			reply, err := p.Plugin.Observer.Observe(ctx, eviction.ObserveRequest{PassView: at, Signals: signals})
			l.silence.observed(p, err)
			if err != nil {
				l.Metrics.CallFailed(p.Name, "observe", err)
				l.Log.Warn("observation failed", "plugin", p.Name, "signals", signals, "error", err)
			}
			obs := l.settle(signals, reply.Observations, err)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, answer{p, obs, reply.Layout, err})
		})
	}
	wg.Wait()
	return all
}

// settle gives each asked signal its observation: the plugin's, or unknown with
// the reason.
func (l *Loop) settle(asked []eviction.Signal, replied []eviction.Observation, err error) []eviction.Observation {
	out := make([]eviction.Observation, 0, len(asked))
	for _, s := range asked {
		i := slices.IndexFunc(replied, func(o eviction.Observation) bool { return o.Signal == s })
		switch {
		case err != nil:
			out = append(out, eviction.Observation{Signal: s, Err: clip(err.Error())})
		case i < 0:
			out = append(out, eviction.Observation{Signal: s, Err: leftOut})
		default:
			out = append(out, l.ofItsTime(replied[i]))
		}
	}
	return out
}

// ofItsTime makes a figure unknown whose time cannot be.
func (l *Loop) ofItsTime(o eviction.Observation) eviction.Observation {
	if !l.CheckSampleTimes || o.State != eviction.Observed || o.Time.IsZero() {
		return o
	}
	if err := eviction.CheckSampleAge(l.Now().Sub(o.Time)); err != nil {
		return eviction.Observation{Signal: o.Signal, Err: err.Error()}
	}
	return o
}

// clip shortens a text that others have written and that is kept.
func clip(s string) string {
	if len(s) <= maxTextBytes {
		return s
	}
	n := maxTextBytes
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) + "..."
}
