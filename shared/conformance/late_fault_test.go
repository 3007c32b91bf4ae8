package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// lateFaults are those whose time is the deadline of a call.
func lateFaults() map[string]valueFault {
	return map[string]valueFault{
		"is quadratic": {func(s *sound, _ *eviction.Plugin) {
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				<-time.After(time.Duration(len(req.Candidates)*len(req.Candidates)) * 5 * time.Microsecond)
				return soundRank(ctx, req)
			}
		}, "no answer within 1s", []string{"rank-500"}},
		"caches": {func(s *sound, _ *eviction.Plugin) {
			first := sync.OnceValue(time.Now)
			s.observe = func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
				reply, err := soundObserve(ctx, req)
				for i := range reply.Observations {
					reply.Observations[i].Time = first()
				}
				return reply, err
			}
		}, "and then", []string{"observe-fresh"}},
		"hangs in Configure": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(ctx context.Context, _ eviction.ConfigureRequest) error {
				<-ctx.Done()
				return ctx.Err()
			}
		}, "no answer within 2s", []string{"configure"}},
		"hangs in Observe": {func(s *sound, _ *eviction.Plugin) {
			s.observe = func(ctx context.Context, _ eviction.ObserveRequest) (eviction.ObserveReply, error) {
				<-time.After(eviction.ObserveDeadline + 200*time.Millisecond)
				return eviction.ObserveReply{}, ctx.Err()
			}
		}, "no answer within 1s", []string{"observe", "empty-messages"}},
		"keeps its answers for too long": {func(s *sound, _ *eviction.Plugin) {
			s.measure = func(context.Context, eviction.MeasureRequest, func(eviction.Measurement)) error {
				<-time.After(eviction.MeasureDeadline + 200*time.Millisecond)
				return nil
			}
		}, "no answer within 5s", []string{"measure", "empty-messages"}},
	}
}
