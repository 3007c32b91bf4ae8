package tell

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/why/tell/format"
	"github.com/evictd/evictd/host/internal/why/whatif"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// maxWhy bounds the reason of a ranker, in bytes, so that the whole line fits into an annotation.
const maxWhy = 120

// Why explains the eviction of the first pod to its owner in one line: how much its usage grew in a
// time (0 if unknown), the role of its request, the largest parts of its use of a disk, and what would
// have spared it. It names no other pod, which may have another owner.
func Why(d *decision.Decision, grown int64, in time.Duration) string {
	acted := d.Acted()
	if acted == nil || len(d.Order) == 0 {
		return ""
	}
	signal, pod := acted.Signal, &d.Candidates[d.Order[0]]
	as := pod.Ranked(signal)
	request := rank.Request(&as, signal)
	var parts []string
	if grown > 0 {
		parts = append(parts, fmt.Sprintf("took %s more in %v", format.AmountIn(d, signal, grown), max(in, time.Second).Round(time.Second)))
	}
	b, _ := eviction.Builtin(signal)
	spared := sparedBy(d)
	if n := min(len(pod.Parts), partsTold); n > 0 {
		spared = " (" + partsText(d, signal, pod.Parts[:n]) + ")" + spared
	}
	switch custom := d.Ranker != nil && d.Ranker.Custom; {
	case custom && pod.Reason != "":
		reason := printable.Text(pod.Reason)
		parts = append(parts, strings.ToValidUTF8(reason[:min(len(reason), maxWhy)], ""))
	case custom:
	case pod.Err != "":
		parts = append(parts, "its use is not known: "+printable.Text(printable.ClipText(pod.Err)))
	case pod.State != "":
		parts = append(parts, "its use is not known")
	case b.Unit != eviction.UnitBytes || pod.Usage <= request:
		parts = append(parts, fmt.Sprintf("uses %s%s", usageText(d, signal, pod, pod.Usage), spared))
	case request == 0:
		parts = append(parts, fmt.Sprintf("uses %s without a request%s", usageText(d, signal, pod, pod.Usage), spared))
	default:
		parts = append(parts, fmt.Sprintf("exceeds its request by %s%s", usageText(d, signal, pod, pod.Usage-request), spared))
	}
	return strings.Join(parts, ", ")
}

// partsTold bounds the parts of a use that are told to a pod's owner.
const partsTold = 3

// partsText lists parts of a pod's use: "2.93Gi in emptyDir scratch, 4Ki in logs".
func partsText(d *decision.Decision, signal eviction.Signal, parts []decision.Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = format.AmountIn(d, signal, p.Used) + " in " + printable.Text(p.Name)
	}
	return strings.Join(texts, ", ")
}

// usageText returns an amount of a pod's use, which may be a lower bound.
func usageText(d *decision.Decision, signal eviction.Signal, pod *decision.Candidate, amount int64) string {
	text := format.AmountIn(d, signal, amount)
	if pod.AtMost > 0 {
		text = "at least " + text
	}
	return text
}

// sparedBy returns the advice, without names of other pods.
func sparedBy(d *decision.Decision) string {
	if a := whatif.Advise(d); a.Text != "" {
		return "; " + a.Text
	}
	return ""
}

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
