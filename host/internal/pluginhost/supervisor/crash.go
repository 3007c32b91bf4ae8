package supervisor

import (
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// restartPolicy determines when a failed plugin is restarted.
type restartPolicy struct {
	first, longest time.Duration // between two starts
	// So many crashes within window put a plugin into quarantine for the duration of window.
	crashes int
	window  time.Duration
	// stable is the run time after which the backoff starts over.
	stable time.Duration
	// hostFault is the pause between starts that fail for the host's own reason.
	hostFault time.Duration
}

func defaultRestartPolicy() restartPolicy {
	return restartPolicy{
		first: 200 * time.Millisecond, longest: 30 * time.Second, crashes: 5, window: 10 * time.Minute, stable: time.Minute,
		hostFault: time.Second,
	}
}

// crashes tracks the crashes of one plugin.
type crashes struct {
	restartPolicy restartPolicy
	wait          *backoff.ExponentialBackOff
	times         []time.Time
}

func newCrashes(p restartPolicy) *crashes {
	wait := backoff.NewExponentialBackOff()
	// Jitter is added in both directions: these bounds keep the total wait between first and
	// longest.
	wait.RandomizationFactor = 0.2
	wait.InitialInterval = time.Duration(float64(p.first) / 0.8)
	wait.MaxInterval = time.Duration(float64(p.longest) / 1.2)
	wait.Multiplier = 2
	return &crashes{restartPolicy: p, wait: wait}
}

// next returns how long to wait before the next start, after the plugin ran for ran. A plugin that
// the host killed did not crash: it also waits, but is never put into quarantine, which on a
// thrashing node would disable it when it is needed most.
func (c *crashes) next(now time.Time, ran time.Duration, crashed bool) (wait time.Duration, quarantine bool) {
	if ran >= c.restartPolicy.stable {
		c.wait.Reset()
	}
	if crashed {
		c.times = slices.DeleteFunc(c.times, func(t time.Time) bool { return now.Sub(t) >= c.restartPolicy.window })
		c.times = append(c.times, now)
	}
	if len(c.times) >= c.restartPolicy.crashes {
		c.forget()
		return c.restartPolicy.window, true
	}
	return c.wait.NextBackOff(), false
}

// forget resets the history of the plugin.
func (c *crashes) forget() {
	c.times = nil
	c.wait.Reset()
}
