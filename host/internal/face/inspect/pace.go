package inspect

import (
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// apiSpread bounds the random wait for the first inspection of the API server: many nodes may
	// start or reload at the same time. After an error the waits double, from apiSpread to maxAPIWait.
	apiSpread, maxAPIWait = time.Minute, 30 * time.Minute
	apiJitter             = 0.5
)

// A pace plans the inspections of the API server, which depend on their own findings alone.
type pace struct {
	next time.Time // zero if none is planned
	wait time.Duration
}

// begin plans the first inspection.
func (p *pace) begin() { *p = pace{next: time.Now().Add(rand.N(apiSpread))} }

// after plans the inspection after one with these findings, none after one without.
func (p *pace) after(found []Finding) {
	switch {
	case slices.ContainsFunc(found, Finding.isError):
		p.wait = min(max(2*p.wait, apiSpread), maxAPIWait)
		p.next = time.Now().Add(wait.Jitter(p.wait, apiJitter))
	case len(found) > 0:
		*p = pace{next: time.Now().Add(wait.Jitter(watchEvery, apiJitter))}
	default:
		*p = pace{}
	}
}

func (p *pace) due() bool { return !p.next.IsZero() && !time.Now().Before(p.next) }

// within shortens a wait to the next inspection. One that waits for the list of pods is not awaited.
func (p *pace) within(d time.Duration) time.Duration {
	if left := time.Until(p.next); left > 0 {
		return min(d, left)
	}
	return d
}
