package tell

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

// Amount formats n in the unit of a signal; custom defines the signal if it is not the kubelet's.
func Amount(custom *decision.CustomSignal, signal eviction.Signal, n int64) string {
	d, _ := eviction.Builtin(signal)
	switch {
	case custom == nil && d.Unit == eviction.UnitBytes:
		return bytesText(n)
	case custom == nil:
		return strconv.FormatInt(n, 10)
	}
	text := resource.NewQuantity(n, resource.Format(custom.Format)).String()
	if custom.Format == eviction.FormatBinarySI {
		text = bytesText(n)
	}
	if custom.Unit == eviction.UnitBytes {
		return text
	}
	return text + " " + string(custom.Unit)
}

// AmountIn formats n in the unit of a signal of d.
func AmountIn(d *decision.Decision, signal eviction.Signal, n int64) string {
	for i := range d.Thresholds {
		if t := &d.Thresholds[i]; t.Signal == signal {
			return Amount(t.Custom, signal, n)
		}
	}
	return Amount(nil, signal, n)
}

// bytesText formats n with at most two decimals.
func bytesText(n int64) string { return byteUnit(float64(n)).text(float64(n), 2) }

// A unit is one of bytes, such as Gi, or none.
type unit struct {
	size float64
	name string
}

// byteUnit returns the largest unit that is not above n.
func byteUnit(n float64) unit {
	u := unit{size: 1}
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		if math.Abs(n) < 1024*u.size {
			break
		}
		u = unit{1024 * u.size, next}
	}
	return u
}

// text formats n in u with at most so many decimals, of which there is at least one.
func (u unit) text(n float64, decimals int) string {
	text := strconv.FormatFloat(n/u.size, 'f', decimals, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + u.name
}

// step returns a round amount of at least least: 1, 2, 4 or 5 times a power of ten units.
func (u unit) step(least float64) float64 {
	if u.name == "" {
		least = max(1, least)
	}
	power := u.size * math.Pow(10, math.Floor(math.Log10(least/u.size)))
	for _, n := range []float64{1, 2, 4, 5} {
		if n*power >= least {
			return n * power
		}
	}
	return 10 * power
}

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
