package tell

import (
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/decision/whatif"
	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/shared/eviction"
)

// maxWhy bounds the reason of a ranker, so that the whole line fits into an annotation.
const maxWhy = 120

// Why returns in one line for the owner of the pod that goes first why it does: how much more it took
// in a time, 0 if that is not known, what its request has to do with it, and which one would have spared
// it. It names no other pod, which may be another owner's.
func Why(d *decision.Decision, grown int64, in time.Duration) string {
	signal, rows := ranking(d)
	if len(rows) == 0 {
		return ""
	}
	var parts []string
	pod := rows[0]
	if grown > 0 {
		parts = append(parts, fmt.Sprintf("took %s more in %v", AmountIn(d, signal, grown), in.Round(time.Second)))
	}
	b, _ := eviction.Builtin(signal)
	switch custom := d.Ranker != nil && d.Ranker.Custom; {
	case custom && pod.Reason != "":
		reason := input.Printable(pod.Reason)
		parts = append(parts, strings.ToValidUTF8(reason[:min(len(reason), maxWhy)], ""))
	case custom:
	case pod.State != "":
		parts = append(parts, "its use is not known")
	case b.Unit != eviction.UnitBytes || pod.Usage <= pod.request:
		parts = append(parts, "uses "+AmountIn(d, signal, pod.Usage))
	case pod.request == 0:
		parts = append(parts, fmt.Sprintf("uses %s without a request", AmountIn(d, signal, pod.Usage)))
	default:
		parts = append(parts, "exceeds its request by "+AmountIn(d, signal, pod.Usage-pod.request))
	}
	why := strings.Join(parts, ", ")
	if b.Unit == eviction.UnitBytes && pod.Usage > pod.request {
		if spared, err := whatif.Spares(d, whatif.Change{What: whatif.Request}, pod.Usage); err == nil && spared {
			why += "; a request of " + atLeast(pod.Usage) + " would have spared it"
		}
	}
	return why
}
