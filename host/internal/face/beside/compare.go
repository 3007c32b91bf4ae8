// Package beside compares evictd's configuration with that of the kubelet on the same node. It
// finds which acts first on which signal, which condition is not reported, what the kubelet's
// thresholds cost, what its restart under pressure would do, and which settings the kubelet should
// have.
//
// It is pure: its callers read the configurations.
package beside

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Topics of findings.
const (
	First       = "acts first"
	Condition   = "condition"
	Allocatable = "allocatable"
	Restart     = "kubelet restart"
	Setting     = "setting"
)

// A Finding is a consequence of the combination of both configurations.
type Finding struct {
	// Signal names the signal, the condition if it concerns several signals, or the kubelet's key.
	Signal string `json:"signal"`
	// About is one of First, Condition, Allocatable, Restart and Setting.
	About string `json:"about"`
	// Fix: the kubelet's settings should be changed to Settings, or with Setting those of one side.
	Fix  bool   `json:"fix,omitempty"`
	Text string `json:"text"`
}

// Compare returns the consequences of the thresholds of evictd and the kubelet, by signal.
func Compare(evictd, kubelet []policy.Threshold, n Node) []Finding {
	c := comparison{ours: levelsOf(evictd), theirs: levelsOf(kubelet), node: n}
	for _, s := range c.signals() {
		c.first(s)
	}
	for _, s := range c.signals() {
		c.condition(s)
	}
	c.allocatable()
	c.restart()
	return c.findings
}

type comparison struct {
	ours, theirs map[eviction.Signal]levels
	node         Node
	findings     []Finding
}

// signals returns the signals with a threshold: the kubelet's in their order, then vendors' by name.
func (c *comparison) signals() []eviction.Signal {
	has := maps.Clone(c.ours)
	maps.Copy(has, c.theirs)
	var all []eviction.Signal
	for _, s := range eviction.BuiltinSignals() {
		if _, ok := has[s]; ok {
			all = append(all, s)
			delete(has, s)
		}
	}
	return append(all, slices.Sorted(maps.Keys(has))...)
}

func (c *comparison) add(signal, about string, mend bool, format string, args ...any) {
	c.findings = append(c.findings, Finding{signal, about, mend, fmt.Sprintf(format, args...)})
}

// first reports which side acts first on a signal.
func (c *comparison) first(s eviction.Signal) {
	ours, theirs, scale := c.ours[s], c.theirs[s].acting(), c.node.scale(s)
	_, builtin := eviction.Builtin(s)
	switch {
	case ours == levels{}:
		c.add(string(s), First, false, "the kubelet alone acts, %s: evictd has no threshold", scale.list(c.theirs[s]))
	case !builtin:
		c.add(string(s), First, false, "evictd alone acts, %s: the kubelet knows no such signal", scale.list(ours))
	case theirs == levels{}:
		c.add(string(s), First, true, "evictd alone acts, %s: without a hard threshold of the kubelet no pod is evicted while evictd is down", scale.list(ours))
	default:
		c.order(s, ours, theirs)
		if theirs.hard == nil {
			c.add(string(s), First, true, "while evictd is down the kubelet acts %s alone, as it has no hard threshold", scale.list(theirs))
		}
	}
}

// order reports which side acts first in a slow shortage, in a sudden one and between them.
func (c *comparison) order(s eviction.Signal, ours, theirs levels) {
	scale := c.node.scale(s)
	turns, known := scale.turns(ours, theirs)
	if !known {
		c.add(string(s), First, false, "unknown: evictd acts %s, the kubelet %s, and the capacity is not known", scale.list(ours), scale.list(theirs))
		return
	}
	slow, sudden, between := turns[0], turns[1], turns[2:]
	between = slices.DeleteFunc(between, func(t turn) bool { return t.by == slow.by || t.by == sudden.by || t.by == byBoth })
	// A soft threshold of evictd's leaves sudden shortages to the kubelet.
	fix := slow.by != byEvictd || sudden.by != byEvictd && ours.hard != nil || len(between) > 0
	var text string
	switch {
	case len(between) > 0:
		text = fmt.Sprintf("in slow and in sudden shortages %s; between them %s", slow.text(scale), between[0].text(scale))
	case slow.by != sudden.by:
		text = fmt.Sprintf("in a slow shortage %s; in a sudden one %s", slow.text(scale), sudden.text(scale))
	case slow.by == byBoth:
		text = fmt.Sprintf("both act %s: one shortage may cost two pods", scale.below(slow.threshold))
	case slow.by == byKubelet:
		text = fmt.Sprintf("the kubelet, %s: evictd acts %s only", scale.list(theirs), scale.list(ours))
	default:
		text = fmt.Sprintf("evictd, %s; the kubelet is the safety net, %s", scale.list(ours), scale.list(theirs))
	}
	if above := scale.above(ours, theirs); fix && above != "" {
		text += "; where the kubelet's cannot be changed, evictionHard " + above + " acts first"
	}
	c.add(string(s), First, fix, "%s", text)
	if !fix && theirs.hard != nil {
		c.gap(s, scale.lowest(ours), theirs.hard)
	}
}

// gap reports whether a program that keeps allocating in the second between its SIGTERM and its
// SIGKILL can cross the kubelet's threshold too. The kubelet would then evict a pod that it has not
// measured yet, such as the program's replacement.
func (c *comparison) gap(s eviction.Signal, ours, theirs *policy.Threshold) {
	fall, scale := c.node.Falls[s], c.node.scale(s)
	if s != eviction.MemoryAvailable || fall == 0 || !scale.known || !ours.Hard() {
		return
	}
	above, below := ours.Value.Of(scale.capacity), theirs.Value.Of(scale.capacity)
	if gap := above.Value() - below.Value(); gap < fall {
		c.add(string(s), First, false, "between evictd's %s and the kubelet's %s there are %s, and %s were taken in a second here: what grows until its SIGKILL crosses both, and the kubelet evicts another pod; leave at least %s",
			ours.Value, theirs.Value, mebi(gap), mebi(fall), mebi(fall))
	}
}

