package loop

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// A disk is a disk plugin in this process.
type disk struct {
	n         *node
	available int64
	layout    *eviction.LayoutReport
	volumes   map[string]int64 // used bytes of the volume "data", by uid
	// frees is the amount that each step gives back, takes its duration, fails its error.
	frees map[string]int64
	takes time.Duration
	fails error
	// afterGC replaces available, for its signals, once something was reclaimed.
	afterGC   map[eviction.Signal]int64
	reclaimed bool
	// late, if not zero, has what pods used come back so long after their end.
	late time.Duration
	// measures is the duration of a measurement, measured counts them.
	measures time.Duration
	measured int
	// knows are the only pods that it can measure, nil for all, before it fails with unmeasured.
	knows      []string
	unmeasured error
	// hangs: it never tells what is in a pod.
	hangs bool
}

// addDisk gives the node a disk plugin with container-gc and image-gc, 100Gi with
// 50Gi available, everything on one filesystem.
func (n *node) addDisk() *disk {
	d := &disk{n: n, available: 50 * gi, layout: &eviction.LayoutReport{}, volumes: map[string]int64{}, frees: map[string]int64{}}
	steps := []eviction.ReclaimStep{{Name: "container-gc"}, {Name: "image-gc", Layouts: []eviction.Layout{eviction.LayoutShared}}}
	n.plugins.builtin = append(n.plugins.builtin, &registry.Instance{Name: "disk", Generation: 2, Plugin: &eviction.Plugin{
		Name: "disk", OwnsLayout: true, Observer: d, Measurer: d, Reclaimer: d,
		Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable, ReclaimSteps: steps}, {Signal: eviction.ContainerFsAvailable, ReclaimSteps: steps}, {Signal: eviction.ImageFsAvailable, ReclaimSteps: steps}},
	}})
	return d
}

func (d *disk) set(available int64) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.available = available
}

// limit gives a pod a volume that may have so many bytes, and has.
func (d *disk) limit(pod string, limit, used int64) {
	d.n.runtime.limitVolume(pod, limit)
	d.volumes["uid-"+pod] = used
}

// Observe implements eviction.Observer.
func (d *disk) Observe(_ context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	reply := eviction.ObserveReply{Layout: d.layout}
	for _, s := range r.Signals {
		available := d.available
		if d.late > 0 {
			available += d.n.runtime.released(d.volumes, d.late)
		}
		if after, ok := d.afterGC[s]; ok && d.reclaimed {
			available = after
		}
		reply.Observations = append(reply.Observations, eviction.Observation{
			Signal: s, State: eviction.Observed, Available: available, Capacity: 100 * gi, Time: time.Now(),
		})
	}
	return reply, nil
}

// Measure implements eviction.Measurer.
func (d *disk) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	d.n.mu.Lock()
	d.measured++
	takes, knows, fails := d.measures, d.knows, d.unmeasured
	d.n.mu.Unlock()
	if d.hangs && r.Detail == eviction.DetailContainers {
		takes = time.Hour
	}
	if err := wait(ctx, takes); err != nil {
		return err
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	for _, p := range r.Pods {
		if knows != nil && !slices.Contains(knows, p.UID) {
			continue
		}
		emit(eviction.Measurement{
			UID: p.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: d.volumes[p.UID]}},
			Volumes: []eviction.VolumeMeasurement{{Name: "data", UsedBytes: eviction.Some(d.volumes[p.UID])}},
		})
	}
	return fails
}

