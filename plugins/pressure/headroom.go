// Package pressure is the plugin for evictd.io/memory.headroom, the signal of a node that throws out programs and data in
// use. It decides whether the node thrashes, and which pods have grown meanwhile. The figures of memory.available and their
// thresholds belong to package memory.
package pressure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/plugins/internal/memcg"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/pace"
)

// Headroom is the signal of the plugin, in bytes: the memory that is available while the node thrashes, otherwise its
// capacity.
const Headroom eviction.Signal = "evictd.io/memory.headroom"

// New returns the pressure plugin, which notices a node that throws out programs and data in use while
// memory.available is still above its threshold: the page cache in use counts as available.
func New() sdk.Plugin {
	p := &plugin{}
	return sdk.Plugin{
		Name:        "pressure",
		Version:     "1",
		Description: "makes the memory that is left on a node that thrashes a signal",
		Signals: []eviction.SignalSpec{{Signal: Headroom, Definition: &eviction.Definition{
			Unit: eviction.UnitBytes, Format: eviction.FormatBinarySI, Resource: "evictd.io/memory-headroom",
			Condition: "evictd.io/MemoryStall", Candidates: eviction.RankedPods, Relieves: eviction.MemoryAvailable,
		}}},
		Configurer: sdk.ConfigureChecked((*config).complete, p.configure),
		Observer:   p,
		Measurer:   p,
		Watcher:    p,
		Ranker:     p,
	}
}

// config is the plugin's own configuration.
type config struct {
	// Window is the time in which the node must have thrashed, "2s" by default.
	Window string `json:"window"`
	// HardMiB is the node's hard threshold of memory.available in MiB, by default the kubelet's 100: below it refaults
	// alone are enough.
	HardMiB *int64 `json:"hardMiB"`

	window time.Duration
}

const (
	defaultWindow, minWindow, maxWindow = 2 * time.Second, time.Second, 10 * time.Second
	defaultHardMiB, mostHardMiB         = 100, 1 << 20
)

func (c *config) complete(eviction.NodeFacts) error {
	var errs []error
	if c.window = defaultWindow; c.Window != "" {
		window, err := time.ParseDuration(c.Window)
		if err != nil || window < minWindow || window > maxWindow {
			errs = append(errs, fmt.Errorf("config: window: %.40q, want %v to %v", c.Window, minWindow, maxWindow))
		}
		c.window = window
	}
	if c.HardMiB == nil {
		hard := int64(defaultHardMiB)
		c.HardMiB = &hard
	}
	if *c.HardMiB < 0 || *c.HardMiB > mostHardMiB {
		errs = append(errs, fmt.Errorf("config: hardMiB: %d, want 0 to %d", *c.HardMiB, mostHardMiB))
	}
	return errors.Join(errs...)
}

// plugin is shared by the capabilities. Each call uses the node as configured when the call begins until it ends.
type plugin struct{ current sdk.Current[*thrasher] }

// A thrasher is a node that may thrash, in one configuration.
type thrasher struct {
	*memcg.Node

	reclaim *nodefs.Gauge[nodefs.Reclaim]
	rule    rule
	// sinceBoot returns the time since the boot, also of a machine that was suspended.
	sinceBoot func() time.Duration

	// observing is held during a look: a later one must not have smaller counters. It guards the fields up to mu.
	observing sync.Mutex
	looks     looks
	// broken says why the looks began again, "" for those since the start: a node is taken to be well at first.
	broken string
	last   verdict
	// protected is the page cache that memory.min protects, as of protectedAt.
	protected   int64
	protectedAt time.Duration

	mu    sync.Mutex // for what a ranking needs: it does not wait for a look
	sizes []sizes
	// found is of the last look that found that the node thrashes, with the reclaimable memory that was left then.
	found verdict
	left  int64
}

// sizes are the working sets of pods by UID at a time since the boot, and the reclaimable memory that was left.
type sizes struct {
	at   time.Duration
	left int64
	of   map[string]int64
}

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	facts.MemoryFigure = "" // a figure of its own: the lower one
	n, err := memcg.Open(facts)
	if err != nil {
		return err
	}
	next := &thrasher{
		Node: n, reclaim: nodefs.ReclaimCounters(n.Hierarchy.FS), rule: rule{window: c.window, brink: *c.HardMiB << 20},
		sinceBoot: func() time.Duration { return time.Duration(nodefs.BootNanos()) },
	}
	p.current.Set(next, func() {
		next.Node.Close()
		next.reclaim.Close()
	})
	return nil
}

// Observe implements eviction.Observer.
func (p *plugin) Observe(_ context.Context, req eviction.ObserveRequest) (reply eviction.ObserveReply, err error) {
	h, err := p.current.Hold()
	if err != nil {
		return reply, err
	}
	defer h.Release()
	if slices.Contains(req.Signals, Headroom) {
		b, release := nodefs.BorrowBuffer()
		defer release()
		o, _ := h.Value.observe(b)
		reply.Observations = append(reply.Observations, o)
		h.Value.Pods.Probe(nodefs.ProbesPerPass, b)
	}
	return reply, nil
}

