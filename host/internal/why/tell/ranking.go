package tell

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// rankedShown bounds the pods of a ranking that are shown.
const rankedShown = 10

// A ranked is a candidate with its place.
type ranked struct {
	*decision.Candidate

	// request is in the unit of the signal, 0 if that has none. subtracted is what the kubelet's
	// order subtracts from the use: for inodes the ephemeral-storage request in bytes.
	request, subtracted int64
}

func ranking(d *decision.Decision) (signal eviction.Signal, rows []ranked) {
	if t := d.Acted(); t != nil {
		signal = t.Signal
	}
	for _, at := range d.Order {
		c := &d.Candidates[at]
		as := c.Ranked(signal)
		rows = append(rows, ranked{c, rank.Request(&as, signal), rank.Subtracted(&as, signal)})
	}
	return signal, rows
}

// Ranking returns the first candidates in their order as lines of a table, each with the reason why
// it precedes the next one.
func Ranking(d *decision.Decision) (lines []string) {
	rows := rankingTable(d, rankedShown)
	if rows == nil {
		return nil
	}
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, row := range rows {
		for n, cell := range row {
			if row[n] = printable.Text(cell); i == 0 {
				row[n] = strings.ToUpper(cell)
			}
		}
		_, _ = fmt.Fprintf(t, "%s\n", strings.Join(row, "\t"))
	}
	_ = t.Flush() // to memory
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if more := len(d.Order) - rankedShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// rankingTable returns the first candidates in their order, below a heading, each with the reason why it precedes
// the next one; nil if there are none.
func rankingTable(d *decision.Decision, most int) [][]string {
	signal, rows := ranking(d)
	if len(rows) == 0 {
		return nil
	}
	table := [][]string{{"", "pod", "priority", "usage", "request", "before the next by"}}
	for i, p := range rows[:min(len(rows), most)] {
		key := "-"
		if i+1 < len(rows) {
			key = deciding(d, signal, p, rows[i+1])
		}
		usage, request := format.Usage(d, signal, p.Candidate, p.Usage), format.AmountIn(d, signal, p.request)
		if p.State == decision.StateNoStats || p.State == decision.StateUnknown {
			usage = p.State
		}
		if inodes(signal) {
			request = format.Bytes(p.subtracted)
		}
		table = append(table, []string{strconv.Itoa(i + 1), p.Pod, strconv.Itoa(int(p.Priority)), usage, request, key})
	}
	return table
}

// first explains why the first pod of the order is first, empty if there is none.
func first(d *decision.Decision) string {
	signal, rows := ranking(d)
	switch len(rows) {
	case 0:
		return ""
	case 1:
		return rows[0].Pod + " is the only one that could go"
	default:
		return fmt.Sprintf("%s is before %s by: %s", rows[0].Pod, rows[1].Pod, deciding(d, signal, rows[0], rows[1]))
	}
}

// A key is one of the criteria that rankers compare in turn. A negative order puts the first pod first.
type key struct {
	name  string
	order int
}

// deciding names the first of the kubelet's keys that distinguishes a from b.
func deciding(d *decision.Decision, signal eviction.Signal, a, b ranked) string {
	const own = "the ranker's own choice"
	if d.Ranker != nil && d.Ranker.Custom {
		return cmp.Or(a.Reason, own)
	}
	for _, k := range keys(signal, a, b) {
		switch {
		case k.order < 0:
			return k.name
		case k.order > 0:
			return own
		}
	}
	if _, builtin := eviction.Builtin(signal); !builtin {
		return "QoS class, or the order of the pods: all else is equal"
	}
	return "the order of the pods, all else is equal"
}

func keys(signal eviction.Signal, a, b ranked) []key {
	known := key{"no figures of it", policy.TrueFirst(a.State == decision.StateNoStats, b.State == decision.StateNoStats)}
	measured := key{"its use is known", policy.TrueFirst(a.State != decision.StateUnknown, b.State != decision.StateUnknown)}
	priority := key{"lower priority", cmp.Compare(int64(a.Priority), int64(b.Priority))}
	if _, builtin := eviction.Builtin(signal); !builtin {
		return []key{priority, known, measured, {"larger use", cmp.Compare(b.Usage, a.Usage)}}
	}
	if signal == eviction.PIDAvailable {
		return []key{priority, known, measured, {"more processes", cmp.Compare(b.Usage, a.Usage)}}
	}
	exceeds := key{"uses more than it requests", policy.TrueFirst(a.Usage > a.request, b.Usage > b.request)}
	excess := key{"more usage beyond its request", cmp.Compare(b.Usage-b.subtracted, a.Usage-a.subtracted)}
	if inodes(signal) {
		// The kubelet has no inode requests and subtracts the request in bytes.
		exceeds.name, excess.name = "uses inodes", "more inodes less its request of bytes"
	}
	return []key{known, exceeds, priority, measured, excess}
}

func inodes(signal eviction.Signal) bool {
	d, _ := eviction.Builtin(signal)
	return d.Unit == eviction.UnitInodes
}
