package tell

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/host/internal/why/tell/picture"
	"github.com/evictd/evictd/host/internal/why/whatif"
	"github.com/evictd/evictd/shared/eviction"
)

// A pageDecision has the values of the template decision.
type pageDecision struct {
	// Name is the anchor of the decision on the page. Alone: the page has no other decision.
	Name  string
	Alone bool

	Heading, Stamp, Node, Kind shown
	Time                       string // in RFC 3339
	DryRun                     bool
	Head                       []pageLine

	Spared, Said []pageLine
	Others       pageTable

	WhyThen []pageLine
	Picture pagePicture

	WhyIt []pageLine
	// Pods are the pods in their order, what the first pod had, the pods that the ranker left out, and the protected pods.
	Pods []pageTable

	Followed []pageLine
	Timeline pageTable

	Record pageRecord
}

// A pagePicture is a picture with its figures as a table.
type pagePicture struct {
	Drawn   template.HTML
	Figures pageTable
	// Missing says why there is no picture, empty with a picture.
	Missing shown
}

// newPagePicture returns a picture of package picture. It is markup of ours: each text in it, which may be of a pod or
// of a plugin, is escaped by that package.
func newPagePicture(svg []byte, caption string, figures [][]string) pagePicture {
	return pagePicture{Drawn: template.HTML(svg), Figures: newPageTable(caption, figures)} //nolint:gosec // as above
}

// A pageRecord has the facts about a record, and the record itself.
type pageRecord struct {
	Facts []pageLine
	ID    shown
	// Document is a link with the record in it.
	Document template.URL
}

func newPageRecord(d *decision.Decision) pageRecord {
	r := pageRecord{ID: show(d.ID), Facts: pageLines([]labeled{
		{"record", d.ID},
		{"node", d.Node},
		{"evictd", cmp.Or(d.Evictd, "unknown")},
		{"configuration", cmp.Or(d.Config, "unknown")},
		{"explain it", "evictctl explain " + d.ID},
	})}
	if document, err := json.Marshal(d); err == nil {
		// Base64 has no character that could end the link or lead elsewhere.
		r.Document = template.URL("data:application/json;base64," + base64.StdEncoding.EncodeToString(document)) //nolint:gosec // as above
	}
	return r
}

// A pageSection is the heading of a section.
type pageSection struct {
	Heading string
	// Name makes the section a region of the page. It is empty among several decisions, which all have the same sections.
	Name string
}

// Section returns the section with a heading.
func (p pageDecision) Section(heading string) pageSection {
	if !p.Alone {
		return pageSection{Heading: heading}
	}
	return pageSection{heading, strings.ReplaceAll(strings.ToLower(heading), " ", "-")}
}

// shortTitle names the pod and the signal of an eviction, else says what was decided.
func shortTitle(d *decision.Decision) string {
	v := d.Victim
	switch {
	case v == nil || d.Kind == decision.KindPreemption:
		return (&text{r: d}).title()
	case d.Kernel != nil:
		return v.Pod + " killed by the kernel, scope " + d.Kernel.Scope
	case d.By != "":
		return v.Pod + " evicted by " + d.By
	case d.DryRun:
		return v.Pod + " not evicted, dry run: " + v.Signal
	case failed(d.Outcome):
		return v.Pod + " not evicted, its kill failed: " + v.Signal
	default:
		return v.Pod + " evicted: " + v.Signal
	}
}

// firstScreen answers what is asked first of an eviction by evictd.
func firstScreen(d *decision.Decision, now time.Time) []labeled {
	if d.Kernel != nil {
		return []labeled{{"what", (&text{r: d}).title()}}
	}
	if d.Victim == nil || d.Acted() == nil || d.Kind == decision.KindLimit {
		return nil
	}
	all := []labeled{{"what", (&text{r: d}).title()}, {"over", over(d, "the decision", now)}}
	if needed := needed(d); needed != "" {
		all = append(all, labeled{"needed", needed})
	}
	return all
}

