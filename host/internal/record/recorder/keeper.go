// Package recorder makes records of decisions after each pass and writes them in the background.
// The loop never waits for it. It keeps samples of signals and pod usage for that, and counts
// records that could not be written.
package recorder

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// waitingPasses bounds the queue of passes, waitingRecords the queue of writes: with one record
	// per second none is lost while a disk hangs for a minute.
	waitingPasses  = 256
	waitingRecords = 64
	// endOfWriting bounds writing the queue at shutdown, startOfWriting the wait for the former configuration.
	endOfWriting   = 2 * time.Second
	startOfWriting = time.Second
	// pruneEvery is the time between two removals of old records.
	pruneEvery = time.Hour
	// mostOthers bounds the records of evictions by other programs and of kernel kills each othersEvery:
	// they must not push out evictd's own.
	mostOthers  = 50
	othersEvery = 10 * time.Minute
)

// A Store stores records. See package store. Each of its methods may block forever.
type Store interface {
	Open() error
	Append(r *decision.Decision) error
	Missing(all []*decision.Decision) ([]*decision.Decision, error)
	AppendOutcome(o *decision.Outcome) error
	Configured() (*decision.Decision, error)
	SaveConfigured(d *decision.Decision) error
	Prune() error
	Close() error
}

// Options configures a Keeper.
type Options struct {
	Store Store
	// Node is the name of the node, Evictd the version.
	Node, Evictd string
	// Samplers read signals between passes, each from one source. One that hangs does not delay others.
	Samplers []func() []eviction.Observation
	// Usage measures the running pods. It may be nil.
	Usage func(ctx context.Context) (Usage, error)
	// Kernel finds kernel kills. It may be nil.
	Kernel KernelKills
	// Count counts a written record, or a lost one if err is not nil.
	Count func(err error)
	Log   *slog.Logger
}

// A Keeper keeps records. A nil Keeper keeps none.
type Keeper struct {
	Options

	// passes queues what records are made of, in order.
	passes chan func()
	// writing queues the writes, in order.
	writing chan func()
	// losing: the last record was lost.
	losing atomic.Bool

	series series
	usage  usageSampler
	marks  marks
	kernel kernelWatch

	// others and leftOut count evictions by other programs and kernel kills, recorded or not. They belong to the writer.
	others, leftOut int

	// The rest belongs to Run's goroutine.
	began    time.Time
	open     []*open
	episodes episodes
	// last is the last decision of a pass, nil before the first.
	last *decision.Decision
	// resumed holds the records of kills that a former evictd decided on.
	resumed map[string]bool
}

// New returns a Keeper. The caller must call Run.
func New(o Options) *Keeper {
	k := &Keeper{
		Options: o, passes: make(chan func(), waitingPasses), writing: make(chan func(), waitingRecords), series: series{rings: map[eviction.Signal]*ring{}},
		usage:    usageSampler{read: o.Usage, ask: make(chan chan Usage), hurry: make(chan struct{}, 1), ended: make(chan struct{}), most: map[eviction.Signal]int64{}},
		episodes: episodes{}, resumed: map[string]bool{}, marks: marks{inForce: map[string]time.Time{}},
	}
	k.kernel.kills, k.kernel.moved, k.kernel.began = o.Kernel, make(chan struct{}, 1), time.Now()
	k.kernel.calm, k.kernel.found, k.kernel.log = k.series.calm, k.kernelKilled, o.Log
	return k
}

// Why implements loop.Records. It adds the samples of pods' use to d.
func (k *Keeper) Why(d *decision.Decision) string {
	if len(d.Order) == 0 {
		return ""
	}
	k.usage.enter(d, d.Time)
	pod, grown := &d.Candidates[d.Order[0]], int64(0)
	before, since := k.usage.fullest(d.Acted().Signal)
	if was, sampled := before.Used[pod.UID]; sampled && pod.State == "" {
		grown = pod.Usage - was
	}
	return reason.Why(d, grown, d.Time.Sub(since))
}

// Before adds the last minutes to a ranking of now: samples of signals, marks and pods' use. It may be called
// from anywhere, and of a nil Keeper.
func (k *Keeper) Before(ranking *decision.Decision) {
	t := ranking.Acted()
	if k == nil || t == nil {
		return
	}
	ranking.Signals, ranking.Marks = k.series.before(ranking.Time, t.Signal), k.marks.before(ranking.Time, t.Signal)
	k.usage.enter(ranking, ranking.Time)
}

// Mark notes something that happened now. It may be called from anywhere, and of a nil Keeper.
func (k *Keeper) Mark(what, text string) {
	if k != nil {
		k.marks.add(mark{Mark: decision.Mark{What: what, Text: text}, at: time.Now()})
	}
}

// Passed implements loop.Records. It never blocks.
func (k *Keeper) Passed(c loop.Conclusion) { k.queue(func() { k.passed(&c) }) }

// Preempted queues the record of a pod that was killed for a critical one, outside of passes. It
// never blocks.
func (k *Keeper) Preempted(r *decision.Decision) {
	k.queue(func() {
		r.Node, r.Evictd = k.Node, k.Evictd
		k.put(func() error { return k.Store.Append(r) })
	})
}

