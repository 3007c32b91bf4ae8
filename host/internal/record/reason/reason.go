// Package reason explains an eviction to the owner of the pod in one line, for its annotation and log.
package reason

import (
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
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
		spared = " (" + format.Parts(d, signal, pod.Parts[:n]) + ")" + spared
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
		parts = append(parts, fmt.Sprintf("uses %s%s", format.Usage(d, signal, pod, pod.Usage), spared))
	case request == 0:
		parts = append(parts, fmt.Sprintf("uses %s without a request%s", format.Usage(d, signal, pod, pod.Usage), spared))
	default:
		parts = append(parts, fmt.Sprintf("exceeds its request by %s%s", format.Usage(d, signal, pod, pod.Usage-request), spared))
	}
	return strings.Join(parts, ", ")
}

// partsTold bounds the parts of a use that are told to a pod's owner.
const partsTold = 3

// sparedBy returns the advice, without names of other pods.
func sparedBy(d *decision.Decision) string {
	if a := Advise(d); a.Text != "" {
		return "; " + a.Text
	}
	return ""
}
