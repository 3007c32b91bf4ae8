package podusage

import (
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
)

const (
	// fewPods are too few to say that no pod of the node hides something.
	fewPods = 4
	// oneMoment is the maximum age of pods' figures that are added up: the host may ask for the
	// pods in several calls.
	oneMoment = 30 * time.Second
	// hopesFor is the time for which a runtime that refuses figures may soon send them.
	hopesFor = 10 * time.Second
)

// held is an answer that waits for all others. A pod with unknown parts has what was found as a
// lower bound. At most it also has what came into use since every pod was fully known and that no
// pod explains.
type held struct {
	*pod
	eviction.Measurement
}

// hides reports whether unknown parts of the pod count for its rank by a signal and may soon be known:
// a walk goes on, or the runtime began to refuse figures a moment ago. It is false for limits and
// messages, which use the known parts.
func (h held) hides(s *filesystem.Contents) bool {
	return !h.call.detailed && (h.unfinished || h.call.hopes) && (h.hidden.Rootfs && s.Rootfs || h.hidden.Volumes && s.Volumes)
}

// give emits an answer, or holds it if it hides something.
func (c *call) give(p *pod, m eviction.Measurement, emit func(eviction.Measurement)) {
	c.mu.Lock()
	h, hides := held{p, m}, false
	known := m.State != eviction.MeasurementUnknown
	for i := range c.signals {
		hides = hides || known && h.hides(&c.signals[i])
		if known {
			c.meter.books.enter(c.signals[i], m.UID, entry{m.UsageFor(c.signals[i].Signal), p.hidden == figures.Parts{}, c.began})
		}
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
	unexplained := make([]int64, len(c.signals))
	for i, s := range c.signals {
		unexplained[i] = c.meter.books.balance(s, c.present(pods), c.known.old != nil || c.known.err != nil, c.began)
	}
	for i, h := range c.held {
		if i == 0 && !c.meter.warned.Swap(true) {
			slog.Warn("not all of what pods have on disks could be looked at: what was found counts", "pods", len(c.held), "of", len(pods),
				"first", h.UID, "volumes", h.hidden.Volumes, "writableLayers", h.hidden.Rootfs, "refused", c.known.layersErr)
		}
		for i := range h.Usage {
			if s := &c.signals[i]; h.hides(s) && unexplained[i] > 0 {
				h.Usage[i].AtMost = figures.Add(h.Usage[i].Value, unexplained[i])
			}
		}
		emit(h.Measurement)
	}
	if len(c.held) == 0 && len(pods) > fewPods {
		c.meter.warned.Store(false)
	}
}

// present returns the pods that are asked for or have a container, true if one runs or the pod is
// asked for.
func (c *call) present(pods []eviction.Pod) map[string]bool {
	all := make(map[string]bool, len(pods))
	for uid := range c.known.has {
		all[uid] = len(c.known.running[uid]) > 0
	}
	for i := range pods {
		all[pods[i].UID] = true
	}
	return all
}

// books hold, by signal, the last figure of each pod, and what is in use beside them: the operating
// system, images and other data that is not pods'.
type books struct {
	mu sync.Mutex
	of map[filesystem.Contents]*book // Used is 0 in the keys
	// refusedSince is when the runtime began to refuse figures, zero if it does not.
	refusedSince time.Time
}

// refused records whether the runtime refuses figures, and reports whether it began a moment ago.
func (b *books) refused(yes bool, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !yes:
		b.refusedSince = time.Time{}
	case b.refusedSince.IsZero():
		b.refusedSince = now
	}
	return yes && now.Sub(b.refusedSince) < hopesFor
}

// A book is that of one signal.
type book struct {
	pods map[string]entry // by UID
	// rest was in use beside the pods when each was fully known. used was in use
	// before a part of the rest was removed, 0 if nothing was.
	rest, used int64
}

// An entry is the last figure of a pod. complete: no part of it was hidden.
type entry struct {
	value    int64
	complete bool
	at       time.Time
}

func (b *books) book(s filesystem.Contents) *book {
	s.Used = 0
	if b.of[s] == nil {
		b.of[s] = &book{pods: map[string]entry{}}
	}
	return b.of[s]
}

// enter stores a pod's figure.
func (b *books) enter(s filesystem.Contents, uid string, e entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.book(s).pods[uid] = e
}

// balance forgets the pods that are gone and returns how much is in use that neither the pods nor the
// rest explain, 0 if the use is not known. If all present pods are fully known that is the rest. If the
// list of pods is old, a pod that is not present may exist.
func (b *books) balance(s filesystem.Contents, present map[string]bool, old bool, now time.Time) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	of, complete := b.book(s), !old
	maps.DeleteFunc(of.pods, func(uid string, e entry) bool {
		_, is := present[uid]
		return !is && (!old || now.Sub(e.at) > forgetAfter)
	})
	left := s.Used
	for _, e := range of.pods {
		left -= e.value
	}
	for uid, counts := range present {
		e := of.pods[uid]
		complete = complete && (!counts || e.complete && now.Sub(e.at) < oneMoment)
	}
	left = max(left, 0)
	switch {
	case s.Used == 0:
		return 0
	case complete:
		*of = book{pods: of.pods, rest: left}
		return 0
	}
	rest := max(of.rest-max(of.used-s.Used, 0), 0)
	of.rest, of.used = min(rest, left), 0
	return left - of.rest
}

// removing makes balance subtract what is removed from now on, when the usage shows it.
func (b *books) removing(contents func(eviction.Signal) (filesystem.Contents, bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s, of := range b.of {
		now, _ := contents(s.Signal)
		of.used = max(of.used, now.Used)
	}
}
