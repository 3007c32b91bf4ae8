package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/broken/fault"
)

// oversize is twice the size that the host accepts.
const oversize = 16 << 20

// lateBy is the delay of a late answer: longer than the deadline, but over before the next call
// runs.
var lateBy = map[fault.Call]time.Duration{
	fault.Describe: 2500 * time.Millisecond, fault.Configure: 2500 * time.Millisecond, fault.Observe: 1300 * time.Millisecond,
	fault.Measure: 5500 * time.Millisecond, fault.Watch: 3 * time.Second, fault.Rank: 1300 * time.Millisecond, fault.Reclaim: 31 * time.Second,
}

// trickle is the time between two signs of life.
const trickle = 400 * time.Millisecond

var errBroken = errors.New("broken on purpose")

// slowBy is the delay of a slow answer: a little less than the deadline. A slow Reclaim reports
// no progress meanwhile.
var slowBy = map[fault.Call]time.Duration{
	fault.Describe: 1800 * time.Millisecond, fault.Configure: 1800 * time.Millisecond, fault.Observe: 900 * time.Millisecond,
	fault.Measure: 4500 * time.Millisecond, fault.Watch: 900 * time.Millisecond, fault.Rank: 900 * time.Millisecond, fault.Reclaim: 27 * time.Second,
}

// broken wraps the calls of a plugin to add a fault.
type broken struct {
	fault.Fault
	next eviction.Plugin

	mu sync.Mutex
	// before are the last figures before the fault occurs.
	before map[eviction.Signal]eviction.Observation
}

// plugin returns the base with its calls wrapped by b.
func (b *broken) plugin() eviction.Plugin {
	switch b.Base {
	case "memory":
		b.next = memory.New()
	case "disk":
		b.next = disk.New()
	case "pid":
		b.next = pid.New()
	default:
		b.next = b.own()
	}
	p := b.next
	p.CheckHost = b.checkHost
	if p.Configurer != nil {
		p.Configurer = b
	}
	if p.Observer != nil {
		p.Observer = b
	}
	if p.Measurer != nil {
		p.Measurer = b
	}
	if p.Watcher != nil {
		p.Watcher = b
	}
	if p.Ranker != nil {
		p.Ranker = b
	}
	if p.Reclaimer != nil {
		p.Reclaimer = b
	}
	if b.Call == fault.Describe {
		b.describeWrongly(&p)
	}
	return p
}

// own returns a minimal plugin that does one thing for one signal.
func (b *broken) own() eviction.Plugin {
	o := ownCalls{b.Pressure}
	if b.Base == "drop" {
		p := memory.New()
		p.Reclaimer = o
		for i := range p.Signals {
			p.Signals[i].ReclaimSteps = []eviction.ReclaimStep{{Name: "faults.example/drop"}}
		}
		return p
	}
	if b.Base == "trim" {
		steps := []eviction.ReclaimStep{{Name: "faults.example/trim"}}
		return eviction.Plugin{Name: b.Base, Reclaimer: o, Signals: []eviction.SignalSpec{
			{Signal: eviction.NodeFsAvailable, ReclaimSteps: steps}, {Signal: eviction.ContainerFsAvailable, ReclaimSteps: steps},
		}}
	}
	return eviction.Plugin{Name: b.Base, Observer: o, Configurer: o, Signals: []eviction.SignalSpec{{Signal: "faults.example/spare", Definition: &eviction.Definition{
		Unit: "blocks", Format: eviction.FormatDecimalSI, Resource: "faults.example/spare", Condition: "faults.example/SparePressure",
	}}}}
}

// ownCalls observes no pressure unless the file pressure exists, and reclaims nothing.
type ownCalls struct{ pressure string }

func (ownCalls) Configure(context.Context, eviction.ConfigureRequest) error { return nil }

func (o ownCalls) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	available := int64(100)
	if _, err := os.Stat(o.pressure); err == nil {
		available = 5
	}
	for _, s := range req.Signals {
		reply.Observations = append(reply.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Available: available, Capacity: 100, Time: time.Now()})
	}
	return reply, nil
}

func (ownCalls) Reclaim(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return eviction.Reclaimed{}, nil
}

// describeWrongly adds the fault to a description.
func (b *broken) describeWrongly(p *eviction.Plugin) {
	wrong := eviction.SignalSpec{Signal: "faults.example/other", Definition: &eviction.Definition{Unit: "x", Format: eviction.FormatDecimalSI, Resource: "faults.example/x", Condition: "faults.example/X"}}
	switch {
	case b.Kind == fault.Lie && b.Variant == "not its own":
		wrong.Signal = "kubernetes.io/memory"
		p.Signals = append(p.Signals, wrong)
	case b.Kind == fault.Lie && b.Variant == "other signals":
		p.Signals, p.OwnsLayout = []eviction.SignalSpec{wrong}, false
	case b.Kind == fault.Flood:
		for range 50_000 {
			p.Signals = append(p.Signals, wrong)
		}
	case b.Kind == fault.Oversized:
		p.Version = strings.Repeat("x", oversize)
	default:
		return
	}
	b.struck()
}

// checkHost adds the fault to Describe.
func (b *broken) checkHost(eviction.Host) error {
	if !b.strikes(fault.Describe) {
		return nil
	}
	return b.common(fault.Describe)
}

// strikes reports whether the fault is in c and armed. If so, it creates the file Struck.
func (b *broken) strikes(c fault.Call) bool {
	waited := c == fault.Observe || c == fault.Measure || c == fault.Rank
	if b.Call != c && (b.Call != fault.Waited || !waited) {
		return false
	}
	if b.Armed != "" {
		if _, err := os.Stat(b.Armed); err != nil {
			return false
		}
	}
	b.struck()
	return true
}

func (b *broken) struck() {
	if err := os.WriteFile(b.Struck, nil, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "broken:", err)
	}
}

// common does what is the same for all calls. If it returns nil, the call continues.
func (b *broken) common(c fault.Call) error {
	switch b.Kind {
	case fault.Hang:
		for {
			time.Sleep(time.Hour)
		}
	case fault.Crash:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Hour)
	case fault.Error:
		return errBroken
	case fault.Late:
		time.Sleep(lateBy[c])
	case fault.Slow:
		time.Sleep(slowBy[c])
	default:
	}
	return nil
}

// is reports whether the fault is the given lie.
func (b *broken) is(variant string) bool { return b.Kind == fault.Lie && b.Variant == variant }
