package beside

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// by says which side acts.
type by int

const (
	byEvictd by = iota
	byKubelet
	byBoth
)

// A turn is a threshold that is acted on before all others, with its side.
type turn struct {
	by        by
	threshold *policy.Threshold
	// amount is the value of the threshold in the unit of its signal.
	amount float64
}

// before compares when two thresholds are acted on while the signal falls by one of its units in that many seconds: 0 if it
// falls below both at once, infinitely many if it stays between them for ever.
func (t turn) before(other turn, seconds float64) int {
	higher, shorter := cmp.Compare(other.amount, t.amount), cmp.Compare(t.threshold.GracePeriod, other.threshold.GracePeriod)
	switch {
	case seconds == 0:
		return cmp.Or(shorter, higher)
	case math.IsInf(seconds, 1):
		return cmp.Or(higher, shorter)
	default:
		return cmp.Compare(t.threshold.GracePeriod.Seconds()-t.amount*seconds, other.threshold.GracePeriod.Seconds()-other.amount*seconds)
	}
}

// turns returns who acts first in a slow shortage, in a sudden one, and at the paces between them at which that may be another
// side: those at which one side acts on both of its thresholds at once. It returns false if amounts cannot be compared.
func (s scale) turns(ours, theirs levels) (first []turn, known bool) {
	var all []turn
	paces := []float64{math.Inf(1), 0}
	for side, l := range []levels{byEvictd: ours, byKubelet: theirs} {
		var of []turn
		for _, t := range []*policy.Threshold{l.hard, l.soft} {
			if t == nil {
				continue
			}
			if t.Value.IsPercentage && !s.known {
				return nil, false
			}
			amount := t.Value.Of(s.capacity)
			of = append(of, turn{by(side), t, amount.AsApproximateFloat64()})
		}
		if len(of) == 2 && of[1].amount > of[0].amount {
			paces = append(paces, of[1].threshold.GracePeriod.Seconds()/(of[1].amount-of[0].amount))
		}
		all = append(all, of...)
	}
	for _, pace := range paces {
		next := slices.MinFunc(all, func(a, b turn) int { return a.before(b, pace) })
		if slices.ContainsFunc(all, func(t turn) bool { return t.by != next.by && t.before(next, pace) == 0 }) {
			next.by = byBoth
		}
		first = append(first, next)
	}
	return first, true
}

func (t turn) text(s scale) string {
	return [...]string{byEvictd: "evictd", byKubelet: "the kubelet", byBoth: "both"}[t.by] + ", " + s.below(t.threshold)
}

// below describes a threshold, a percentage with its amount.
func (s scale) below(t *policy.Threshold) string {
	text := "below " + t.Value.String()
	if t.Value.IsPercentage && s.known {
		amount := t.Value.Of(s.capacity)
		text += " (" + amountOf(t.Signal, amount.Value()) + ")"
	}
	if !t.Hard() {
		text += " for " + t.GracePeriod.String()
	}
	return text
}

func (s scale) list(l levels) string {
	var all []string
	for _, t := range []*policy.Threshold{l.soft, l.hard} {
		if t != nil {
			all = append(all, s.below(t))
		}
	}
	return strings.Join(all, " and ")
}

// above returns a hard value for evictd above all thresholds of the kubelet, a percentage if one of them or of evictd's is, and
// nothing if none below the capacity is.
func (s scale) above(ours, theirs levels) string {
	highest := s.highest(theirs)
	amount := highest.Value.Of(s.capacity)
	n := amount.Value()
	for _, t := range []*policy.Threshold{ours.hard, ours.soft, highest} {
		if t == nil || !t.Value.IsPercentage {
			continue
		}
		for percent := 1; percent < 100; percent++ {
			v := policy.Value{Percentage: float32(percent) / 100, IsPercentage: true}
			if amount := v.Of(s.capacity); amount.Value() > n {
				return v.String()
			}
		}
		return ""
	}
	least := int64(1)
	if isBytes(highest.Signal) { // which are shown in MiB
		least = 1 << 20
	}
	if n += max(n/10, least); s.known && n >= s.capacity {
		return ""
	}
	return amountOf(highest.Signal, n)
}

func isBytes(s eviction.Signal) bool {
	b, _ := eviction.Builtin(s)
	return b.Unit == eviction.UnitBytes
}

func amountOf(s eviction.Signal, n int64) string {
	if isBytes(s) {
		return mebi(n)
	}
	return strconv.FormatInt(n, 10)
}