// Reclaim implements eviction.Reclaimer.
func (d *disk) Reclaim(ctx context.Context, r eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	d.n.did.note("reclaim %s", r.Step)
	if err := wait(ctx, d.takes); err != nil {
		return eviction.Reclaimed{}, err
	}
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.reclaimed = true
	d.available += d.frees[r.Step]
	return eviction.Reclaimed{Bytes: d.frees[r.Step]}, d.fails
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// An array is a vendor's plugin for the storage that images are on, beside the built-in disk
// plugin: it knows one signal and refuses all others.
type array struct {
	d      *disk
	plugin *eviction.Plugin
	serves eviction.Signal
	// frees is the amount that emptying its cache gives.
	frees int64
	// ranks: the pod that it wants to go.
	ranks string
	// says is the amount that it observes, 0 for that of the disk.
	says int64
}

// addArray gives the node a plugin that offers everything for one signal.
func (d *disk) addArray(serves eviction.Signal) *array {
	v := &array{d: d, serves: serves}
	v.plugin = d.n.plugins.add(&eviction.Plugin{
		Name: "acme-images", Observer: v, Measurer: v, Ranker: v, Reclaimer: v,
		Signals: []eviction.SignalSpec{{Signal: serves, ReclaimSteps: []eviction.ReclaimStep{{Name: "acme.example/empty-cache"}}}},
	}).Plugin
	return v
}

func (v *array) knows(signals ...eviction.Signal) {
	if !slices.Equal(signals, []eviction.Signal{v.serves}) {
		v.d.n.t.Errorf("the plugin is asked about %s, and offers %s", signals, v.serves)
	}
}

// Observe implements eviction.Observer.
func (v *array) Observe(_ context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	v.knows(r.Signals...)
	v.d.n.mu.Lock()
	defer v.d.n.mu.Unlock()
	available := v.d.available
	if v.says != 0 {
		available = v.says
	}
	return eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: v.serves, State: eviction.Observed, Available: available, Capacity: 100 * gi, Time: time.Now(),
	}}}, nil
}

// Measure implements eviction.Measurer.
func (v *array) Measure(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	v.knows(r.Signals[0])
	for _, p := range r.Pods {
		m := eviction.Measurement{UID: p.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: 1}}}
		if p.Name == v.ranks {
			m.Usage[0].Value = 7
		}
		emit(m)
	}
	return nil
}

// Rank implements eviction.Ranker.
func (v *array) Rank(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
	v.knows(r.Signal)
	var order []eviction.Ranked
	for _, c := range r.Candidates {
		if c.Measurement.UsageFor(v.serves) == 7 {
			order = append(order, eviction.Ranked{UID: c.Pod.UID, Reason: "lives on the array"})
		}
	}
	return order, nil
}

// Reclaim implements eviction.Reclaimer.
func (v *array) Reclaim(_ context.Context, r eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	v.knows(r.Signal)
	v.d.n.did.note("reclaim %s for %s", r.Step, r.Signal)
	v.d.n.mu.Lock()
	defer v.d.n.mu.Unlock()
	released := v.frees
	v.d.available += released
	v.frees = 0
	return eviction.Reclaimed{Bytes: released}, nil
}

const (
	spareSignal  eviction.Signal    = "acme.example/nvme.spare"
	wearSignal   eviction.Signal    = "acme.example/nvme.wear"
	nvmePressure eviction.Condition = "acme.example/NVMePressure"
	wearPressure eviction.Condition = "acme.example/WearPressure"
)

// A vendor is a plugin in this process that brings custom signals.
type vendor struct {
	n         *node
	instance  *registry.Instance
	available map[eviction.Signal]int64
	frees     int64
	// measures is the duration of a measurement.
	measures time.Duration
	wake     func(eviction.Wake)
	watched  []eviction.WatchThreshold
}

func definition(c eviction.Condition) *eviction.Definition {
	return &eviction.Definition{Unit: "blocks", Format: eviction.FormatDecimalSI, Resource: "acme.example/nvme-spare", Condition: c}
}

// newVendor makes a plugin that is not there yet. Its signals raise c.
func (n *node) newVendor(generation uint64, c eviction.Condition, signals ...eviction.Signal) *vendor {
	v := &vendor{n: n, available: map[eviction.Signal]int64{}}
	p := &eviction.Plugin{Name: "nvme", Observer: v, Measurer: v, Watcher: v, Reclaimer: v, Ranker: ranker(v.rank)}
	for _, s := range signals {
		v.available[s] = 5000
		p.Signals = append(p.Signals, eviction.SignalSpec{Signal: s, Definition: definition(c), ReclaimSteps: []eviction.ReclaimStep{{Name: "trim"}}})
	}
	v.instance = &registry.Instance{Name: "nvme", Generation: generation, Plugin: p}
	return v
}

// addVendor gives the node one with both signals.
func (n *node) addVendor() *vendor {
	v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
	n.plugins.builtin = append(n.plugins.builtin, v.instance)
	return v
}

// withoutSteps takes the steps of reclaim away.
func (v *vendor) withoutSteps() {
	v.instance.Plugin.Reclaimer = nil
	for i := range v.instance.Plugin.Signals {
		v.instance.Plugin.Signals[i].ReclaimSteps = nil
	}
}

