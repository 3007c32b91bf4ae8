package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func rankFaults() map[string]valueFault {
	change := func(do func(eviction.RankRequest, []eviction.Ranked) []eviction.Ranked) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				ranking, err := soundRank(ctx, req)
				return do(req, ranking), err
			}
		}
	}
	refuse := func(when func(eviction.RankRequest) error) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) {
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				if err := when(req); err != nil {
					return nil, err
				}
				return soundRank(ctx, req)
			}
		}
	}
	return map[string]valueFault{
		"ranks strangers": {change(func(_ eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			if len(ranking) == 100 {
				ranking[5].UID = "stranger"
			}
			return ranking
		}), `"stranger" was never sent`, []string{"rank-only-candidates"}},
		"ranks twice": {change(func(_ eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			if len(ranking) == 100 {
				ranking[5] = ranking[6]
			}
			return ranking
		}), "twice", []string{"rank-once"}},
		"ranks more than there are": {change(func(_ eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			return append(ranking, eviction.Ranked{UID: "one"}, eviction.Ranked{UID: "more"})
		}), "102 pods in a ranking of 100", []string{"rank"}},
		"rolls dice": {change(func(_ eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			rand.Shuffle(len(ranking), func(i, k int) { ranking[i], ranking[k] = ranking[k], ranking[i] })
			return ranking
		}), "first [", []string{"rank-deterministic", "rank-independent", "rank-ties", "rank-parallel", "configure-keeps-former"}},
		"remembers former calls": {func(s *sound, _ *eviction.Plugin) {
			seen := map[string]eviction.Candidate{}
			var mu sync.Mutex
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				mu.Lock()
				defer mu.Unlock()
				for i, c := range req.Candidates {
					if len(req.Candidates) != 100 {
						break
					}
					if former, ok := seen[c.Pod.UID]; ok {
						req.Candidates[i].Pod.Priority += former.Pod.Priority
					}
					seen[c.Pod.UID] = c
				}
				return soundRank(ctx, req)
			}
		}, "then [", []string{"rank-independent", "rank-deterministic"}},
		"does not keep ties": {change(func(req eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			if len(ranking) == 30 && req.Candidates[1].Pod.Priority == req.Candidates[0].Pod.Priority {
				slices.Reverse(ranking)
			}
			return ranking
		}), "not the order of the candidates", []string{"rank-ties"}},
		"expects candidates": {change(func(req eviction.RankRequest, ranking []eviction.Ranked) []eviction.Ranked {
			_ = req.Candidates[0]
			return ranking
		}), "0 candidates", []string{"rank-few", "empty-messages"}},
		"expects prices": {refuse(func(req eviction.RankRequest) error {
			for _, c := range req.Candidates {
				var price float64
				if text, ok := c.Pod.Annotations["price"]; ok && json.Unmarshal([]byte(text), &price) != nil {
					return fmt.Errorf("pod %s: price %.20q is not a number", c.Pod.Name, text)
				}
			}
			return nil
		}), "is not a number", []string{"rank-odd-rows"}},
		"panics on an empty uid": {refuse(func(req eviction.RankRequest) error {
			for _, c := range req.Candidates {
				_ = c.Pod.UID[0]
			}
			return nil
		}), "panic", []string{"rank-impossible-rows"}},
		"shares a buffer": {func(s *sound, _ *eviction.Plugin) {
			var mu sync.Mutex
			var rows []eviction.Candidate
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				if len(req.Candidates) != 30 { // those of the calls at once
					return soundRank(ctx, req)
				}
				mu.Lock()
				rows = req.Candidates
				mu.Unlock()
				<-time.After(2 * time.Millisecond)
				mu.Lock()
				req.Candidates = rows
				mu.Unlock()
				return soundRank(ctx, req)
			}
		}, "", []string{"rank-parallel"}},
		"refuses what is newer": {refuse(func(req eviction.RankRequest) error {
			if len(req.Candidates) == 10 && req.Candidates[3].Measurement.State == eviction.MeasurementUnknown {
				return errors.New("unknown state")
			}
			return nil
		}), "unknown state", []string{"rank-newer-host"}},
	}
}
