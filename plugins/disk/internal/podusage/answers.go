package podusage

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// fewPods are too few to say that no pod of the node hides something.
const fewPods = 4

// held is an answer that waits for all others. A pod with unknown parts ranks by the most that
// it may hold: the space in use that no pod explains, minus what was unexplained when every pod
// was fully known. Ranked by its known parts alone, it would be spared and a pod that holds
// little evicted.
type held struct {
	*pod
	eviction.Measurement
}

// hides reports whether unknown parts of the pod count for its rank by a signal. It is false for
// limits and messages, which use the known parts.
func (h held) hides(s *filesystem.Contents) bool {
	return !h.call.detailed && (h.hidden.Rootfs && s.Rootfs || h.hidden.Volumes && s.Volumes)
}

// give emits an answer, or holds it if it hides something.
func (c *call) give(p *pod, m eviction.Measurement, emit func(eviction.Measurement)) {
	c.mu.Lock()
	h, hides := held{p, m}, false
	if m.State != eviction.MeasurementUnknown && p.hidden == (summary.Parts{}) {
		c.complete++
	}
	for i := range m.Usage { // empty, or one per signal
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

// giveHeld emits the held answers, after all pods have answered. It logs once that there were
// some, and again only after a call for many pods had none.
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

// explainsAll reports whether every pod that runs on the node was requested and is fully known.
func (c *call) explainsAll(pods []eviction.Pod) bool {
	if c.complete < len(pods) || c.known.old != nil || c.known.layersErr != nil {
		return false
	}
	for uid := range c.known.running {
		if !slices.ContainsFunc(pods, func(row eviction.Pod) bool { return row.UID == uid }) {
			return false
		}
	}
	return true
}

// unexplained remembers, by signal, the amount in use that no pod explains: the operating
// system, images and other data that is not pods'. It was taken when every pod was fully known,
// so that it contains nothing of a pod.
type unexplained struct {
	mu sync.Mutex
	of map[filesystem.Contents]remembered // Used is 0 in the keys
}

// remembered is an unexplained amount. used is what was in use before a part of it was removed,
// 0 if nothing was.
type remembered struct{ amount, used int64 }

// remember stores an unexplained amount that contains nothing of a pod.
func (u *unexplained) remember(s filesystem.Contents, amount int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if s.Used > 0 {
		s.Used = 0
		u.of[s] = remembered{amount: max(amount, 0)}
	}
}

// grown returns by how much amount exceeds the remembered one: that part may be a pod's. If it is
// less, something else was freed since, and the remembered amount is lowered.
func (u *unexplained) grown(s filesystem.Contents, amount int64) int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	used := s.Used
	s.Used, amount = 0, max(amount, 0)
	before := u.of[s]
	left := max(before.amount-max(before.used-used, 0), 0)
	u.of[s] = remembered{amount: min(left, amount)}
	return max(amount-left, 0)
}

// removing makes grown subtract what is removed from now on, when the usage shows it.
func (u *unexplained) removing(contents func(eviction.Signal) (filesystem.Contents, bool)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s, r := range u.of {
		now, _ := contents(s.Signal)
		r.used = max(r.used, now.Used)
		u.of[s] = r
	}
}
