// Package format formats amounts of signals and times for people.
package format

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
)

// Amount formats n in the unit of a signal; custom defines the signal if it is not the kubelet's.
func Amount(custom *decision.CustomSignal, signal eviction.Signal, n int64) string {
	d, _ := eviction.Builtin(signal)
	switch {
	case custom == nil && d.Unit == eviction.UnitBytes:
		return Bytes(n)
	case custom == nil:
		return strconv.FormatInt(n, 10)
	}
	text := resource.NewQuantity(n, resource.Format(custom.Format)).String()
	if custom.Format == eviction.FormatBinarySI {
		text = Bytes(n)
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

// Parts lists parts of a pod's use: "2.93Gi in emptyDir scratch, 4Ki in logs".
func Parts(d *decision.Decision, signal eviction.Signal, parts []decision.Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = AmountIn(d, signal, p.Used) + " in " + printable.Text(p.Name)
	}
	return strings.Join(texts, ", ")
}

// Usage returns an amount of a pod's use, which may be a lower bound.
func Usage(d *decision.Decision, signal eviction.Signal, pod *decision.Candidate, amount int64) string {
	text := AmountIn(d, signal, amount)
	if pod.AtMost > 0 {
		text = "at least " + text
	}
	return text
}

// Figure tells which figure of memory.available o has, and what the other one is; "" if o does not have both.
func Figure(o *decision.Observation) string {
	kubelet, memAvailable, ok := figures.BothMemory(o.Capacity, o.Components)
	switch {
	case !ok || kubelet == memAvailable:
		return ""
	case o.Available == kubelet:
		return fmt.Sprintf(" (the kubelet's figure; MemAvailable: %s)", Bytes(memAvailable))
	default:
		return fmt.Sprintf(" (MemAvailable; the kubelet's figure: %s)", Bytes(kubelet))
	}
}

// Bytes formats n in bytes with at most two decimals.
func Bytes(n int64) string { return ByteUnit(float64(n)).Text(float64(n), 2) }

// A Unit is one of bytes, such as Gi, or none.
type Unit struct {
	Size float64
	Name string
}

// ByteUnit returns the largest unit that is not above n.
func ByteUnit(n float64) Unit {
	u := Unit{Size: 1}
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		if math.Abs(n) < 1024*u.Size {
			break
		}
		u = Unit{1024 * u.Size, next}
	}
	return u
}

// Text formats n in u with at most so many decimals, of which there is at least one.
func (u Unit) Text(n float64, decimals int) string {
	text := strconv.FormatFloat(n/u.Size, 'f', decimals, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") + u.Name
}

// Step returns a round amount of at least least: 1, 2, 4 or 5 times a power of ten units.
func (u Unit) Step(least float64) float64 {
	if u.Name == "" {
		least = max(1, least)
	}
	power := u.Size * math.Pow(10, math.Floor(math.Log10(least/u.Size)))
	for _, n := range []float64{1, 2, 4, 5} {
		if n*power >= least {
			return n * power
		}
	}
	return 10 * power
}

// Counted returns a number of things: "1 pod", "2 pods".
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

// Stamp formats a time with its day.
func Stamp(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

// Clock formats the time of the day.
func Clock(t time.Time) string { return t.UTC().Format("15:04:05.999") }

// startsWithin is the time in ms after a start of evictd in which the first start of each plugin belongs to it.
const startsWithin = 5000

// Marks returns marks without the starts of plugins that belong to a start of evictd.
func Marks(all []decision.Mark) (out []decision.Mark) {
	started, seen := math.Inf(-1), map[string]bool{}
	for _, m := range all {
		if m.What == decision.MarkStart && m.MS-started > startsWithin { // not what the start changes
			started, seen = m.MS, map[string]bool{}
		}
		if first := !seen[m.Text] && strings.HasSuffix(m.Text, " started"); m.What != decision.MarkPlugin || !first || m.MS-started > startsWithin {
			out = append(out, m)
		}
		seen[m.Text] = true
	}
	return out
}
