package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/why/tell"
)

// observation formats a signal's figures.
func observation(d *decision.Decision, s decision.Observation) string {
	text := string(s.Signal) + " "
	if s.State != decision.StateObserved {
		text += s.State
	} else {
		text += fmt.Sprintf("%s of %s", tell.AmountIn(d, s.Signal, s.Available), tell.AmountIn(d, s.Signal, s.Capacity))
		if s.Capacity > 0 {
			text += fmt.Sprintf(" (%.4g%%)", 100*float64(s.Available)/float64(s.Capacity))
		}
	}
	if s.Err != "" {
		text += ": " + s.Err
	}
	return text
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.999") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine keeps texts of a file from breaking lines or the terminal. It preserves our own leading
// line feeds.
func oneLine(s string) string {
	own := len(s) - len(strings.TrimLeft(s, "\n"))
	return s[:own] + printable.Text(s[own:])
}
