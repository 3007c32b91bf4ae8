package loop

import (
	"context"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
)

// manifestsEvery is the least time between two reads: each file is looked at, which costs more
// than a quiet pass.
const manifestsEvery = 10 * time.Second

// manifests has them read between listings of pods, in the background: there may be
// many, on a slow disk. So broken ones are reported before a pod has to go, and a pod is known
// by then even if its manifest cannot be read any more.
type manifests struct {
	// read reads what changed since the last time and says what is wrong; nil if nobody
	// can. What it says comes.
	read    func() []pods.Problem
	came    chan []pods.Problem
	reading bool
	next    time.Time
	// overtaken: pods were listed since the reading began, and the listing knows more.
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

// ended reports whether the result of the read counts: not if a listing has overtaken it.
func (m *manifests) ended() bool {
	m.reading = false
	return !m.overtaken
}
