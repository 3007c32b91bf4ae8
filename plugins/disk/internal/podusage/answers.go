package podusage

import (
	"log/slog"
	"slices"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// held is an answer that waits until all others are there. A pod of which not all is
// known ranks by what it may hold: what is in use and no pod explains, as far as that was not
// so when all of each pod was known. By what is known alone it would be spared for one that
// holds little.
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
	if m.State != eviction.MeasurementUnknown && p.hidden == (summary.Parts{}) {
		c.complete++
	}
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
func (c *call) giveHeld(pods []eviction.Pod, emit func(eviction.Measurement)) {
	of, all, grown := len(pods), c.explainsAll(pods), make([]int64, len(c.signals))
	for i, s := range c.signals {
		if left := s.Used - c.explained[i]; all {
			c.meter.unexplained.remember(s, left)
		} else if len(c.held) > 0 {
			grown[i] = c.meter.unexplained.grown(s, left)
		}
	}
	for i, h := range c.held {
		if i == 0 && !c.meter.warned.Swap(true) {
			slog.Warn("not all of what pods have on disks could be looked at: they rank by what they may hold", "pods", len(c.held), "of", of,
				"first", h.UID, "volumes", h.hidden.Volumes, "writableLayers", h.hidden.Rootfs, "refused", c.known.layersErr)
		}
		for i := range h.Usage {
			if s := &c.signals[i]; h.hides(s) {
				h.Usage[i].Value = summary.Add(h.Usage[i].Value, grown[i])
			}
		}
		emit(h.Measurement)
	}
	if len(c.held) == 0 && of > fewPods {
		c.meter.warned.Store(false)
	}
}

// explainsAll reports whether all of each pod that runs on the node was asked for and is
// known. Of few pods the runtime is not asked whether there are others.
func (c *call) explainsAll(pods []eviction.Pod) bool {
	if c.complete < len(pods) || len(pods) <= fewPods || c.known.err != nil || c.known.layersErr != nil {
		return false
	}
	for uid := range c.known.running {
		if !slices.ContainsFunc(pods, func(row eviction.Pod) bool { return row.UID == uid }) {
			return false
		}
	}
	return true
}
