package tell

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
)

// Followed describes the outcome of a decision, or why no pod is evicted.
func Followed(h *decision.Head) string {
	o := h.Outcome
	switch {
	case o == nil:
		return h.Reason
	case o.GoneMS > 0:
		return fmt.Sprintf("gone after %v", shortly(o.GoneMS))
	case o.Err != "":
		return "kill failed: " + o.Err
	default:
		return o.State
	}
}

// shortly rounds milliseconds for display.
func shortly(ms float64) time.Duration {
	d := time.Duration(ms * float64(time.Millisecond))
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
