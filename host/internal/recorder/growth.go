package recorder

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// censusEvery is how often pods are counted, censusesKept how many of these counts are kept:
	// as far back as signals are.
	censusEvery  = 2 * time.Minute
	censusesKept = samples / int(censusEvery/time.Second)
	// grownShown is how many pods a record names that use more than they did.
	grownShown = 5
)

// A Census is what is available of signals, and what pods use of them.
type Census map[eviction.Signal]Shares

// Shares are of one signal. Used is by uid.
type Shares struct {
	Available int64
	Used      map[string]int64
}

// censuses are the last of them, each with its time. They may be used concurrently.
type censuses struct {
	mu   sync.Mutex
	all  []Census
	when []time.Time
}

func (c *censuses) add(at time.Time, of Census) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.when = append(c.all, of), append(c.when, at)
	if old := len(c.all) - censusesKept; old > 0 {
		c.all, c.when = slices.Delete(c.all, 0, old), slices.Delete(c.when, 0, old)
	}
}

// count has the pods counted again and again.
func (c *censuses) count(ctx context.Context, census func(context.Context) (Census, error), log *slog.Logger) {
	tick := time.NewTicker(censusEvery)
	defer tick.Stop()
	for {
		of, err := census(ctx)
		if err == nil {
			c.add(time.Now(), of)
		}
		log.Debug("use of pods sampled", "error", err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// fullest is the census at which most of a signal was available; its use is nil if there is none.
func (c *censuses) fullest(s eviction.Signal) (most Shares, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, census := range c.all {
		if of, ok := census[s]; ok && (most.Used == nil || of.Available > most.Available) {
			most, at = of, c.when[i]
		}
	}
	return most, at
}

// growth is who took what is missing of the signal of a decision, nil if that is not known.
func (c *censuses) growth(d *decision.Decision) *decision.Growth {
	if len(d.Candidates) == 0 {
		return nil
	}
	now := d.Observation(d.Acted().Signal)
	before, since := c.fullest(d.Acted().Signal)
	if before.Used == nil || now == nil || now.State != decision.StateObserved || now.Available >= before.Available {
		return nil
	}
	g := &decision.Growth{SinceMS: decision.MS(since, d.Time), Lost: before.Available - now.Available}
	spared := map[string]bool{}
	for _, p := range d.Protected {
		spared[p.UID] = true
	}
	for uid, used := range before.Used {
		if !spared[uid] {
			g.Pods -= used
		}
	}
	for i := range d.Candidates {
		pod := &d.Candidates[i]
		was, counted := before.Used[pod.UID]
		if pod.State != "" || !counted && pod.Started <= since.Unix() {
			return nil // what it has taken is not known
		}
		g.Pods += pod.Usage
		if by := pod.Usage - was; by > 0 {
			g.Most = append(g.Most, decision.Grown{UID: pod.UID, Pod: pod.Pod, By: by})
		}
	}
	slices.SortStableFunc(g.Most, func(a, b decision.Grown) int { return cmp.Compare(b.By, a.By) })
	g.Most = g.Most[:min(len(g.Most), grownShown)]
	return g
}
