package loop

import (
	"context"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/pods"
)

// manifestsEvery is the minimum time between two reads. Each read examines every file, which costs
// more than a quiet pass.
const manifestsEvery = 10 * time.Second

// manifests schedules background reads of the pod manifests between listings of pods; there may be
// many, on a slow disk. Broken ones are thus reported before a pod must be evicted, and a pod
// remains known if its manifest becomes unreadable.
type manifests struct {
	// read reads what changed since the last call and returns the problems; nil if the mode has no
	// manifests. came delivers its results.
	read    func() []pods.Problem
	came    chan []pods.Problem
	reading bool
	next    time.Time
	// overtaken: pods were listed since the read began, so its result is outdated.
	overtaken bool
}

func (m *manifests) begin(ctx context.Context, interval time.Duration, running *sync.WaitGroup) {
	now := time.Now()
	if m.read == nil || m.reading || now.Before(m.next) {
		return
	}
	m.reading, m.overtaken, m.next = true, false, now.Add(max(interval, manifestsEvery))
	running.Go(func() {
		problems := m.read()
		select {
		case m.came <- problems:
		case <-ctx.Done():
		}
	})
}
