package choose

import (
	"sync"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
)

// lastUsage are the last figures of pods by signal and uid. It is safe for
// concurrent use.
type lastUsage struct {
	mu       sync.Mutex
	bySignal map[eviction.Signal]map[string]eviction.Measurement
}

// remember keeps the figures for passes in which measuring fails, and gives pods
// without figures their last ones. Those of pods that are gone are forgotten.
func (u *lastUsage) remember(s eviction.Signal, got map[string]eviction.Measurement, candidates []pods.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last := u.bySignal[s]
	for _, c := range candidates {
		if _, ok := got[c.Row.UID]; ok {
			continue
		}
		if m, ok := last[c.Row.UID]; ok {
			got[c.Row.UID] = m
		} else {
			got[c.Row.UID] = eviction.Measurement{UID: c.Row.UID, Err: "not measured"}
		}
	}
	u.bySignal[s] = got
}

func (u *lastUsage) forget(s eviction.Signal) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.bySignal, s)
}
