package tell

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/shared/eviction"
)

func TestWhatDecidedARanking(t *testing.T) {
	pod := func(change func(*decision.Candidate)) decision.Candidate {
		p := decision.Candidate{Usage: 5, MemoryRequest: 5, StorageRequest: 5}
		if change != nil {
			change(&p)
		}
		return p
	}
	unknown := pod(func(p *decision.Candidate) { p.State = decision.StateNoStats })
	important := pod(func(p *decision.Candidate) { p.Priority = 1 })
	large := pod(func(p *decision.Candidate) { p.Usage, p.MemoryRequest, p.StorageRequest = 9, 8, 8 })
	frugal := pod(func(p *decision.Candidate) { p.MemoryRequest, p.StorageRequest = 6, 6 })
	bytes := pod(func(p *decision.Candidate) { p.StorageRequest = 6 })
	files := pod(func(p *decision.Candidate) { p.StorageRequest = 0 })
	hidden := pod(func(p *decision.Candidate) { p.State, p.Usage = "unknown", 0 })
	idle := pod(func(p *decision.Candidate) { p.Usage, p.StorageRequest = 0, 0 })
	for name, c := range map[string]struct {
		signal eviction.Signal
		a, b   decision.Candidate
		want   string
	}{
		"no figures":                    {eviction.MemoryAvailable, unknown, pod(nil), "no figures of it"},
		"more than requested":           {eviction.MemoryAvailable, large, pod(nil), "uses more than it requests"},
		"priority":                      {eviction.NodeFsAvailable, pod(nil), important, "lower priority"},
		"further over the request":      {eviction.NodeFsAvailable, pod(nil), frugal, "more usage beyond its request"},
		"inodes have no request":        {eviction.NodeFsInodesFree, bytes, idle, "uses inodes"},
		"inodes, the bytes requested":   {eviction.NodeFsInodesFree, files, bytes, "more inodes less its request of bytes"},
		"processes":                     {eviction.PIDAvailable, large, pod(nil), "more processes"},
		"processes, priority first":     {eviction.PIDAvailable, pod(nil), important, "lower priority"},
		"processes, no figures":         {eviction.PIDAvailable, unknown, large, "no figures of it"},
		"custom signal, priority first": {"acme.example/spare", pod(nil), important, "lower priority"},
		"custom signal":                 {"acme.example/spare", large, frugal, "larger use"},
		"custom signal, equal":          {"acme.example/spare", pod(nil), pod(nil), "QoS class, or the order of the pods: all else is equal"},
		"use that nobody knows":         {eviction.MemoryAvailable, pod(nil), hidden, "its use is known"},
		"equal":                         {eviction.MemoryAvailable, pod(nil), pod(nil), "the order of the pods, all else is equal"},
		"another ranker":                {eviction.MemoryAvailable, important, pod(nil), "the ranker's own choice"},
	} {
		t.Run(name, func(t *testing.T) {
			c.a.Pod, c.b.Pod = "x/a", "x/b"
			d := &decision.Decision{Thresholds: []decision.Threshold{{Signal: c.signal, Acted: true}}, Candidates: []decision.Candidate{c.a, c.b}, Order: []int{0, 1}}
			if got := first(d); got != "x/a is before x/b by: "+c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAmounts(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0", 1023: "1023", 1024: "1Ki", 1536 << 20: "1.5Gi", -2048: "-2Ki", 1<<63 - 1: "8Ei", -1 << 63: "-8Ei", 1<<30 + 1: "1Gi",
	} {
		if got := format.Amount(nil, eviction.MemoryAvailable, n); got != want {
			t.Errorf("%d bytes: got %q, want %q", n, got, want)
		}
	}
	if got := format.Amount(nil, eviction.PIDAvailable, 32768); got != "32768" {
		t.Errorf("processes: %q", got)
	}
}

// Amounts of custom signals were raw numbers beside thresholds of a few gibibytes.
func TestAmountsOfCustomSignalsHaveTheirFormatAndUnit(t *testing.T) {
	const spare eviction.Signal = "acme.example/spare"
	for want, custom := range map[string]*decision.CustomSignal{
		"3Gi":               {Unit: eviction.UnitBytes, Format: eviction.FormatBinarySI},
		"3Gi pages":         {Unit: "pages", Format: eviction.FormatBinarySI},
		"3221225472 blocks": {Unit: "blocks", Format: eviction.FormatDecimalSI},
		"3221225472":        nil,
	} {
		d := decision.Decision{
			Thresholds: []decision.Threshold{{Signal: spare, Custom: custom, Acted: true}}, Candidates: []decision.Candidate{{Pod: "a/large", Usage: 3 << 30}}, Order: []int{0},
		}
		if got := format.AmountIn(&d, spare, 3<<30); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if text := strings.Join(Ranking(&d), "\n"); !strings.Contains(text, "  "+want+"  ") {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestLongRankingsAreCut(t *testing.T) {
	d := decision.Decision{Candidates: make([]decision.Candidate, rankedShown+3)}
	for i := range d.Candidates {
		d.Order = append(d.Order, i)
	}
	if got := Ranking(&d); len(got) != rankedShown+2 || got[len(got)-1] != "and 3 more" {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// A custom ranker's order may agree with the kubelet's by chance: its own reason is why.
func TestACustomOrderIsExplainedByItsRanker(t *testing.T) {
	d := decision.Decision{Candidates: []decision.Candidate{{Pod: "a/cheap", Reason: "costs 1"}, {Pod: "a/dear", Priority: 5, Reason: "costs 2"}, {Pod: "a/last"}}, Order: []int{0, 1, 2}}
	for custom, want := range map[bool][]string{true: {"costs 1\n", "costs 2\n"}, false: {"lower priority\n", "the ranker's own choice\n"}} {
		d.Ranker = &decision.Ranker{Name: "mine", Custom: custom}
		for _, reason := range want {
			if got := strings.Join(Ranking(&d), "\n"); !strings.Contains(got, reason) {
				t.Errorf("custom %v: no %q in\n%s", custom, reason, got)
			}
		}
	}
}
