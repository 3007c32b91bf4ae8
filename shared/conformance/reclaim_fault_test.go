package conformance

import (
	"context"
	"sync/atomic"

	"github.com/evictd/evictd/shared/eviction"
)

func reclaimFaults() map[string]valueFault {
	change := func(do func(*eviction.Reclaimed)) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.reclaim = func(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				r, err := soundReclaim(ctx, req, progress)
				do(&r)
				return r, err
			}
		}
	}
	return map[string]valueFault{
		"runs any step": {func(s *sound, _ *eviction.Plugin) {
			s.reclaim = func(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				return eviction.Reclaimed{}, nil
			}
		}, "accepted", []string{"reclaim-unknown-step"}},
		"frees less than nothing": {change(func(r *eviction.Reclaimed) {
			if r.Bytes > 0 {
				r.Bytes = -2
			}
		}), "freed -2 bytes", []string{"reclaim", "reclaim-again", "reclaim-claims", "reclaim-cancelled"}},
		"frees only once": {func(s *sound, _ *eviction.Plugin) {
			var done atomic.Int32
			s.reclaim = func(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				if req.Step == "tidy" && done.Add(1) > 1 {
					panic("nothing left")
				}
				return soundReclaim(ctx, req, progress)
			}
		}, "nothing left", []string{"reclaim-again", "reclaim-claims", "reclaim-cancelled"}},
	}
}
