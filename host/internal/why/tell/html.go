package tell

import (
	"bytes"
	"cmp"
	_ "embed" // the style sheet
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/why/tell/format"
	"github.com/evictd/evictd/host/internal/why/tell/picture"
	"github.com/evictd/evictd/host/internal/why/whatif"
	"github.com/evictd/evictd/shared/eviction"
)

//go:embed style.css
var style string

// Bounds of a page: pods of a table, decisions told in full, and pictures of episodes.
const rowsShown, decisionsShown, coursesShown = 200, 50, 8

// HTML describes decisions as one page without scripts and without anything to load: of one all that Text has,
// with its picture, of several also what Episode has. said is the output of If, which may be empty.
func HTML(all []*decision.Decision, said []byte, now time.Time) []byte {
	p := &page{}
	p.raw(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>` +
		`<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>`)
	p.element("title", "", "evictd: "+titleOf(all))
	p.raw("<style>" + style + "</style></head><body>\n")
	p.raw("<main>\n")
	p.decisions(all, said, now)
	p.raw("</main>\n</body></html>\n")
	return p.b.Bytes()
}

// A page is written as HTML. What is not raw is escaped.
type page struct {
	b bytes.Buffer
	// several: the page has several decisions, each with its sections.
	several bool
}

// titleOf names decisions.
func titleOf(all []*decision.Decision) string {
	if len(all) > 1 {
		return format.Counted(len(all), "decision") + " on " + all[0].Node
	}
	return (&text{r: all[0]}).title()
}

// decisions writes about decisions, with their heading.
func (p *page) decisions(all []*decision.Decision, said []byte, now time.Time) {
	if len(all) > 1 {
		p.episode(all, now)
	}
	for i := max(0, len(all)-decisionsShown); i < len(all); i++ {
		var of []byte
		if i == 0 {
			of = said
		}
		p.decision(all[i], of, letter(i), len(all) == 1)
	}
}

func (p *page) raw(text string) { p.b.WriteString(text) }

// element writes an element with text in it. attributes are raw.
func (p *page) element(tag, attributes, text string) {
	fmt.Fprintf(&p.b, "<%s%s>%s</%s>\n", tag, attributes, escaped(text), tag)
}

func escaped(text string) string { return html.EscapeString(printable.ClipText(text)) }

// section writes a heading and what write adds. It is a region of that name, unless each of several decisions has one.
func (p *page) section(heading string, write func()) {
	if p.several {
		p.raw("<section>")
		p.element("h3", "", heading)
	} else {
		name := strings.ReplaceAll(strings.ToLower(heading), " ", "-")
		fmt.Fprintf(&p.b, `<section aria-labelledby="%s">`, name)
		p.element("h2", ` id="`+name+`"`, heading)
	}
	write()
	p.raw("</section>\n")
}

// list writes lines with their labels. Lines of one label stand together.
func (p *page) list(lines []labeled) {
	if len(lines) == 0 {
		return
	}
	p.raw("<dl>\n")
	former := ""
	for _, l := range lines {
		if l.label != former {
			p.element("dt", "", l.label)
		}
		former = l.label
		if strings.Contains(l.text, "resources: {") {
			p.raw("<dd>")
			p.element("pre", "", l.text)
			p.raw("</dd>\n")
			continue
		}
		p.element("dd", "", l.text)
	}
	p.raw("</dl>\n")
}

// table writes rows, the first of which is the heading, in a group that scrolls by itself. Columns of amounts stand
// on the right. link, if not nil, returns where on the page a cell leads, empty for nowhere.
func (p *page) table(caption string, rows [][]string, link func(row, column int) string) {
	if len(rows) < 2 {
		return
	}
	fmt.Fprintf(&p.b, `<div class="table" tabindex="0" role="group" aria-label="%s"><table>`, escaped(caption))
	p.element("caption", "", caption)
	amounts, long := amountColumns(rows), longColumns(rows)
	for i, row := range rows[:min(len(rows), rowsShown+1)] {
		tag, attributes := "td", ""
		if i == 0 {
			tag, attributes = "th", ` scope="col"`
		}
		p.raw("<tr>")
		for at, cell := range row {
			if link != nil && i > 0 && link(i, at) != "" {
				fmt.Fprintf(&p.b, `<td><a href="%s">%s</a></td>`+"\n", escaped(link(i, at)), escaped(cell))
				continue
			}
			p.element(tag, attributes+map[bool]string{true: ` class="amount"`}[amounts[at]]+map[bool]string{true: ` class="long"`}[long[at]], cmp.Or(cell, "-"))
		}
		p.raw("</tr>\n")
	}
	p.raw("</table></div>\n")
	if more := len(rows) - 1 - rowsShown; more > 0 {
		p.element("p", "", fmt.Sprintf("and %d more", more))
	}
}

// amount matches an amount with its unit.
var amount = regexp.MustCompile(`^-?[0-9.]+([KMGTPE]i?)?%?( \S{1,12})?$`)

// amountColumns reports for each column whether it has amounts alone, below the heading.
func amountColumns(rows [][]string) []bool {
	columns := make([]bool, len(rows[0]))
	for at := range columns {
		columns[at] = !slices.ContainsFunc(rows[1:], func(row []string) bool {
			return row[at] != "" && row[at] != "-" && !amount.MatchString(row[at])
		})
	}
	return columns
}

// longColumns reports for each column whether a cell has a sentence.
func longColumns(rows [][]string) []bool {
	columns := make([]bool, len(rows[0]))
	for at := range columns {
		columns[at] = slices.ContainsFunc(rows[1:], func(row []string) bool { return len(row[at]) > 60 && strings.Contains(row[at], " ") })
	}
	return columns
}

// episode writes the head of several decisions, with a row for each.
func (p *page) episode(all []*decision.Decision, now time.Time) {
	w, heads := episodeHead(all, now)
	p.element("h1", "", w.heading)
	p.section("At a glance", func() { p.list(w.lines) })
	if at := slices.IndexFunc(all, func(d *decision.Decision) bool { return d.Acted() != nil }); at >= 0 {
		p.others(all[at], "What if the threshold or its grace period had been another before the first of them")
	}
	p.storms(heads)
	p.section("Course", func() { p.courses(all, heads) })
	rows := [][]string{{"letter", "time", "pod", "owner", "signal", "decision", "used", "requested", "came back", "before the next by", "what followed", "why not earlier, needed or not", "would have spared it", "record"}}
	for i, d := range all {
		w, h, asked, before := &text{r: d}, &heads[i], "", ""
		if order := rankingTable(d, 1); order != nil && d.Victim != nil {
			asked, before = order[1][4], order[1][5]
		}
		when := slices.DeleteFunc([]string{w.notEarlier(), needed(d)}, func(s string) bool { return s == "" })
		rows = append(rows, []string{
			letter(i), format.Clock(d.Time), h.Pod, h.OwnerName(), h.Signal, w.title(), amountOrNone(d, h.Used), asked, releasedText(d), before, followed(h), strings.Join(when, "; "), whatif.Advise(d).Text, d.ID,
		})
	}
	p.section("Who went", func() {
		p.table("Decisions, the oldest first", rows, func(row, column int) string {
			if row <= len(all)-decisionsShown || column != 0 {
				return ""
			}
			return "#" + letter(row-1)
		})
	})
}

// storm is the number of an owner's pods evicted in one episode from which storms shows the owner.
const storm = 3

// storms writes a table of the owners of which many pods were evicted in one episode. The heads are the oldest first.
func (p *page) storms(heads []decision.Head) {
	groups, seen, keys := map[string][]*decision.Head{}, map[string]bool{}, []string(nil)
	for i := range heads {
		h := &heads[i]
		key := h.Episode + " " + h.OwnerName()
		if h.OwnerName() == "" || h.UID == "" || h.DryRun || seen[key+" "+h.UID] { // one whose kill failed is evicted again
			continue
		}
		seen[key+" "+h.UID] = true
		if groups[key] = append(groups[key], h); len(groups[key]) == storm {
			keys = append(keys, key)
		}
	}
	rows := [][]string{{"owner", "evictions", "from", "until", "episode"}}
	for _, key := range keys {
		g := groups[key]
		rows = append(rows, []string{g[0].OwnerName(), strconv.Itoa(len(g)), g[0].Time.UTC().Format(time.DateTime), g[len(g)-1].Time.UTC().Format(time.DateTime), g[0].Episode})
	}
	if len(keys) > 0 {
		p.section("Made again and again", func() {
			p.table("Owners of which at least three pods were evicted in an episode", rows, nil)
		})
	}
}

// letter names the decision at a place in a list: A to Z, AA and so on.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return letter(i/26-1) + letter(i%26)
}

// together returns places of decisions, together if they are of one episode and signal, in the order of their
// first ones.
func together(heads []decision.Head) (all [][]int) {
	at := map[[2]string]int{}
	for i := range heads {
		key := [2]string{heads[i].Episode, heads[i].Signal}
		if _, known := at[key]; !known {
			at[key] = len(all)
			all = append(all, nil)
		}
		all[at[key]] = append(all[at[key]], i)
	}
	return all
}

// courses draws the course of each episode, with its figures as a table.
func (p *page) courses(all []*decision.Decision, heads []decision.Head) {
	shown := 0
	for _, places := range together(heads) {
		c := picture.NewCourse(all, places, letter)
		drawn, err := c.SVG()
		if err != nil {
			continue // as of an eviction by another program
		}
		if shown++; shown > coursesShown {
			continue
		}
		p.figure(drawn, fmt.Sprintf("%s of %s, with thresholds and victims, and who held it. The figures are in the table below.", c.Signal, heads[places[0]].Episode))
		p.table(fmt.Sprintf("Who held %s, at each decision", c.Signal), c.Table(), nil)
	}
	if shown > coursesShown {
		p.element("p", "", fmt.Sprintf("and %d more episodes: evictctl explain EPISODE", shown-coursesShown))
	}
}

func amountOrNone(d *decision.Decision, n *int64) string {
	if n == nil {
		return ""
	}
	return format.AmountIn(d, eviction.Signal(d.Head().Signal), *n)
}

func releasedText(d *decision.Decision) string {
	if d.Outcome == nil {
		return ""
	}
	return amountOrNone(d, d.Outcome.Released)
}

// decision writes all of one decision. Among several it is folded, and a link to its name unfolds it.
func (p *page) decision(d *decision.Decision, said []byte, name string, alone bool) {
	w := &text{r: d}
	w.headline()
	if alone {
		p.element("h1", "", w.title())
	} else {
		p.several = true
		p.raw("<details><summary>")
		p.element("h2", "", format.Stamp(d.Time)+"  "+w.title())
		p.raw("</summary>\n")
	}
	fmt.Fprintf(&p.b, `<p id="%s"><time datetime="%s">%s</time>, `, name, d.Time.UTC().Format(time.RFC3339Nano), escaped(format.Stamp(d.Time)))
	p.raw("node <b>" + escaped(d.Node) + "</b>, " + escaped(d.Kind) + map[bool]string{true: ", dry run"}[d.DryRun] + "</p>\n")
	p.list(w.lines)
	p.section("What to do", func() {
		p.list(lines(d, (*text).spared))
		p.whatIf(said)
		p.others(d, "What if the threshold or its grace period had been another")
	})
	p.section("Why then", func() {
		p.list(lines(d, (*text).whyNow, (*text).late, (*text).changed, (*text).inputs, (*text).grew, (*text).tried))
		p.picture(d)
	})
	p.section("Why this pod", func() { p.ranking(d) })
	p.section("What followed", func() {
		p.list(lines(d, (*text).followed, (*text).neededOrNot))
		p.table("Timeline, in milliseconds from the decision", timeline(d), nil)
	})
	p.section("Record", func() { p.record(d) })
	p.raw(map[bool]string{false: "</details>\n"}[alone])
}

// lines returns what parts of a text say of a decision.
func lines(d *decision.Decision, parts ...func(*text)) []labeled {
	w := &text{r: d}
	for _, part := range parts {
		part(w)
	}
	return w.lines
}

// whatIf writes the output of If.
func (p *page) whatIf(said []byte) {
	var lines []labeled
	for line := range strings.Lines(string(said)) {
		lines = append(lines, labeled{"what if", strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "what if"))})
	}
	p.list(lines)
}

// others writes what thresholds would have done at a decision, folded.
func (p *page) others(d *decision.Decision, summary string) {
	if rows := others(d); len(rows) > 1 {
		p.raw("<details><summary>" + summary + "</summary>\n")
		p.table("Other thresholds", rows, nil)
		p.raw("</details>\n")
	}
}

// others says when other thresholds and grace periods would have asked for an eviction, and of whom.
func others(d *decision.Decision) [][]string {
	rows := [][]string{{"threshold", "then"}}
	t := d.Acted()
	if t == nil || len(d.Signals) == 0 {
		return rows
	}
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
	return rows
}

// picture writes the picture of a decision, and its figures as a table.
func (p *page) picture(d *decision.Decision) {
	drawn, err := SVG(d)
	if err != nil {
		p.element("p", "", "No picture: "+err.Error()+".")
		return
	}
	about := fmt.Sprintf("%s before and after the decision, with its thresholds. The figures are in the table below.", d.Head().Signal)
	p.figure(drawn, about)
	p.raw("<details><summary>Figures of the picture</summary>\n")
	p.table("Available "+d.Head().Signal+" and use of pods", picture.Figures(d), nil)
	p.raw("</details>\n")
}

// figure writes a picture. about says what is on it.
func (p *page) figure(drawn []byte, about string) {
	p.raw(`<figure tabindex="0" aria-label="Picture">`)
	drawn = bytes.Replace(drawn, []byte("<svg "), []byte(`<svg aria-label="`+escaped(about)+`" `), 1)
	p.b.Write(drawn)
	p.raw("</figure>\n")
}

// ranking writes why the first pod was first, all candidates in their order, and those that could not go.
func (p *page) ranking(d *decision.Decision) {
	w := &text{r: d}
	if why := first(d); why != "" {
		w.line("why it", "%s", why)
		w.line("order", "of %s that could go, by %s", format.Counted(len(d.Candidates), "pod"), rankerOf(d))
	}
	w.inUse()
	p.list(w.lines)
	order := rankingTable(d, len(d.Order))
	if order != nil {
		order[0][0] = "place"
	}
	p.table("Order, the first to go first", order, nil)
	if len(d.Order) > 0 {
		parts := [][]string{{"what it had", "amount"}}
		for _, part := range d.Candidates[d.Order[0]].Parts {
			parts = append(parts, []string{part.Name, format.AmountIn(d, w.signal(), part.Used)})
		}
		p.table("Volumes, logs and layers of "+d.Candidates[d.Order[0]].Pod, parts, nil)
	}
	if d.Ranker != nil && len(d.Candidates) > len(d.Order) {
		left := [][]string{{"left out by " + mayLeaveOut(d)}}
		for _, name := range leftOut(d) {
			left = append(left, []string{name})
		}
		p.table("Pods that the ranker left out", left, nil)
	}
	protected := [][]string{{"pod", "rule"}}
	for _, pod := range d.Protected {
		protected = append(protected, []string{pod.Pod, pod.Rule})
	}
	p.table("Pods that could not go", protected, nil)
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
		add(o.ReliefMS, "what was promised was back")
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

// record writes the facts about the record, and the record itself as a link.
func (p *page) record(d *decision.Decision) {
	p.list([]labeled{
		{"record", d.ID},
		{"node", d.Node},
		{"evictd", cmp.Or(d.Evictd, "unknown")},
		{"configuration", cmp.Or(d.Config, "unknown")},
		{"explain it", "evictctl explain " + d.ID},
	})
	document, err := json.Marshal(d)
	if err != nil {
		return
	}
	fmt.Fprintf(&p.b, `<p><a download="%s.json" href="data:application/json;base64,%s">The record</a> is in this file: evictctl explain takes it.</p>`+"\n", escaped(d.ID), base64.StdEncoding.EncodeToString(document))
}
