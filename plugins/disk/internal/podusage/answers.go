package podusage

import (
	"sync"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// An answered pod has a measurement in which parts may be hidden.
type answered struct {
	eviction.Measurement

	hidden summary.Parts
}

// hides reports whether something may be hidden of what counts for a signal.
func (a *answered) hides(s *filesystem.Contents) bool {
	return a.hidden.Rootfs && s.Rootfs || a.hidden.Volumes && s.Volumes
}

// answers are those of one call. A pod of which not all is known ranks by what it may
// hold: what is in use and no pod explains. By what is known of it alone it would be
// spared for one that holds little. So its answer is held back until all others are there.
type answers struct {
	signals []filesystem.Contents

	mu        sync.Mutex
	explained []int64 // by signal
	held      []answered
}

// take passes an answer on, or holds it.
func (as *answers) take(a answered, emit func(eviction.Measurement)) {
	as.mu.Lock()
	hides := false
	for i := range a.Usage { // none, or one for each signal
		as.explained[i] = summary.Add(as.explained[i], a.Usage[i].Value)
		hides = hides || a.hides(&as.signals[i])
	}
	if hides {
		as.held = append(as.held, a)
	}
	as.mu.Unlock()
	if !hides {
		emit(a.Measurement)
	}
}

// giveHeld passes on what was held, when all have answered.
func (as *answers) giveHeld(emit func(eviction.Measurement)) {
	for _, a := range as.held {
		for i := range a.Usage {
			if s := &as.signals[i]; a.hides(s) {
				a.Usage[i].Value = summary.Add(a.Usage[i].Value, max(s.Used-as.explained[i], 0))
			}
		}
		emit(a.Measurement)
	}
}