func newPageDecision(d *decision.Decision, name string, alone bool, now time.Time) pageDecision {
	w := &text{r: d}
	w.headline()
	heading := shortTitle(d)
	if !alone {
		heading = format.Stamp(d.Time) + "  " + heading
	}
	p := pageDecision{
		Name: name, Alone: alone,
		Heading: show(heading), Stamp: show(format.Stamp(d.Time)), Node: show(d.Node), Kind: show(d.Kind),
		Time: d.Time.UTC().Format(time.RFC3339Nano), DryRun: d.DryRun, Head: pageLines(append(firstScreen(d, now), w.lines...)),
		Spared: lines(d, (*text).spared), Others: othersTable(d),
		WhyThen:  lines(d, (*text).whyNow, (*text).late, (*text).changed, (*text).inputs, (*text).grew, (*text).tried),
		WhyIt:    lines(d, (*text).whyFirst, (*text).inUse),
		Pods:     podTables(d),
		Followed: lines(d, (*text).followed, (*text).neededOrNot), Timeline: newPageTable("Timeline, in milliseconds from the decision", timeline(d)),
		Record: newPageRecord(d),
	}
	signal := d.Head().Signal
	svg, err := drawn(d, fmt.Sprintf("%s before and after the decision, with its thresholds. The figures are in the table below.", signal))
	if err != nil {
		p.Picture.Missing = show(err.Error())
	} else {
		p.Picture = newPagePicture(svg, "Available "+signal+" and use of pods", picture.Figures(d))
	}
	return p
}

// othersTable says when other thresholds and grace periods would have asked for an eviction, and of whom.
func othersTable(d *decision.Decision) pageTable {
	t := d.Acted()
	if t == nil || len(d.Signals) == 0 {
		return pageTable{}
	}
	rows := [][]string{{"threshold", "then"}}
	amount, known := amountOf(d, t)
	other, err := t.Policy()
	for _, percent := range []int64{50, 75, 150, 200} {
		for _, grace := range []time.Duration{0, 30 * time.Second, 2 * time.Minute} {
			other.Value, other.GracePeriod = policy.Value{Quantity: *resource.NewQuantity(max(1, amount/100*percent), resource.BinarySI)}, grace
			if b, _ := eviction.Builtin(t.Signal); b.Unit == eviction.UnitBytes {
				other.Value.Quantity.Set(max(1, amount>>20*percent/100) << 20)
			}
			if e, wrong := whatif.Met(d, []policy.Threshold{other}); known && err == nil && wrong == nil {
				rows = append(rows, []string{other.String(), strings.TrimPrefix(WhatIf(&e), other.String()+" ")})
			}
		}
	}
	return newPageTable("Other thresholds", rows)
}

// podTables returns all candidates in their order, with what the first one had, and the pods that could not go.
func podTables(d *decision.Decision) []pageTable {
	order := rankingTable(d, len(d.Order))
	if order != nil {
		order[0][0] = "place"
	}
	tables := []pageTable{newPageTable("Order, the first to go first", order)}
	if len(d.Order) > 0 {
		first, signal := &d.Candidates[d.Order[0]], (&text{r: d}).signal()
		parts := [][]string{{"what it had", "amount"}}
		for _, part := range first.Parts {
			parts = append(parts, []string{part.Name, format.AmountIn(d, signal, part.Used)})
		}
		tables = append(tables, newPageTable("Volumes, logs and layers of "+first.Pod, parts))
	}
	if d.Ranker != nil && len(d.Candidates) > len(d.Order) {
		left := [][]string{{"left out by " + mayLeaveOut(d)}}
		for _, name := range leftOut(d) {
			left = append(left, []string{name})
		}
		tables = append(tables, newPageTable("Pods that the ranker left out", left))
	}
	protected := [][]string{{"pod", "rule"}}
	for _, pod := range d.Protected {
		protected = append(protected, []string{pod.Pod, pod.Rule})
	}
	return append(tables, newPageTable("Pods that could not go", protected))
}

// timeline returns the steps of a decision, the earliest first.
func timeline(d *decision.Decision) [][]string {
	type step struct {
		ms   float64
		what string
	}
	steps := []step{{0, "decided"}}
	add := func(ms float64, what string) {
		if ms != 0 {
			steps = append(steps, step{ms, what})
		}
	}
	add(d.Timeline.ObservedMS, "node observed")
	add(d.Timeline.BeganMS, "pass began")
	add(d.Timeline.JournalledMS, "kill saved to disk")
	if o := d.Outcome; o != nil {
		add(o.KilledMS, "kill returned")
		add(o.GoneMS, "nothing of the pod ran any more")
		add(o.ReliefMS, "the expected amount was back")
	}
	if t := d.Acted(); t != nil && t.Since != nil {
		add(decision.MS(*t.Since, d.Time), "threshold met")
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.ms, b.ms) })
	rows := [][]string{{"ms", "step"}}
	for _, s := range steps {
		rows = append(rows, []string{strconv.FormatFloat(s.ms, 'f', 1, 64), s.what})
	}
	return rows
}
