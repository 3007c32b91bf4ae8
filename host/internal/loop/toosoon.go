package loop

import (
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// firstStarts is how long after its own start the host waits for those that measure
// pods before it chooses one by priority alone.
const firstStarts = 30 * time.Second

// tooSoon reports whether to look again rather than to go by r: no pod was measured,
// and the plugin that should do so has not had its first start.
func (c *chooser) tooSoon(r ranking) bool {
	if len(r.order) == 0 || time.Since(c.began) >= firstStarts {
		return false
	}
	for _, m := range r.measured {
		if m.State != eviction.MeasurementUnknown {
			return false
		}
	}
	return c.roster.FirstStart(c.threshold.Signal)
}
