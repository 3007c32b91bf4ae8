package replay

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/shared/eviction"
)

// observation tells a signal's figures.
func observation(own *loop.CustomSignal, s decision.Observation) string {
	text := string(s.Signal) + " "
	switch {
	case s.State == decision.StateObserved && s.Capacity > 0:
		text += fmt.Sprintf("%s of %s (%.4g%%)", AmountOf(own, s.Signal, s.Available), AmountOf(own, s.Signal, s.Capacity),
			100*float64(s.Available)/float64(s.Capacity))
	case s.State == decision.StateObserved:
		text += fmt.Sprintf("%s of %s", AmountOf(own, s.Signal, s.Available), AmountOf(own, s.Signal, s.Capacity))
	default:
		text += s.State
	}
	if s.Err != "" {
		text += ": " + s.Err
	}
	return text
}

// amount is n in the unit of the signal.
func amount(signal eviction.Signal, n int64) string {
	d, _ := eviction.Builtin(signal)
	if d.Unit != eviction.UnitBytes {
		return strconv.FormatInt(n, 10)
	}
	return bytesText(n)
}

// AmountOf is n of a signal that may be own, nil for not: in the format and unit of its
// definition.
func AmountOf(own *loop.CustomSignal, signal eviction.Signal, n int64) string {
	if own == nil {
		return amount(signal, n)
	}
	text := resource.NewQuantity(n, resource.Format(own.Format)).String()
	if own.Format == eviction.FormatBinarySI {
		text = bytesText(n)
	}
	if own.Unit == eviction.UnitBytes {
		return text
	}
	return text + " " + string(own.Unit)
}

// bytesText has at most two digits after the point.
func bytesText(n int64) string {
	value, unit := float64(n), ""
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		if -1024 < value && value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	text := strconv.FormatFloat(value, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + unit
}

// percent makes "10%" of "0.1".
func percent(part string) string {
	f, err := strconv.ParseFloat(part, 32)
	if err != nil {
		return part
	}
	return strconv.FormatFloat(float64(float32(f)*100), 'g', 6, 32) + "%"
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.999") }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine keeps texts of a file from breaking lines or the terminal. Line feeds
// of our own come first.
func oneLine(s string) string {
	own := len(s) - len(strings.TrimLeft(s, "\n"))
	return s[:own] + input.Printable(s[own:])
}
