package recorder

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

// kernel has kills to find, on a node with so much memory.
type kernel struct {
	mu        sync.Mutex
	available int64
	kills     []*decision.Decision
	err       error
	calm      []bool
	looks     int
}

func (k *kernel) Moved() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.looks++
	return len(k.kills) > 0 || k.err != nil
}

func (k *kernel) Look(_ context.Context, calm bool) (all []*decision.Decision, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calm = append(k.calm, calm)
	all, k.kills = k.kills, nil
	return all, k.err
}

func (k *kernel) sample() eviction.Observation {
	k.mu.Lock()
	defer k.mu.Unlock()
	return eviction.Observation{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: k.available, Capacity: 8 * gibibyte}
}

// is changes k.
func (k *kernel) is(change func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	change()
}

func killOf(uid string) []*decision.Decision {
	return []*decision.Decision{{ByOthers: decision.ByOthers{By: "the kernel", Kernel: &decision.Kernel{Scope: decision.ScopeContainer, Processes: 1}}, Victim: &decision.Victim{UID: uid, Pod: "shop/" + uid, Signal: "memory.available"}}}
}

// A kernel kill is recorded with the thresholds of the last pass, the samples and the pod's use, within the second of a sample.
func TestAKernelKillIsRecordedWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		var c counted
		var log bytes.Buffer
		found := &kernel{available: 4 * gibibyte}
		k := New(Options{
			Store: &m, Node: "node", Evictd: "test", Count: c.count, Kernel: found, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Samplers: []func() []eviction.Observation{func() []eviction.Observation { return []eviction.Observation{found.sample()} }},
			Usage: func(context.Context) (Usage, error) {
				return Usage{eviction.MemoryAvailable: {Available: 4 * gibibyte, Used: map[string]int64{"report": 3 * gibibyte}}}, nil
			},
		})
		ctx, end := context.WithCancel(t.Context())
		ran := make(chan struct{})
		go func() { defer close(ran); k.Run(ctx) }()
		wait := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		wait(10500 * time.Millisecond)
		if found.looks < 10 || len(found.calm) != 0 {
			t.Errorf("%d looks, %d of them deep; want one each second, and none deep", found.looks, len(found.calm))
		}
		p := evicted(time.Now())
		p.Evicted, p.Victims = nil, nil
		k.Passed(p)
		wait(time.Millisecond)
		found.is(func() { found.kills = killOf("report") })
		wait(time.Second)
		r := m.records[len(m.records)-1]
		if r.Kind != decision.KindKernel || r.Victim.Pod != "shop/report" || r.By != "the kernel" || r.Trigger != "" || len(r.Candidates) != 0 || r.Acted() != nil {
			t.Fatalf("record %+v", r)
		}
		if since := r.Kernel.SinceMS; since < -1000 || since >= 0 || *r.Kernel.UsedBytes != 3*gibibyte || len(r.Thresholds) != 1 || r.Thresholds[0].Since == nil || len(r.Signals) != 1 {
			t.Errorf("record %+v of %+v", r, r.Kernel)
		}
		if len(found.calm) != 1 || !found.calm[0] {
			t.Errorf("calm %v, want a node with memory to spare", found.calm)
		}
		found.is(func() { found.err, found.available = errors.New("no cgroups"), gibibyte/8 })
		wait(5 * time.Second)
		if n := strings.Count(log.String(), "kernel kills are not found"); n != 1 || found.calm[len(found.calm)-1] {
			t.Errorf("%d warnings, calm %v", n, found.calm)
		}
		found.is(func() { found.err = nil })
		for range 2 * mostOthers { // a pod that is killed each time
			found.is(func() { found.kills = killOf("web") })
			wait(time.Second)
		}
		if n := len(m.records); n != mostOthers {
			t.Errorf("%d records, want at most %d of kernel kills", n, mostOthers)
		}
		end()
		<-ran
	})
}
