package recorder

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// Pods' usage is sampled each usageEvery, and kept as long as the series of signals.
	usageEvery = 2 * time.Minute
	usageKept  = samples / int(usageEvery/time.Second)
	// usageTimeout bounds how long a record waits for the usage of protected pods.
	usageTimeout = time.Second
	// grownShown bounds the pods in a record whose usage has grown.
	grownShown = 5
)

// A Usage holds, by signal, what is available and what pods use.
type Usage map[eviction.Signal]Shares

// Shares holds the values of one signal. Used is by uid.
type Shares struct {
	Available int64
	Used      map[string]int64
}

// A usageSampler keeps the last samples of pods' usage. It is safe for concurrent use.
type usageSampler struct {
	// read may take long; nil if nothing is sampled.
	read func(context.Context) (Usage, error)
	// ask requests a sample, until ended is closed.
	ask   chan chan Usage
	ended chan struct{}

	mu   sync.Mutex
	all  []Usage
	when []time.Time
}

func (u *usageSampler) add(at time.Time, of Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all, u.when = append(u.all, of), append(u.when, at)
	if old := len(u.all) - usageKept; old > 0 {
		u.all, u.when = slices.Delete(u.all, 0, old), slices.Delete(u.when, 0, old)
	}
}

// run samples pods' usage until ctx ends, each usageEvery and on request.
func (u *usageSampler) run(ctx context.Context, log *slog.Logger) {
	defer close(u.ended)
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	for {
		of, err := u.read(ctx)
		if err == nil {
			u.add(time.Now(), of)
		}
		log.Debug("use of pods sampled", "error", err)
		for asked := true; asked; {
			select {
			case answer := <-u.ask:
				of, _ := u.read(ctx) // unknown on error
				answer <- of
			case <-tick.C:
				asked = false
			case <-ctx.Done():
				return
			}
		}
	}
}

// now returns what pods use of a signal, nil if that takes too long.
func (u *usageSampler) now(s eviction.Signal) map[string]int64 {
	if u.read == nil {
		return nil
	}
	answer, timeout := make(chan Usage, 1), time.After(usageTimeout)
	select {
	case u.ask <- answer:
	case <-u.ended:
		return nil
	case <-timeout:
		return nil
	}
	select {
	case of := <-answer:
		return of[s].Used
	case <-timeout:
		return nil
	}
}

// fullest returns the sample with most of a signal available; its usage is nil for none.
func (u *usageSampler) fullest(s eviction.Signal) (most Shares, at time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, sample := range u.all {
		if of, ok := sample[s]; ok && (most.Used == nil || of.Available > most.Available) {
			most, at = of, u.when[i]
		}
	}
	return most, at
}

// growth returns which pods took what is missing of a decision's signal, nil if unknown. Protected
// pods were not measured for the decision, so it measures them now.
func (u *usageSampler) growth(d *decision.Decision, s eviction.Signal) *decision.Growth {
	now := d.Observation(s)
	before, since := u.fullest(s)
	if len(d.Candidates) == 0 || before.Used == nil || now == nil || now.State != decision.StateObserved || now.Available >= before.Available {
		return nil
	}
	g := &decision.Growth{SinceMS: decision.MS(since, d.Time), Lost: before.Available - now.Available}
	was := maps.Clone(before.Used)
	grow := func(uid, pod string, used int64) {
		g.Pods += used
		if by := used - was[uid]; by > 0 {
			g.Most = append(g.Most, decision.Grown{UID: uid, Pod: pod, By: by})
		}
	}
	for i := range d.Candidates {
		pod := &d.Candidates[i]
		if _, sampled := was[pod.UID]; pod.State != "" || !sampled && pod.Started <= since.Unix() {
			return nil // its growth is unknown
		}
		grow(pod.UID, pod.Pod, pod.Usage)
	}
	var protected map[string]int64
	if g.Protected = true; len(d.Protected) > 0 {
		protected = u.now(s)
	}
	for _, p := range d.Protected {
		used, measured := protected[p.UID]
		if _, sampled := was[p.UID]; sampled && measured {
			grow(p.UID, p.Pod, used)
		} else {
			delete(was, p.UID)
			g.Protected = false
		}
	}
	for _, used := range was {
		g.Pods -= used
	}
	slices.SortStableFunc(g.Most, func(a, b decision.Grown) int { return cmp.Compare(b.By, a.By) })
	g.Most = g.Most[:min(len(g.Most), grownShown)]
	return g
}
