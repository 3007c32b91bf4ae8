package tell

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
)

// Order describes the order in which pods would be evicted now.
func Order(r *decision.Decision) []byte {
	w := &text{r: r}
	w.now()
	w.whyIt()
	return w.b.Bytes()
}

// Now describes for each threshold how far it is from being acted on and which pod would then be
// evicted, the nearest first. There is one ranking per signal, all by the same evictd.
func Now(rankings []*decision.Decision) []byte {
	var out []byte
	slices.SortStableFunc(rankings, func(a, b *decision.Decision) int { return cmp.Compare(distance(a), distance(b)) })
	for _, r := range rankings {
		w := &text{r: r}
		w.now()
		w.line("would go", "%s", w.wouldGo())
		out = append(out, w.b.Bytes()...)
	}
	return out
}

// distance returns how far a ranking's signal is from its threshold, as a part of its capacity.
func distance(r *decision.Decision) float64 {
	t := r.Acted()
	if t == nil {
		return math.Inf(1)
	}
	amount, known := amountOf(r, t)
	o := r.Observation(t.Signal)
	if !known || o.Capacity <= 0 {
		return math.Inf(1)
	}
	return float64(o.Available-amount) / float64(o.Capacity)
}

func (w *text) wouldGo() string {
	why, at := first(w.r), w.r.Observation(w.signal())
	switch {
	case at == nil || at.State != decision.StateObserved:
		return "no pod: without a figure the threshold has no effect"
	case why == "":
		return "no pod: " + cmp.Or(w.r.Reason, "no pod can go")
	case w.r.Reason != "":
		return why + ", but it " + w.r.Reason
	default:
		return why
	}
}

// now describes the state of a ranking's signal.
func (w *text) now() {
	signal := w.signal()
	w.b.WriteString(printable.ClipText(fmt.Sprintf("%s  %s on %s", format.Stamp(w.r.Time), signal, w.r.Node)) + "\n")
	for i := range w.r.Thresholds {
		if t := &w.r.Thresholds[i]; t.Signal == signal {
			if text, ok := w.stands(t); ok {
				w.line("threshold", "%s", text)
			}
		}
	}
}