// comes has the plugin run, in the place of a former one.
func (v *vendor) comes() {
	v.goes()
	v.n.plugins.builtin = append(v.n.plugins.builtin, v.instance)
	v.n.plugins.changes()
}

// goes removes it.
func (v *vendor) goes() {
	v.n.plugins.builtin = slices.DeleteFunc(v.n.plugins.builtin, func(i *registry.Instance) bool { return i.Name == "nvme" })
	v.n.plugins.changes()
}

func (v *vendor) set(s eviction.Signal, available int64) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	v.available[s] = available
}

// crosses sets a figure and wakes the loop.
func (v *vendor) crosses(s eviction.Signal, available int64) {
	v.set(s, available)
	v.wake(eviction.Wake{Signal: s, Cause: "test"})
	v.n.after(0)
}

// Observe implements eviction.Observer.
func (v *vendor) Observe(_ context.Context, r eviction.ObserveRequest) (reply eviction.ObserveReply, _ error) {
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	for _, s := range r.Signals {
		v.n.did.note("look at %s", s)
		reply.Observations = append(reply.Observations, eviction.Observation{
			Signal: s, State: eviction.Observed, Available: v.available[s], Capacity: 10_000, Time: time.Now(),
		})
	}
	return reply, nil
}

// Measure implements eviction.Measurer.
func (v *vendor) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	if err := wait(ctx, v.measures); err != nil {
		return err
	}
	for i, p := range r.Pods {
		emit(eviction.Measurement{UID: p.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: int64(100 - i)}}})
	}
	return nil
}

// Watch implements eviction.Watcher.
func (v *vendor) Watch(ctx context.Context, r eviction.WatchRequest, wake func(eviction.Wake)) error {
	v.n.mu.Lock()
	v.wake, v.watched = wake, r.Thresholds
	v.n.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// rank has the last one of the pods go first.
func (v *vendor) rank(r eviction.RankRequest) ([]eviction.Ranked, error) {
	if r.Unit != "blocks" {
		return nil, errors.New("unit " + string(r.Unit))
	}
	var out []eviction.Ranked
	for _, c := range slices.Backward(r.Candidates) {
		out = append(out, eviction.Ranked{UID: c.Pod.UID, Reason: "wears most"})
	}
	return out, nil
}

// Reclaim implements eviction.Reclaimer.
func (v *vendor) Reclaim(_ context.Context, r eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	v.n.did.note("reclaim %s for %s", r.Step, r.Signal)
	v.n.mu.Lock()
	defer v.n.mu.Unlock()
	v.available[r.Signal] += v.frees
	return eviction.Reclaimed{Bytes: v.frees}, nil
}

// byHand reads what the node has available, or fails.
type byHand struct {
	node *node
	err  string
}

// readByHand has the host read memory by itself, if the built-in plugin's source does not stand.
func (n *node) readByHand(stands bool) *byHand {
	b := &byHand{node: n}
	n.options.Fallback, n.options.SourceStands = b, map[bool]time.Duration{true: observe.Forever}[stands]
	return b
}

// Reads implements observe.Fallback.
func (b *byHand) Reads(s eviction.Signal) bool { return s == eviction.MemoryAvailable }

// Whole implements observe.Fallback.
func (b *byHand) Whole(eviction.Signal) (w eviction.Whole) { return w }

// Observe implements observe.Fallback.
func (b *byHand) Observe(_ context.Context, signals []eviction.Signal) []eviction.Observation {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	b.node.did.note("by hand")
	o := eviction.Observation{Signal: signals[0], Err: b.err, Time: time.Now()}
	if b.err == "" {
		o.State, o.Available, o.Capacity = eviction.Observed, b.node.memory.available, 8*gi
	}
	return []eviction.Observation{o}
}

// Measure implements observe.Fallback.
func (b *byHand) Measure(_ context.Context, s eviction.Signal, pods []eviction.Pod) (out []eviction.Measurement) {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	for _, p := range pods {
		use := b.node.runtime.usage[p.UID]
		out = append(out, eviction.Measurement{
			UID: p.UID, State: eviction.Measured, WorkingSetBytes: eviction.Some(use), Usage: []eviction.SignalUsage{{Signal: s, Value: use}},
		})
	}
	return out
}
