package podusage

import (
	"log/slog"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// held is an answer that waits until all others are there. A pod of which not all is
// known ranks by what it may hold: what is in use and no pod explains. By what is known
// alone it would be spared for one that holds little.
type held struct {
	*pod
	eviction.Measurement
}

// hides reports whether something may be hidden of what ranks the pod for a signal. Limits
// and messages have what is known.
func (h held) hides(s *filesystem.Contents) bool {
	return !h.call.detailed && (h.hidden.Rootfs && s.Rootfs || h.hidden.Volumes && s.Volumes)
}

// give passes an answer on, or holds it.
func (c *call) give(p *pod, m eviction.Measurement, emit func(eviction.Measurement)) {
	c.mu.Lock()
	h, hides := held{p, m}, false
	for i := range m.Usage { // none, or one for each signal
		c.explained[i] = summary.Add(c.explained[i], m.Usage[i].Value)
		hides = hides || h.hides(&c.signals[i])
	}
	if hides {
		c.held = append(c.held, h)
	}
	c.mu.Unlock()
	if !hides {
		emit(m)
	}
}

// giveHeld passes on what was held, when all of so many have answered. It logs once that
// there was something, and again when there was nothing of many.
func (c *call) giveHeld(of int, emit func(eviction.Measurement)) {
	for i, h := range c.held {
		if i == 0 && !c.meter.warned.Swap(true) {
			slog.Warn("not all of what pods have on disks could be looked at: they rank by what they may hold", "pods", len(c.held), "of", of,
				"first", h.UID, "volumes", h.hidden.Volumes, "writableLayers", h.hidden.Rootfs, "refused", c.known.layersErr)
		}
		for i := range h.Usage {
			if s := &c.signals[i]; h.hides(s) {
				h.Usage[i].Value = summary.Add(h.Usage[i].Value, max(s.Used-c.explained[i], 0))
			}
		}
		emit(h.Measurement)
	}
	if len(c.held) == 0 && of > fewPods {
		c.meter.warned.Store(false)
	}
}