// condition reports whether the API server learns of a shortage in time. Of a disk the kubelet must not
// report early.
func (c *comparison) condition(s eviction.Signal) {
	theirs, scale := c.theirs[s], c.node.scale(s)
	wants, reported := scale.highest(c.ours[s]), scale.highest(theirs)
	if wants == nil {
		return
	}
	b, builtin := eviction.Builtin(s)
	disk := b.Filesystem != ""
	order, known := 0, false
	if reported != nil {
		order, known = scale.compare(reported.Value, wants.Value)
	}
	say := func(fix bool, format string, args ...any) { c.add(string(s), Condition, fix, format, args...) }
	switch own := c.node.OwnConditions; {
	case !builtin && !own:
		say(false, "it is not reported to the API server: the scheduler keeps placing pods here")
	case disk && theirs.soft != nil:
		say(true, "the kubelet reports DiskPressure below %s: a restart of it meanwhile kills running pods", theirs.soft.Value)
	case disk && !own && theirs.hard == nil:
		say(false, "DiskPressure is not reported: the scheduler keeps placing pods here")
	case disk && !own:
		say(false, "DiskPressure is reported below %s, where the kubelet acts; the scheduler does not learn of evictd's %s", theirs.hard.Value, wants.Value)
	case !disk && known && order >= 0:
		say(false, "the kubelet reports %s below %s", b.Condition, reported.Value)
	case c.node.OwnTaints:
		say(false, "evictd reports it below %s, as a condition and a taint of its own below evictd.io/", wants.Value)
	case !disk && reported != nil && !known:
		say(false, "unknown: evictd acts below %s, %s is reported below %s, and the capacity is not known", wants.Value, b.Condition, reported.Value)
	case !disk && reported != nil:
		say(true, "%s is reported below %s only: between that and evictd's %s the scheduler keeps placing pods here", b.Condition, reported.Value, wants.Value)
	case own:
		say(builtin && !disk, "evictd reports it below %s, as a condition of its own below evictd.io/, which keeps no pod away: the scheduler looks at taints", wants.Value)
	default:
		say(true, "%s is not reported: the scheduler keeps placing pods here", b.Condition)
	}
}

// allocatable reports how much the kubelet's hard thresholds subtract from what pods may request
// (pkg/kubelet/cm/helpers.go:hardEvictionReservation).
func (c *comparison) allocatable() {
	c.rests(eviction.MemoryAvailable, "memory", c.node.Reserved.Memory)
	hard := c.theirs[eviction.NodeFsAvailable].hard
	switch r := c.node.Reserved.Storage; {
	case !r.IsZero():
		c.rests(eviction.NodeFsAvailable, "ephemeral-storage", r)
	case hard != nil:
		c.add(string(eviction.NodeFsAvailable), Allocatable, false, "ephemeral-storage: capacity less %s, the kubelet's hard threshold", hard.Value)
	}
}

// rests reports how much of a resource is left for pods to request.
func (c *comparison) rests(s eviction.Signal, name string, reserved resource.Quantity) {
	scale, hard := c.node.scale(s), c.theirs[s].hard
	var now *policy.Value
	text := "nothing, as the kubelet has no hard threshold"
	if hard != nil {
		now, text = &hard.Value, hard.Value.String()+", the kubelet's hard threshold"
	}
	if !scale.known {
		c.add(string(s), Allocatable, false, "%s: capacity less what is reserved, and less %s", name, text)
		return
	}
	sameSum := s == eviction.MemoryAvailable && c.node.Reserved.Static != nil
	if right := safetyNet(c.ours[s], c.theirs[s], scale); !sameSum && scale.rest(right, reserved) != scale.rest(now, reserved) {
		text += "; with the printed settings " + scale.rest(right, reserved)
	}
	c.add(string(s), Allocatable, false, "%s: %s, of %s less %s reserved and less %s", name, scale.rest(now, reserved), mebi(scale.capacity), &reserved, text)
}

// rest returns the amount that pods may request with a hard threshold of the kubelet.
func (s scale) rest(hard *policy.Value, reserved resource.Quantity) string {
	rest := resource.NewQuantity(s.capacity, resource.BinarySI)
	rest.Sub(reserved)
	if hard != nil {
		rest.Sub(hard.Of(s.capacity))
	}
	return mebi(rest.Value())
}

func mebi(n int64) string { return fmt.Sprintf("%dMi", n>>20) }

// restart reports what happens if the kubelet starts while a condition holds: running pods go
// through admission again (pkg/kubelet/eviction/eviction_manager.go:Admit).
func (c *comparison) restart() {
	for _, condition := range []eviction.Condition{eviction.MemoryPressure, eviction.DiskPressure, eviction.PIDPressure} {
		var below []string
		for _, s := range c.signals() {
			b, _ := eviction.Builtin(s)
			if t := c.node.scale(s).highest(c.theirs[s]); b.Condition == condition && t != nil {
				below = append(below, fmt.Sprintf("%s<%s", s, t.Value))
			}
		}
		if below == nil {
			continue
		}
		who := "every running pod but static and critical ones"
		if condition == eviction.MemoryPressure {
			who = "running BestEffort pods that do not tolerate the taint; with another condition beside it every running pod but static and critical ones"
		}
		c.add(string(condition), Restart, false, "while it is reported (%s) a kubelet that is restarted kills %s", strings.Join(below, ", "), who)
	}
}