// Others queues the records of evictions by other programs, without those that are recorded already
// and those that own says are evictd's. It never blocks; own may. It modifies all.
func (k *Keeper) Others(all []*decision.Decision, own func(uid, message string) bool) {
	k.queue(func() {
		k.putAll(func() {
			found, err := k.Store.Missing(slices.DeleteFunc(all, func(d *decision.Decision) bool { return own(d.Victim.UID, d.Victim.Message) }))
			if err != nil {
				k.written(err)
			}
			slices.SortFunc(found, func(a, b *decision.Decision) int { return b.Time.Compare(a.Time) })
			for _, r := range found {
				r.Node, r.Evictd = k.Node, k.Evictd
			}
			k.appendOthers(found...)
		})
	})
}

// appendOthers writes records of what evictd did not decide, as many as fit.
func (k *Keeper) appendOthers(all ...*decision.Decision) {
	fit := min(len(all), mostOthers-k.others)
	for _, r := range all[:fit] {
		k.written(k.Store.Append(r))
	}
	k.others, k.leftOut = k.others+fit, k.leftOut+len(all)-fit
}

func (k *Keeper) queue(make func()) {
	if k == nil {
		return
	}
	select {
	case k.passes <- make:
	default:
		k.written(errNotTaken)
	}
}

// Run makes records and writes them until ctx ends, and then the rest of the queue for a moment. It
// opens and closes the store.
func (k *Keeper) Run(ctx context.Context) {
	if k == nil {
		return
	}
	k.Mark(decision.MarkStart, "evictd "+k.Evictd+" started")
	written, former := make(chan struct{}), make(chan *decision.Decision, 1)
	go func() { // ends with the process if the disk hangs
		defer close(written)
		k.write(former)
	}()
	k.began = time.Now()
	select {
	case k.marks.former = <-former:
	case <-time.After(startOfWriting):
	}
	for _, read := range k.Samplers {
		go k.sample(ctx, read) // which may hang
	}
	if k.Usage != nil {
		go k.usage.run(ctx, k.Log) // likewise
	}
	if k.Kernel != nil {
		go k.kernel.run(ctx) // likewise
	}
	k.make(ctx)
	close(k.writing)
	select {
	case <-written:
	case <-time.After(endOfWriting):
		lost := len(k.writing)
		for range lost {
			k.Count(errNotWritten)
		}
		k.Log.Error("decision records are lost, the disk does not take them", "records", lost)
	}
}

func (k *Keeper) make(ctx context.Context) {
	for {
		select {
		case make := <-k.passes:
			make()
		case <-ctx.Done():
			for range len(k.passes) {
				(<-k.passes)()
			}
			for _, o := range k.open {
				if !o.written {
					k.putOutcome(o.Outcome)
				}
				k.putAfter(o)
			}
			return
		}
	}
}

func (k *Keeper) sample(ctx context.Context, read func() []eviction.Observation) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, o := range read() {
				k.series.add(now, o)
				k.usage.seen(o)
			}
			k.kernel.ask()
		case <-ctx.Done():
			return
		}
	}
}

func (k *Keeper) passed(p *loop.Conclusion) {
	k.kernel.ask()
	if d := p.Decision; d != nil {
		k.last = d
		if !p.Later && k.marks.configured(d) {
			now := &decision.Decision{Version: decision.Version, ID: decision.NewID(d.Time), Kind: decision.KindNone, Time: d.Time, Config: d.Config, Thresholds: d.Thresholds}
			k.putAll(func() {
				if err := k.Store.SaveConfigured(now); err != nil {
					k.Log.Warn("configuration is not saved, the next start does not know what it changes", "error", err)
				}
			})
		}
		for i := range d.Observations {
			k.series.add(d.Time, d.Observations[i].Policy())
		}
		for _, r := range k.decisions(p) {
			k.put(func() error { return k.Store.Append(r) })
		}
		k.marks.waits(p)
		k.usage.decided(d)
	}
	k.follow(p)
}

// put queues a write, and drops it if the queue is full.
func (k *Keeper) put(write func() error) { k.putAll(func() { k.written(write()) }) }

// putAll is put for several writes, which it counts themselves.
func (k *Keeper) putAll(write func()) {
	select {
	case k.writing <- write:
	default:
		k.written(errNotWritten)
	}
}

// write opens the store, sends the former configuration, writes the queue until it is closed, and removes old records.
func (k *Keeper) write(former chan<- *decision.Decision) {
	if err := k.Store.Open(); err != nil {
		k.Log.Error("decisions not recorded, retrying with the next", "error", err)
	}
	configured, err := k.Store.Configured()
	if err != nil {
		k.Log.Warn("former configuration is not known", "error", err)
	}
	former <- configured
	old := time.NewTicker(pruneEvery)
	defer old.Stop()
	window := time.NewTicker(othersEvery)
	defer window.Stop()
	for {
		select {
		case write, more := <-k.writing:
			if !more {
				if err := k.Store.Close(); err != nil {
					k.Log.Error("decision records are not closed", "error", err)
				}
				return
			}
			write()
		case <-window.C:
			if k.leftOut > 0 {
				k.Log.Warn("evictions by other programs and kernel kills are not recorded, there are too many of them", "number", k.leftOut, "most", mostOthers, "in", othersEvery)
			}
			k.others, k.leftOut = 0, 0
		case <-old.C:
			if err := k.Store.Prune(); err != nil {
				k.Log.Error("old decision records are not removed", "error", err)
			}
		}
	}
}

// written counts a record, and logs when losses begin and end. It may be called from anywhere.
func (k *Keeper) written(err error) {
	k.Count(err)
	switch failed := err != nil; {
	case k.losing.Swap(failed) == failed:
	case failed:
		k.Log.Error("decision record lost, it cannot be written", "error", err)
	default:
		k.Log.Info("decision records are written again")
	}
}
