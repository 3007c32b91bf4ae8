package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/evictd/evictd/shared/eviction"
)

func describeFaults() map[string]valueFault {
	return map[string]valueFault{
		"refuses an older host without a word": {func(_ *sound, p *eviction.Plugin) {
			p.CheckHost = func(h eviction.Host) error {
				if h.Version == "" {
					return errors.New("")
				}
				return nil
			}
		}, "without a text", []string{"describe-older-host"}},
		"refuses features that it does not know": {func(_ *sound, p *eviction.Plugin) {
			p.CheckHost = func(h eviction.Host) error {
				for _, f := range h.Features {
					if !slices.Contains(eviction.Features(), f) {
						return fmt.Errorf("unknown feature %s", f)
					}
				}
				return nil
			}
		}, "unknown feature", []string{"describe-newer-host"}},
		"does not name the field": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(_ context.Context, req eviction.ConfigureRequest) error {
				if checkConfig(req.Config) != nil {
					return errors.New("bad config")
				}
				return nil
			}
		}, "bad config", []string{"configure-unknown-field"}},
		"takes rubbish for no config": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(_ context.Context, req eviction.ConfigureRequest) error {
				if err := checkConfig(req.Config); err != nil && strings.Contains(err.Error(), "unknown field") {
					return err
				}
				return nil
			}
		}, `{"a":`, []string{"configure-not-json"}},
		"forgets its configuration when it refuses one": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(ctx context.Context, req eviction.ConfigureRequest) error {
				s.mu.Lock()
				s.config = "none"
				s.mu.Unlock()
				return s.soundConfigure(ctx, req)
			}
			s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.config == "none" {
					return nil, errors.New("not configured")
				}
				return soundRank(ctx, req)
			}
		}, "not configured", []string{"configure-keeps-former"}},
		"is configured only once": {configuredOnce, "configured already", append([]string{"configure-again"}, afterOneConfigure...)},
		// The call of the failing check was Rank, which the plugin had not got yet.
		"is configured only once, before other calls": {configuredOnce, "Configure: plugin refused: configured already", append([]string{"rank", "configure-again"}, afterOneConfigure...)},
		"needs a field": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(context.Context, eviction.ConfigureRequest) error {
				return eviction.FieldErrors{{Path: []string{"path"}, Text: "missing, want a value"}}
			}
		}, "path: missing, want a value (without any config", []string{"configure"}},
		"needs a config": {func(s *sound, _ *eviction.Plugin) {
			s.configure = func(context.Context, eviction.ConfigureRequest) error { return errors.New("path is empty") }
		}, "path is empty (without any config", []string{"configure"}},
	}
}

// afterOneConfigure are checks that begin with another Configure.
var afterOneConfigure = []string{
	"metrics", "metrics-counters",
	"configure-keeps-former", "configure-newer-host", "configure-during-calls", "observe", "measure", "rank", "reclaim-unknown-step", "garbage-describe",
}

func configuredOnce(s *sound, _ *eviction.Plugin) {
	var done atomic.Bool
	s.configure = func(_ context.Context, req eviction.ConfigureRequest) error {
		if err := checkConfig(req.Config); err != nil {
			return err
		}
		if !done.CompareAndSwap(false, true) {
			return errors.New("configured already")
		}
		return nil
	}
}
