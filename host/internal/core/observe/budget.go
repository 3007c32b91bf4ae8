package observe

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
)

const (
	// promptBudget bounds the delay of a decision for memory or process ids by custom plugins. A
	// kubelet chooses such a pod at once.
	promptBudget = time.Second
	// slowBudget bounds it for disks and custom signals: a kubelet collects garbage first.
	slowBudget = 30 * time.Second
	// adjoining passes may be about one shortage: the memory plugin repeats a wake after 500 ms at
	// most.
	adjoining = 600 * time.Millisecond
	// oneShortage bounds the time for which adjoining passes count together.
	oneShortage = 3 * time.Second
)

// ErrBudgetSpent is returned instead of the answer of a custom plugin that a decision has no time
// left for.
var ErrBudgetSpent = errors.New("not asked, custom plugins have used up the time of this decision")

// A Budget bounds the time for which one decision waits for custom plugins, over all calls. Calls
// at the same time count once. A nil Budget has no bound. It is safe for concurrent use.
type Budget struct {
	limit time.Duration
	// decides: plugins that use up the time are reported. Otherwise it is not known yet whether
	// there is something to decide.
	decides bool
	// former and formerly are spent and all of the passes just before, from first on.
	former   map[*registry.Instance]time.Duration
	formerly time.Duration
	first    time.Time

	mu      sync.Mutex
	spent   map[*registry.Instance]time.Duration
	all     time.Duration
	waiting int
	since   time.Time // when waiting became more than 0
	ended   time.Time
	over    bool
}

// NewBudget returns the budget of a pass's observations. Those of the former pass, which may be
// nil, count too if it ended just now, and those that counted for it: the shortage may have begun in
// them.
func NewBudget(former *Budget) *Budget {
	b := &Budget{limit: promptBudget, spent: map[*registry.Instance]time.Duration{}, first: time.Now()}
	if former == nil {
		return b
	}
	former.mu.Lock()
	defer former.mu.Unlock()
	if time.Since(former.ended) < adjoining {
		b.former, b.formerly = maps.Clone(former.spent), former.all
		if time.Since(former.first) < oneShortage {
			b.formerly, b.first = b.formerly+former.formerly, former.first
			for i, spent := range former.former {
				b.former[i] += spent
			}
		}
	}
	return b
}

// For returns the budget of a decision for t, less what the observations have spent: nil under a
// soft threshold, which has a grace period anyway.
func (b *Budget) For(t policy.Threshold) *Budget {
	if b == nil || !t.Hard() {
		return nil
	}
	b.mu.Lock()
	d := &Budget{limit: slowBudget, decides: true, spent: maps.Clone(b.spent), all: b.all + b.formerly}
	for i, spent := range b.former {
		d.spent[i] += spent
	}
	b.mu.Unlock()
	if Prompt(t) {
		d.limit = promptBudget
	}
	_, end := d.Wait(nil) // the observations may have spent it all
	end()
	return d
}

// Prompt reports whether a kubelet would evict a pod for t without trying anything else before.
func Prompt(t policy.Threshold) bool { return t.Hard() && t.Definition().Condition.CheapToMeasure() }

// forgive gives i all the time for an observation again. It spares observers without which a signal
// would be unknown.
func (b *Budget) forgive(i *registry.Instance) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.former, i)
}

// Call calls f, which waits for i, within the time left. f must return soon after its context ends.
func (b *Budget) Call(ctx context.Context, i *registry.Instance, f func(context.Context) error) error {
	if b == nil || i.Builtin() {
		return f(ctx)
	}
	left, end := b.Wait(i)
	defer end()
	if left <= 0 {
		return ErrBudgetSpent
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	return f(ctx)
}

// Wait counts the time until end is called as spent, by i unless that is nil, and returns how much
// is left.
func (b *Budget) Wait(i *registry.Instance) (left time.Duration, end func()) {
	if b == nil {
		return 0, func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	began := time.Now()
	if b.waiting++; b.waiting == 1 {
		b.since = began
	}
	left = b.limit - b.all - began.Sub(b.since) - b.former[i]
	return left, func() {
		for i, spent := range b.end(i, began, left) {
			if i.Overspent != nil {
				i.Overspent(spent)
			}
		}
	}
}

// end counts a wait, and returns the plugins to blame if it was the one too many: those that have
// spent half of the budget, or else the most.
func (b *Budget) end(i *registry.Instance, began time.Time, left time.Duration) map[*registry.Instance]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = time.Now()
	if i != nil {
		b.spent[i] += b.ended.Sub(began)
	}
	all := b.all + b.ended.Sub(b.since)
	if b.waiting--; b.waiting == 0 {
		b.all = all
	}
	if !b.decides || b.over || all < b.limit {
		return nil
	}
	b.over = true
	if b.ended.Sub(began) > max(left, 0)+b.limit/4 { // this process itself was late, so perhaps was the plugin
		return nil
	}
	blamed, most := maps.Clone(b.spent), b.limit/2
	if len(blamed) > 0 {
		most = min(most, slices.Max(slices.Collect(maps.Values(blamed))))
	}
	maps.DeleteFunc(blamed, func(_ *registry.Instance, spent time.Duration) bool { return spent < most })
	return blamed
}
