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
	// Pods' usage is sampled each usageEvery, and when a signal has fallen by a part of its capacity
	// since, so that it is known what grew. Samples are kept as long as the series of signals.
	usageEvery = 2 * time.Minute
	usageFall  = 32
	usageKept  = 24
	// curves bounds the pods whose use is shown over time.
	curves = 3
	// usageTimeout bounds how long a record waits for the usage of protected pods.
	usageTimeout = time.Second
	// grownShown bounds the pods in a record whose usage has grown.
	grownShown = 5
)

// A Usage holds, by signal, what is available and what pods use.
type Usage map[eviction.Signal]Shares

// Shares holds the values of one signal. Used is by uid, First names the pod that would be evicted
// first by the kubelet's order, empty if unknown.
type Shares struct {
	Available int64
	Used      map[string]int64
	First     string
}

// A usageSampler keeps the last samples of pods' usage. It is safe for concurrent use.
type usageSampler struct {
	// read may take long; nil if nothing is sampled.
	read func(context.Context) (Usage, error)
	// ask requests a sample, until ended is closed.
	ask   chan chan Usage
	hurry chan struct{}
	ended chan struct{}

	mu   sync.Mutex
	all  []Usage
	when []time.Time
	// most has the largest amounts available since the last sample, by signal.
	most map[eviction.Signal]int64
}

// add keeps a sample. If there are too many, it drops the one whose neighbours are closest in time.
func (u *usageSampler) add(at time.Time, of Usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for s := range of {
		u.most[s] = of[s].Available
	}
	old := 0
	for old < len(u.when) && at.Sub(u.when[old]) > samples*time.Second {
		old++
	}
	u.all, u.when = append(slices.Delete(u.all, 0, old), of), append(slices.Delete(u.when, 0, old), at)
	if len(u.all) > usageKept {
		closest := 1
		for i := 2; i+1 < len(u.when); i++ {
			if u.when[i+1].Sub(u.when[i-1]) < u.when[closest+1].Sub(u.when[closest-1]) {
				closest = i
			}
		}
		u.all, u.when = slices.Delete(u.all, closest, closest+1), slices.Delete(u.when, closest, closest+1)
	}
}

// seen asks for a sample if a signal has fallen much from where it was at most since the last one.
func (u *usageSampler) seen(o eviction.Observation) {
	if o.State != eviction.Observed {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	most, sampled := u.most[o.Signal]
	if u.most[o.Signal] = max(most, o.Available); sampled && most-o.Available >= max(1, o.Capacity/usageFall) {
		u.most[o.Signal] = o.Available
		select {
		case u.hurry <- struct{}{}:
		default:
		}
	}
}

// decided keeps the figures of a decision about a disk, which is not sampled: pods are walked for
// decisions alone.
func (u *usageSampler) decided(d *decision.Decision) {
	t := d.Acted()
	if t == nil || len(d.Candidates) == 0 {
		return
	}
	b, _ := eviction.Builtin(t.Signal)
	if o := d.Observation(t.Signal); b.Condition == eviction.DiskPressure && o != nil && o.State == decision.StateObserved {
		used := map[string]int64{}
		for i := range d.Candidates {
			if c := &d.Candidates[i]; c.State == "" && c.AtMost == 0 {
				used[c.UID] = c.Usage
			}
		}
		u.add(d.Time, Usage{t.Signal: {Available: o.Available, Used: used}})
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
			case <-u.hurry:
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

// enter adds samples of the use of a decision's candidates to it: of the first one, and of those that
// grew most. It takes those before the observations, so that a repetition adds the same.
func (u *usageSampler) enter(d *decision.Decision, at time.Time) {
	d.Usage, d.Curves = nil, nil
	if len(d.Order) == 0 {
		return
	}
	signal := d.Acted().Signal
	before, _ := u.fullest(signal)
	shown := shownOf(d, func(c *decision.Candidate) int64 { return c.Usage - before.Used[c.UID] })
	for _, i := range shown {
		d.Curves = append(d.Curves, d.Candidates[i].Pod)
	}
	observed := at.Add(time.Duration(d.Timeline.ObservedMS * float64(time.Millisecond)))
	u.mu.Lock()
	defer u.mu.Unlock()
	for n, when := range u.when {
		of, ok := u.all[n][signal]
		if !ok || when.After(observed) {
			continue
		}
		sample := decision.UsageSample{MS: decision.MS(when, at), First: of.First}
		for _, i := range shown {
			used, known := of.Used[d.Candidates[i].UID]
			if !known {
				used = -1
			}
			sample.Used = append(sample.Used, used)
		}
		d.Usage = append(d.Usage, sample)
	}
}

// shownOf returns the places of the first candidate in a decision's order and of those that grew most.
func shownOf(d *decision.Decision, grown func(*decision.Candidate) int64) []int {
	others := slices.DeleteFunc(slices.Clone(d.Order[1:]), func(i int) bool { return grown(&d.Candidates[i]) <= 0 })
	slices.SortStableFunc(others, func(i, j int) int { return cmp.Compare(grown(&d.Candidates[j]), grown(&d.Candidates[i])) })
	return append(slices.Clone(d.Order[:1]), others[:min(len(others), curves-1)]...)
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
		if _, sampled := was[pod.UID]; pod.State != "" || pod.AtMost > 0 || !sampled && pod.Started <= since.Unix() {
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

// latest returns what pods used of a signal at the last sample.
func (u *usageSampler) latest(s eviction.Signal) map[string]int64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, of := range slices.Backward(u.all) {
		if shares, ok := of[s]; ok {
			return shares.Used
		}
	}
	return nil
}
