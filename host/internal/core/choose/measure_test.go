package choose_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A walker needs some calls until the use of its pods is known.
type walker struct {
	*plugin

	calls int
	asked []int // the number of pods of each call
	walk  func(p *plugin, calls int)
}

func (w *walker) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	w.calls++
	w.asked = append(w.asked, len(r.Pods))
	w.walk(w.plugin, w.calls)
	time.Sleep(time.Second)
	return w.plugin.Measure(ctx, r, emit)
}

// A pod with many files had everything that no pod explained as its use, and went before the pod that
// held most.
func TestAPodThatMayHoldMoreIsMeasuredOnUntilItIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		signal eviction.Signal
		walk   func(p *plugin, calls int)
		order  string
		calls  int
		took   time.Duration
	}{
		"until it turns out to be small": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 12, "owner": 400}, map[string]int64{"innocent": 30_000}
			if calls == 3 {
				p.uses["innocent"], p.atMost = 20, nil
			}
		}, "disk: owner 400, innocent 20", 3, 3 * time.Second},
		"until it turns out to be large": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": int64(calls) * 300, "owner": 400}, map[string]int64{"innocent": 30_000}
			if calls == 3 {
				p.atMost = nil
			}
		}, "disk: innocent 600, owner 400", 2, 2 * time.Second},
		"no longer than a kubelet would have waited": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 12, "owner": 400}, map[string]int64{"innocent": 30_000}
		}, "disk: owner 400, innocent 12", 29, 31 * time.Second},
		"not while it is behind with all that it may hold": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 12, "owner": 400}, map[string]int64{"innocent": 399}
		}, "disk: owner 400, innocent 12", 1, time.Second},
		"not when it is first anyway": {eviction.NodeFsAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 401, "owner": 400}, map[string]int64{"innocent": 30_000}
		}, "disk: innocent 401, owner 400", 1, time.Second},
		"not for memory, which does not wait": {eviction.MemoryAvailable, func(p *plugin, calls int) {
			p.uses, p.atMost = map[string]int64{"innocent": 12, "owner": 400}, map[string]int64{"innocent": 30_000}
		}, "disk: owner 400, innocent 12", 1, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, nil, "innocent", "owner")
				n.signal = c.signal
				w := &walker{plugin: &plugin{name: "disk"}, walk: c.walk}
				n.start(w.plugin, eviction.CanMeasure|eviction.CanRank)
				n.plugins[0].Plugin.Measurer = w
				began := time.Now()
				_, got := n.choice(t, false)
				if took := time.Since(began).Truncate(time.Second); got != c.order || w.calls-1 != c.calls || took != c.took+time.Second { // the last call is for the message
					t.Errorf("%s after %d calls and %v, want %s after %d and %v", got, w.calls-1, took, c.order, c.calls, c.took)
				}
				for i, pods := range w.asked[1:] {
					if pods != 1 {
						t.Errorf("call %d asks for %d pods, want the one that is not known", i+2, pods)
					}
				}
			})
		})
	}
}
