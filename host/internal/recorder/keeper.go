// Package recorder makes records of what the loop knows after each pass and writes them beside
// the loop, which never waits for it. It remembers samples and pod usage for that. Records that
// cannot be written are counted.
package recorder

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/tell"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// waitingPasses bounds the passes that wait to be looked at, waitingRecords the records to
	// be written: more than one each second is no loss as long as a disk hangs for a minute.
	waitingPasses  = 256
	waitingRecords = 64
	// endOfWriting bounds the writing of waiting records at the end.
	endOfWriting = 2 * time.Second
	// pruneEvery is the time between two removals of old records.
	pruneEvery = time.Hour
)

// A Store keeps records. See package store. All of it may take for ever.
type Store interface {
	Open() error
	Append(r *decision.Decision) error
	AppendOutcome(o *decision.Outcome) error
	Prune() error
	Close() error
}

// Options configures a Keeper.
type Options struct {
	Store Store
	// Node is the name of the node, Evictd the version.
	Node, Evictd string
	// Samplers read signals of the node between passes, each those of one thing. One that hangs
	// holds up no other.
	Samplers []func() []eviction.Observation
	// Usage measures the pods that run. It may be nil.
	Usage func(ctx context.Context) (Usage, error)
	// Count counts a record that was written, or lost if err is not nil.
	Count func(err error)
	Log   *slog.Logger
}

// A Keeper keeps records. A nil one keeps none.
type Keeper struct {
	Options

	passes chan Pass
	// writing has what is to be written, in order.
	writing chan func() error
	// losing: the last record was lost.
	losing atomic.Bool

	series series
	usage  usageSampler

	// The rest belongs to the goroutine of Run.
	open     []*open
	episodes episodes
	// resumed are the records of kills that a former evictd decided on.
	resumed map[string]bool
}

// New returns a Keeper, which is to be run.
func New(o Options) *Keeper {
	return &Keeper{Options: o, passes: make(chan Pass, waitingPasses), writing: make(chan func() error, waitingRecords), series: series{rings: map[eviction.Signal]*ring{}}, usage: usageSampler{read: o.Usage, ask: make(chan chan Usage), ended: make(chan struct{})}, episodes: episodes{}, resumed: map[string]bool{}}
}

// NewID returns the id of a decision's record, empty if none is kept.
func (k *Keeper) NewID() string {
	if k == nil {
		return ""
	}
	return decision.NewID(time.Now())
}

// Why returns in one line for its owner why the first pod of d goes, empty if no records are kept.
func (k *Keeper) Why(d *decision.Decision) string {
	if k == nil || len(d.Order) == 0 {
		return ""
	}
	pod, grown := &d.Candidates[d.Order[0]], int64(0)
	before, since := k.usage.fullest(d.Acted().Signal)
	if was, sampled := before.Used[pod.UID]; sampled && pod.State == "" {
		grown = pod.Usage - was
	}
	return tell.Why(d, grown, d.Time.Sub(since))
}

// Passed tells of a pass that has ended. It never waits.
func (k *Keeper) Passed(p Pass) {
	if k == nil {
		return
	}
	select {
	case k.passes <- p:
	default:
		k.written(errNotTaken)
	}
}

// Run makes records and has them written until ctx ends, and for a moment longer what is on
// its way then. It opens the store and closes it.
func (k *Keeper) Run(ctx context.Context) {
	if k == nil {
		return
	}
	var made sync.WaitGroup
	written := make(chan struct{})
	go func() { // ends with the process if the disk hangs
		defer close(written)
		k.write()
	}()
	for _, read := range k.Samplers {
		go k.sample(ctx, read) // which may hang
	}
	if k.Usage != nil {
		go k.usage.run(ctx, k.Log) // likewise
	}
	made.Go(func() { k.make(ctx) })
	made.Wait()
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
		case p := <-k.passes:
			k.passed(&p)
		case <-ctx.Done():
			for range len(k.passes) {
				p := <-k.passes
				k.passed(&p)
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

// sample reads signals each second.
func (k *Keeper) sample(ctx context.Context, read func() []eviction.Observation) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			for _, o := range read() {
				k.series.add(now, o)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (k *Keeper) passed(p *Pass) {
	if d := p.Decision; d != nil {
		for i := range d.Observations {
			k.series.add(d.Time, d.Observations[i].Policy())
		}
		for _, r := range k.decisions(p) {
			k.put(func() error { return k.Store.Append(r) })
		}
	}
	if r := p.Preempted; r != nil {
		r.Node, r.Evictd = k.Node, k.Evictd
		k.put(func() error { return k.Store.Append(r) })
		k.putOutcome(*r.Outcome)
		return
	}
	k.enterOpinions(p)
	k.follow(p)
}

// put has something written, if it has a place to wait in.
func (k *Keeper) put(write func() error) {
	select {
	case k.writing <- write:
	default:
		k.written(errNotWritten)
	}
}

// write opens the store, writes what is to be written until there is no more to come, and
// removes what is old.
func (k *Keeper) write() {
	if err := k.Store.Open(); err != nil {
		k.Log.Error("decisions not recorded, retrying with the next", "error", err)
	}
	old := time.NewTicker(pruneEvery)
	defer old.Stop()
	for {
		select {
		case write, more := <-k.writing:
			if !more {
				if err := k.Store.Close(); err != nil {
					k.Log.Error("decision records are not closed", "error", err)
				}
				return
			}
			k.written(write())
		case <-old.C:
			if err := k.Store.Prune(); err != nil {
				k.Log.Error("old decision records are not removed", "error", err)
			}
		}
	}
}

// written counts a record, and tells when records begin to be lost and when they no longer
// are. It may be called from anywhere.
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