// observe looks at the node and judges it. stirred reports whether the counters have grown in the window.
func (t *thrasher) observe(b *nodefs.Buffer) (o eviction.Observation, stirred bool) {
	t.observing.Lock()
	defer t.observing.Unlock()
	o = figures.At(Headroom)
	m, err := t.Total.Read(b)
	var counters nodefs.Reclaim
	if err == nil {
		counters, err = t.reclaim.Read(b)
	}
	switch {
	case errors.Is(err, nodefs.ErrNoCounters):
		o.State, o.Err = eviction.Absent, err.Error()
		return o, false
	case err != nil:
		o.Err = err.Error()
		return o, false
	case !m.Limited:
		o.State = eviction.Absent
		return o, false
	}
	next := look{at: t.sinceBoot(), refaults: counters.Refaults, scans: counters.DirectScans, reclaimable: m.AvailableBytes, stalled: t.stalled(b)}
	if m.HasMemAvailable {
		next.reclaimable = m.MemAvailableBytes
	}
	next.protected = t.protectedCache(next)
	if broken := t.looks.add(next, t.rule.window); broken != "" {
		t.broken = broken
	}
	v, whole := t.rule.judge(t.looks)
	t.last, stirred = v, next.refaults > t.looks[0].refaults || next.scans > t.looks[0].scans
	t.note(v, next, func() map[string]int64 { return t.workingSets(b) })
	if !whole && t.broken != "" {
		o.Err = fmt.Sprintf("%s less than %v ago", t.broken, t.rule.window) // one text, which is logged once
		return o, stirred
	}
	o.State, o.Available, o.Capacity = eviction.Observed, m.CapacityBytes, m.CapacityBytes
	if v.thrashes() {
		o.Available = min(max(0, m.AvailableBytes-next.protected), m.CapacityBytes)
	}
	if whole {
		o.Components = components(v, &m, next.protected)
	}
	return o, stirred
}

func components(v verdict, m *nodefs.MemorySample, protected int64) []eviction.Component {
	all := []eviction.Component{
		{Name: "thrashes, memory falls", Value: number(v.falls)},
		{Name: "thrashes, memory is at the brink", Value: number(v.brink)},
		{Name: "window ms", Value: v.over.Milliseconds()},
		{Name: "refaults", Value: v.refaults},
		{Name: "direct scans", Value: v.scans},
		{Name: "fell", Value: v.fell},
		{Name: "fell in up to four windows", Value: v.fellMost},
		{Name: "available", Value: m.AvailableBytes},
		{Name: "protected", Value: protected},
	}
	for i, name := range []string{"psi full permille", "psi full permille of pods", "psi full permille of system.slice"} {
		if v.stalled[i] != unknownStall {
			all = append(all, eviction.Component{Name: name, Value: int64(1000 * v.stalled[i] / v.over)})
		}
	}
	return all
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// stalled reads the pressure stall information of the node, all pods and the system's services.
func (t *thrasher) stalled(b *nodefs.Buffer) (all [3]time.Duration) {
	names, err := t.Naming.Names()
	for i, cgroup := range [...]string{"/", names.Kubepods(), "/system.slice"} {
		all[i] = unknownStall
		if i == 1 && err != nil {
			continue
		}
		if stalled, ok := nodefs.ReadFullStall(t.Hierarchy, cgroup, b); ok {
			all[i] = stalled
		}
	}
	return all
}

// protectedCache returns the page cache that memory.min of cgroups protects, in bytes. It is read at first, and once in a
// window while the node may begin to thrash.
func (t *thrasher) protectedCache(now look) int64 {
	if t.Hierarchy.Version == nodefs.V2 && (t.protectedAt == 0 || now.at-t.protectedAt >= t.rule.window && t.last.stirs) {
		t.protected, t.protectedAt = nodefs.ProtectedCache(t.Hierarchy, "/", math.MaxInt64>>2), now.at
	}
	return t.protected
}

// sizeEvery is the least time between two readings of all pods.
const sizeEvery = 400 * time.Millisecond

// workingSets reads those of pods by UID. It returns nil if it cannot list the pods: each would look new.
func (t *thrasher) workingSets(b *nodefs.Buffer) map[string]int64 {
	pods, err := t.Naming.PodCgroups()
	if err != nil {
		return nil
	}
	of := make(map[string]int64, len(pods))
	for uid := range pods {
		if use, err := t.Pods.Read(uid, "", b); err == nil {
			of[uid] = use.WorkingSetBytes()
		}
	}
	return of
}

// note keeps for rankings what a look found, with the working sets of pods, and drops readings of before the longest window.
func (t *thrasher) note(v verdict, now look, workingSets func() map[string]int64) {
	var of map[string]int64
	if n := len(t.sizes); (v.stirs || v.thrashes()) && (n == 0 || now.at-t.sizes[n-1].at >= sizeEvery) { // only a look changes them
		of = workingSets()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if of != nil {
		t.sizes = append(slices.DeleteFunc(t.sizes, func(s sizes) bool { return now.at-s.at > windows[len(windows)-1]*t.rule.window }), sizes{now.at, now.reclaimable, of})
	}
	if v.thrashes() {
		t.found, t.left = v, now.reclaimable
	}
}

// grew returns by how many bytes a pod has grown beyond an amount, with its size of now, since its first reading that is
// kept. A pod that no reading has is new.
func (t *thrasher) grew(uid string, is, beyond int64) int64 {
	for _, s := range t.sizes {
		if was, known := s.of[uid]; known {
			return is - max(was, beyond)
		}
	}
	if len(t.sizes) == 0 {
		return 0
	}
	return is - beyond
}

// Pods must have grown beyond their requests by 1/explainedPart of the fall since the first reading, of that in the window, and
// of the least fall that counts. Otherwise pods within their requests took the memory, or the node's own processes.
const explainedPart = 2

// explained reports whether pods that use more than they request are why memory falls. At the brink it does not matter why.
func (t *thrasher) explained(over []eviction.Candidate) bool {
	if !t.found.falls || t.found.brink {
		return true
	}
	var grown, fell int64
	for i := range over {
		grown += max(0, t.grew(over[i].Pod.UID, over[i].Measurement.WorkingSetBytes.Value, over[i].Pod.MemoryRequestBytes))
	}
	if len(t.sizes) > 0 {
		fell = t.sizes[0].left - t.left
	}
	return grown >= max(fell, t.found.fell, t.left/fallPart)/explainedPart
}

// Measure implements eviction.Measurer.
func (p *plugin) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	h, err := p.current.Hold()
	if err != nil {
		return err
	}
	defer h.Release()
	return h.Value.Measure(ctx, req, emit, Headroom)
}

// grewPart is the part of the node's memory by which a pod has grown at least that is first for it.
const grewPart = 1024

// Rank implements eviction.Ranker. Only pods that use more than they request can go: first those that grew meanwhile, then as
// the kubelet has it. If their growth does not explain the fall, it names no pod.
func (p *plugin) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	h, err := p.current.Hold()
	if err != nil {
		return nil, err
	}
	defer h.Release()
	return h.Value.rank(req), nil
}

