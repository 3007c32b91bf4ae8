package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// noStats is the state of a pod of which the figures' source knows nothing.
const noStats = "no stats"

// ranking shows the candidates, first to go first, and what put each of them
// before the next.
func (w *timeline) ranking(pass *loop.PassResult) {
	if len(pass.Ranking) == 0 {
		return
	}
	var signal eviction.Signal
	if pass.Chosen >= 0 && pass.Chosen < len(pass.Thresholds) {
		signal = pass.Thresholds[pass.Chosen].Signal
	}
	own := pass.Custom[signal]
	w.line("ranking", "of %s by %s", count(len(pass.Ranking), "candidate"), pass.Ranker)
	amounts := func(p loop.RankedPod) (usage, req string) {
		return AmountOf(own, signal, p.Usage), request(own, signal, p)
	}
	why := func(a, b loop.RankedPod) string {
		if !kubelets(pass.Ranker) {
			return cmp.Or(a.Reason, "the ranker's own choice")
		}
		return DecidedBy(signal, a, b)
	}
	for _, line := range RankingTable(pass.Ranking, amounts, why) {
		w.line("ranking", "%s", line)
	}
	if reason := pass.Ranking[0].Reason; reason != "" {
		w.line("ranking", "%s is first: %s", pass.Ranking[0].Pod, reason)
	}
}

// RankingTable are the first of rows, in their order, as lines of a table: what they use and
// request by amounts, and why each is before the next.
func RankingTable(rows []loop.RankedPod, amounts func(loop.RankedPod) (usage, request string), why func(a, b loop.RankedPod) string) (lines []string) {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "\tPOD\tPRIORITY\tUSAGE\tREQUEST\tBEFORE THE NEXT BY\n")
	for i, p := range rows[:min(len(rows), rankedShown)] {
		key := "-"
		if i+1 < len(rows) {
			key = why(p, rows[i+1])
		}
		usage, request := amounts(p)
		if p.State == noStats || p.State == decision.StateUnknown {
			usage = p.State
		}
		_, _ = fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\n", i+1, oneLine(p.Pod), p.Priority, oneLine(usage), oneLine(request), oneLine(key))
	}
	_ = t.Flush() // to memory
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	if more := len(rows) - rankedShown; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// kubelets reports whether who ranked goes by the kubelet's keys. A custom ranker's
// order may agree with them by chance, and has reasons of its own.
func kubelets(ranker string) bool {
	return slices.Contains([]string{"memory", "disk", "pid", oracle, ""}, ranker)
}

// A key is what rankers look at, one after the other, with who goes first by it:
// the first pod if it is negative.
type key struct {
	name  string
	order int
}

// DecidedBy names the first of the kubelet's keys that tells a from b. Other
// rankers have reasons of their own.
func DecidedBy(signal eviction.Signal, a, b loop.RankedPod) string {
	for _, k := range keys(signal, a, b) {
		switch {
		case k.order < 0:
			return k.name
		case k.order > 0:
			return "the ranker's own choice"
		}
	}
	if _, builtin := eviction.Builtin(signal); !builtin {
		return "QoS class, or the order of the pods: all else is equal"
	}
	return "the order of the pods, all else is equal"
}

func keys(signal eviction.Signal, a, b loop.RankedPod) []key {
	known := key{"no figures of it", policy.TrueFirst(a.State == noStats, b.State == noStats)}
	measured := key{"its use is known", policy.TrueFirst(a.State != decision.StateUnknown, b.State != decision.StateUnknown)}
	priority := key{"lower priority", cmp.Compare(int64(a.Priority), int64(b.Priority))}
	if _, builtin := eviction.Builtin(signal); !builtin {
		return []key{priority, known, measured, {"larger use", cmp.Compare(b.Usage, a.Usage)}}
	}
	if signal == eviction.PIDAvailable {
		return []key{priority, known, measured, {"more processes", cmp.Compare(b.Usage, a.Usage)}}
	}
	exceeds := key{"uses more than it requests", policy.TrueFirst(a.Usage > a.Request, b.Usage > b.Request)}
	excess := key{"more usage beyond its request", cmp.Compare(b.Usage-b.Request, a.Usage-a.Request)}
	if inodes(signal) {
		// The kubelet has no requests of inodes and takes off the one of bytes.
		exceeds.name = "uses inodes"
		excess = key{"more inodes less its request of bytes", cmp.Compare(b.Usage-b.LessBytes, a.Usage-a.LessBytes)}
	}
	return []key{known, exceeds, priority, measured, excess}
}

func inodes(signal eviction.Signal) bool {
	d, _ := eviction.Builtin(signal)
	return d.Unit == eviction.UnitInodes
}

// request shows what usage is compared with.
func request(own *loop.CustomSignal, signal eviction.Signal, p loop.RankedPod) string {
	if inodes(signal) {
		return bytesText(p.LessBytes)
	}
	return AmountOf(own, signal, p.Request)
}
