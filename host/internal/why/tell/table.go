package tell

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
)

// Same is a cell that repeats the one above it and shows as empty; an empty cell shows as "-".
const Same = " "

// Table aligns rows, the first of which is the heading.
func Table(rows [][]string) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if row[i] = printable.Text(cell); cell == "" {
				row[i] = "-"
			}
		}
		_, _ = io.WriteString(w, strings.Join(row, "\t")+"\n") // to memory
	}
	_ = w.Flush()
	return b.Bytes()
}

// FurtherTable returns a table to follow another one, nil if it has no rows.
func FurtherTable(heading []string, rows [][]string) []byte {
	if len(rows) == 0 {
		return nil
	}
	return append([]byte("\n"), Table(slices.Concat([][]string{heading}, rows))...)
}

// Followed describes the outcome of a decision, or why no pod is evicted.
func Followed(h *decision.Head) string {
	o := h.Outcome
	switch {
	case h.By != "":
		return printable.Shown(strings.TrimSpace(h.Message))
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