func (t *thrasher) rank(req eviction.RankRequest) []eviction.Ranked {
	t.mu.Lock()
	defer t.mu.Unlock()
	over := slices.DeleteFunc(slices.Clone(req.Candidates), func(c eviction.Candidate) bool {
		return c.Measurement.State != eviction.Measured || rank.Used(&c, eviction.MemoryAvailable) <= c.Pod.MemoryRequestBytes
	})
	if !t.explained(over) {
		return nil
	}
	least := req.Capacity / grewPart
	if t.found.falls { // a hog where little is left grows by less
		least = min(least, t.left/fallPart/explainedPart)
	}
	grew := func(c *eviction.Candidate) int64 {
		if by := t.grew(c.Pod.UID, c.Measurement.WorkingSetBytes.Value, 0); by >= max(1, least) {
			return by
		}
		return 0
	}
	first := func(a, b *eviction.Candidate) int { return cmp.Compare(number(grew(b) > 0), number(grew(a) > 0)) }
	return rank.SortWithReason(over, rank.Chain(first, rank.Memory()), func(c *eviction.Candidate) string {
		as := *c
		as.Measurement.Usage = nil // as for memory.available: by the working set
		why := rank.Reason(&as)
		if by := grew(c); by > 0 {
			why = fmt.Sprintf("grew by %d MiB, %s", by>>20, why)
		}
		return why
	})
}

const (
	// quietEvery is the time between two looks, stirredEvery while counters grow.
	quietEvery, stirredEvery = time.Second, 200 * time.Millisecond
	// noRate has the time between looks not depend on the distance to the threshold: the signal does not fall, it jumps.
	noRate = 1
)

// Watch implements eviction.Watcher. It also looks when the kernel gives a sign of a shortage.
func (p *plugin) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	return p.current.Watch(ctx, func(ctx context.Context, t *thrasher) {
		var thresholds []eviction.Threshold
		for _, w := range req.Thresholds {
			if w.Signal == Headroom {
				thresholds = append(thresholds, w.Threshold)
			}
		}
		if len(thresholds) == 0 {
			<-ctx.Done()
			return
		}
		rings := make(chan string, 1)
		var running hang.Group
		defer running.Wait()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		running.Go(func() {
			defer stop() // in case of a panic
			memcg.WatchSigns(ctx, func() []memcg.Sign { return t.Signs(eviction.MemoryAvailable) }, rings)
		})
		var b nodefs.Buffer
		step := pace.Pace{Thresholds: thresholds, PerSecond: noRate, Repeat: true}
		cause := pace.CausePoll
		for ctx.Err() == nil {
			every := quietEvery
			o, stirred := t.observe(&b)
			if stirred {
				every = stirredEvery
			}
			v := step.Lost(every)
			if o.State == eviction.Observed {
				v = step.Look(time.Now(), o.Available, o.Capacity, every)
			}
			v.Report(Headroom, cause, wake)
			cause = memcg.WaitForNext(ctx, v.Again, rings, cause)
		}
	})
}
