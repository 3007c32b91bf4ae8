package pace

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// CausePoll is the cause of a wake without a notification of the kernel.
	CausePoll = "poll"
	// longest is the maximum time between two looks of Watch, the host's own interval.
	longest = 10 * time.Second
)

// Watch looks at signals of which the kernel does not notify until ctx ends, and calls wake, from its own
// goroutine, when one has crossed a threshold; it does not repeat it, since the host takes the next step
// when what it began has ended. perSecond returns the fastest rate at which a signal is expected to fall,
// in its unit, 0 for a signal that is not watched. look returns the figures of signals; one that it leaves
// out, or that is not observed, meets no threshold.
func Watch(
	ctx context.Context, req eviction.WatchRequest, perSecond func(eviction.Signal) float64,
	look func([]eviction.Signal) []eviction.Observation, wake func(eviction.Wake),
) {
	paces, due := map[eviction.Signal]*Pace{}, map[eviction.Signal]time.Time{}
	for _, t := range req.Thresholds {
		if rate := perSecond(t.Signal); rate > 0 {
			if paces[t.Signal] == nil {
				paces[t.Signal], due[t.Signal] = &Pace{PerSecond: rate}, time.Time{}
			}
			paces[t.Signal].Thresholds = append(paces[t.Signal].Thresholds, t.Threshold)
		}
	}
	if len(due) == 0 {
		<-ctx.Done()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		var signals []eviction.Signal
		for s, at := range due {
			if time.Until(at) < tightInterval {
				signals = append(signals, s)
			}
		}
		figures, now, next := look(signals), time.Now(), longest
		for _, s := range signals {
			v := paces[s].observed(now, figures, s)
			v.Report(s, CausePoll, wake)
			due[s] = now.Add(v.Again)
		}
		for _, at := range due {
			next = min(next, at.Sub(now))
		}
		timer.Reset(next)
	}
}

func (p *Pace) observed(now time.Time, figures []eviction.Observation, s eviction.Signal) Verdict {
	i := slices.IndexFunc(figures, func(o eviction.Observation) bool { return o.Signal == s && o.State == eviction.Observed })
	if i < 0 {
		return p.Lost(longest)
	}
	return p.Look(now, figures[i].Available, figures[i].Capacity, longest)
}
