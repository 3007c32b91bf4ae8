package loop

import (
	"context"
	"slices"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// ShadowStatus counts how often the rankings of a shadow agreed with the decisions made.
type ShadowStatus struct {
	Plugin   string          `json:"plugin"`
	Signal   eviction.Signal `json:"signal"`
	Agreed   uint64          `json:"agreed"`
	Differed uint64          `json:"differed"`
	Failed   uint64          `json:"failed"`
}

// askShadows asks shadows which pod they would have chosen, outside of the loop: nothing waits for
// their answers, which change nothing.
func askShadows(ctx context.Context, l *Loop, c *choosing, v *victim.Victim) {
	pin := l.options.Pin()
	shadows := pin.Shadows(c.request.Layout, c.threshold.Signal)
	pin.Keep(func(i *registry.Instance) bool {
		return slices.ContainsFunc(shadows, func(p registry.Provider) bool { return p.Instance == i })
	})
	if len(shadows) == 0 {
		pin.Release()
		return
	}
	of, request, made := v.Record, c.request, c.choice
	l.working.Go(func() {
		opinions := l.chooser.Opinions(ctx, shadows, request, &made)
		pin.Release()
		_ = call(l.calls, ctx.Done(), l.ended, func(context.Context) { recordOpinions(l, request.Threshold.Signal, opinions, of) }) // on error the loop is ending
	})
}

// recordOpinions logs, counts and records the opinions of shadows on a decision.
func recordOpinions(l *Loop, signal eviction.Signal, opinions []choose.Opinion, of string) {
	rows := make([]decision.Opinion, 0, len(opinions))
	l.status.change(func(next *Snapshot) {
		next.Shadows = slices.Clone(next.Shadows)
		for _, o := range opinions {
			at := slices.IndexFunc(next.Shadows, func(s ShadowStatus) bool { return s.Plugin == o.Plugin && s.Signal == signal })
			if at < 0 {
				at = len(next.Shadows)
				next.Shadows = append(next.Shadows, ShadowStatus{Plugin: o.Plugin, Signal: signal})
			}
			row := decision.Opinion{Plugin: o.Plugin, Version: o.Version, First: o.First, Place: o.Place, TookMS: float64(o.Took.Microseconds()) / 1000}
			counted := &next.Shadows[at].Differed
			switch {
			case o.Err != nil:
				row.Err = o.Err.Error()
				counted = &next.Shadows[at].Failed
			case o.Place == 1:
				counted = &next.Shadows[at].Agreed
			}
			*counted++
			rows = append(rows, row)
			l.options.Metrics.ShadowRanked(o.Plugin, signal, o.Place, o.Err)
			l.options.Log.Info("shadow ranked", "plugin", o.Plugin, "signal", signal, "first", o.First, "place", o.Place, "record", of, "error", row.Err)
		}
	})
	l.record(Conclusion{Opinions: rows, OpinionsOf: of, Victims: l.victims.History()})
}
