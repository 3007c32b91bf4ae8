package expected

import (
	"context"
	"slices"
	"time"
)

const (
	// watchInterval is the interval at which Watch looks at the plugins.
	watchInterval = 2 * time.Second
	// reportedAfter is the time without a plugin after which Watch reports it.
	reportedAfter = 10 * time.Second
	// mostCauses bounds the reports of one episode: the plugin may word its cause differently each time.
	mostCauses = 5
)

// An episode is a time in which one plugin does not serve.
type episode struct {
	since    time.Time
	reported []string // causes
}

// Watch reports each plugin that does not serve for long, once for each cause, until ctx ends.
func Watch(ctx context.Context, notServing func() []Absence, report func(Absence)) {
	look := time.NewTicker(watchInterval)
	defer look.Stop()
	for former := map[string]*episode{}; ; {
		now := map[string]*episode{}
		for _, a := range notServing() {
			e := former[a.Plugin]
			if e == nil {
				e = &episode{since: time.Now()}
			}
			now[a.Plugin] = e
			if time.Since(e.since) >= reportedAfter && len(e.reported) < mostCauses && !slices.Contains(e.reported, a.Cause) {
				e.reported = append(e.reported, a.Cause)
				report(a)
			}
		}
		former = now
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}
