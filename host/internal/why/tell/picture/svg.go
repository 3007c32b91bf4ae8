// Package picture draws the signal of decisions over time as SVG, and returns the figures that it draws.
package picture

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// Colours on white, which Dark replaces on a dark screen if the viewer supports style sheets.
const (
	black, grey, red, blue, orange, purple = "#1f2328", "#59636e", "#cf222e", "#0969da", "#bc4c00", "#8250df"
	green, teal                            = "#1a7f37", "#1b7c83"

	// Dark is the style sheet in a picture, for dark screens.
	Dark = `<style>@media screen and (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } [fill="#1f2328"] { fill: #e6edf3 } [stroke="#1f2328"] { stroke: #e6edf3 }
[fill="#59636e"] { fill: #9198a1 } [stroke="#59636e"] { stroke: #9198a1 } [fill="#cf222e"] { fill: #ff7b72 } [stroke="#cf222e"] { stroke: #ff7b72 }
[fill="#0969da"] { fill: #58a6ff } [stroke="#0969da"] { stroke: #58a6ff } [fill="#bc4c00"] { fill: #f0883e } [stroke="#bc4c00"] { stroke: #f0883e }
[fill="#8250df"] { fill: #bc8cff } [stroke="#8250df"] { stroke: #bc8cff } [fill="#1a7f37"] { fill: #3fb950 } [fill="#1b7c83"] { fill: #39c5cf }
}</style>`
)

// Bounds of what is drawn, because a file may be wrong: seconds from the decision, samples of a pod, marks and
// thresholds.
const maxPlotted, maxUsage, maxMarks, maxLevels = 24 * 3600, 3600, 16, 12

// Decision draws the signal of a decision before and after it, with its thresholds, the use of pods and
// what happened. about, which may be empty, describes the picture to a screen reader. Decision returns an
// error if the record has no samples.
func Decision(r *decision.Decision, title, about string) ([]byte, error) {
	head := r.Head()
	signal := eviction.Signal(head.Signal)
	at := slices.IndexFunc(r.Signals, func(s decision.Series) bool { return s.Signal == signal && len(s.Available) > 0 })
	if at < 0 {
		return nil, fmt.Errorf("no samples of a signal are on record, as of an eviction by another program, or just after the start of evictd")
	}
	available := samples(&r.Signals[at])
	if o := r.Outcome; o != nil && o.After != nil && o.After.Signal == signal {
		available = append(available, samples(o.After)...)
	}
	p := newPlot(r, signal, available)
	p.pod(orange, slices.Index(r.Curves, head.Pod))
	p.request()
	p.pod(purple, slices.IndexFunc(r.Curves, func(pod string) bool { return pod != head.Pod }))
	p.begin()
	p.marks()
	p.decided()
	p.fit()
	return p.finish(title, about, r), nil
}

// newPlot returns the plot of a signal by samples without a break, of which there may be several.
func newPlot(r *decision.Decision, signal eviction.Signal, available ...[]point) *plot {
	p := &plot{r: r, signal: signal, signals: len(available), unit: format.Unit{Size: 1}}
	for _, points := range available {
		p.curves = append(p.curves, line{blue, `stroke-width="2"`, "", points})
	}
	name := &p.curves[len(p.curves)-1].name
	*name = string(signal)
	if as, in, found := strings.Cut(format.AmountIn(r, signal, 1<<30), " "); found {
		*name += " in " + in
	} else if as == "1Gi" {
		p.unit = format.ByteUnit(extent(p.curves).bottom)
	}
	return p
}

// fit ends the drawn range behind all events.
func (p *plot) fit() {
	p.end += (p.end - p.from) / 50
	slices.SortStableFunc(p.events, func(a, b span) int { return cmp.Compare(a.from, b.from) })
}

// finish draws all that was added, with the thresholds of decisions, the oldest first.
func (p *plot) finish(title, about string, of ...*decision.Decision) []byte {
	p.thresholds(of)
	p.scale()
	p.axes()
	p.draw()
	return p.picture(title, about)
}

// A plot shows one signal. Seconds count from the decision, negative before it.
type plot struct {
	r              *decision.Decision
	signal         eviction.Signal
	curves         []line // of seconds and amounts, those of the signal first
	signals        int    // are curves of the signal
	levels         []span
	events         []span
	from, end      float64 // the drawn range, in seconds
	clockOnly      bool    // the axis of time has no seconds from the decision
	available, use axis
	unit           format.Unit

	lines  []line
	labels []label
	rows   int // of numbers above the plot
	// columns are below the axis of time.
	columns []column
	below   int // the height of what is below the axis of time
}

// A column is a rectangle of a colour.
type column struct {
	box

	colour  string
	opacity float64
}

// A span is an event, or a threshold while it was in force, in seconds. An event without a letter has a number.
type span struct {
	text, letter        string
	from, until, amount float64
}

func samples(s *decision.Series) []point {
	values := s.Values()
	all := make([]point, len(values))
	for i, v := range values {
		all[i] = point{inReach(s.UntilMS - float64(1000*(len(values)-1-i))), float64(v)}
	}
	return all
}

// inReach returns milliseconds in seconds.
func inReach(ms float64) float64 {
	if math.IsNaN(ms) {
		return 0
	}
	return min(max(ms/1000, -maxPlotted), maxPlotted)
}

// pod adds the curve of a pod at a place in Curves, which ends with its use at the decision. Only the
// part after the last gap has a name.
func (p *plot) pod(colour string, at int) {
	if at < 0 {
		return
	}
	parts := []line{{colour: colour}}
	for _, u := range p.r.Usage[max(0, len(p.r.Usage)-maxUsage):] {
		if last := &parts[len(parts)-1]; at < len(u.Used) && u.Used[at] >= 0 {
			last.points = append(last.points, point{inReach(u.MS), float64(u.Used[at])})
		} else if last.points != nil {
			parts = append(parts, line{colour: colour})
		}
	}
	last := &parts[len(parts)-1]
	if i := slices.IndexFunc(p.r.Candidates, func(c decision.Candidate) bool { return c.Pod == p.r.Curves[at] && c.State == "" }); i >= 0 {
		last.points = append(last.points, point{0, float64(p.r.Candidates[i].Usage)})
	}
	if last.points == nil {
		parts = parts[:len(parts)-1]
	}
	if n := len(parts); n > 0 {
		last = &parts[n-1]
		last.name = p.r.Curves[at] + " uses " + p.unit.Text(last.points[len(last.points)-1].y, 2)
	}
	p.curves = append(p.curves, parts...)
}

// request adds what the first pod requests, if its use is drawn.
func (p *plot) request() {
	drawn := extent(p.curves[p.signals:])
	if len(p.r.Order) == 0 || len(p.curves) == p.signals {
		return
	}
	c := p.r.Candidates[p.r.Order[0]].Ranked(p.signal)
	if request := rank.Request(&c, p.signal); request > 0 {
		l := line{colour: orange, style: `stroke-dasharray="1 3"`, name: "requests " + format.AmountIn(p.r, p.signal, request)}
		for i := range 41 {
			l.points = append(l.points, point{drawn.left + (drawn.right-drawn.left)*float64(i)/40, float64(request)})
		}
		p.curves = append(p.curves, l)
	}
}

// begin sets the drawn range to that of the curves.
func (p *plot) begin() {
	all := extent(p.curves)
	p.from, p.end = min(0, all.left), max(1+min(0, all.left), all.right)
}

// event adds an event if it is in the drawn range, in which its number or letter has room afterwards.
func (p *plot) event(e span) {
	if e.until >= p.from {
		e.from = max(e.from, p.from)
		p.end = max(p.end, e.until, p.from+(e.from-p.from)*(plotRight-plotLeft)/(textEnd-gap-plotLeft-width(cmp.Or(e.letter, "00"))))
		p.events = append(p.events, e)
	}
}

// happened adds an event with a number.
func (p *plot) happened(what string, ms, untilMS float64) {
	p.event(span{text: what, from: inReach(ms), until: max(inReach(ms), inReach(untilMS))})
}

// marks adds what happened before.
func (p *plot) marks() {
	marks := format.Marks(p.r.Marks)
	left := max(0, len(marks)-maxMarks)
	if left > 0 {
		p.happened(fmt.Sprintf("%d marks until here are not drawn", left), marks[left-1].MS, marks[left-1].MS)
	}
	for _, m := range marks[left:] {
		what := p.clock(inReach(m.MS)) + " " + m.Text
		if m.What == decision.MarkReload || len(m.Former) > 0 { // its thresholds are drawn
			what = map[bool]string{true: "restart ", false: "reload "}[m.What == decision.MarkStart] + p.clock(inReach(m.MS))
		}
		p.happened(what, m.MS, m.UntilMS)
	}
}

// decided adds the steps of the decision.
func (p *plot) decided() {
	if p.r.Trigger != "" {
		p.happened(strings.TrimSuffix(p.r.Trigger+": "+p.r.Causes, ": "), p.r.Timeline.ObservedMS, p.r.Timeline.ObservedMS)
	}
	what := cmp.Or(map[string]string{decision.KindRanking: "now ", decision.KindKernel: "killed by the kernel before "}[p.r.Kind], "decided ")
	p.happened(what+format.Clock(p.r.Time), 0, 0)
	if o := p.r.Outcome; o != nil {
		what := []string{"killed", "gone", "expected amount back"}
		if o.Err != "" {
			what[0] = "given up"
		}
		for i, ms := range []float64{o.KilledMS, o.GoneMS, o.ReliefMS} {
			if ms > 0 {
				p.happened(fmt.Sprintf("%s after %v", what[i], time.Duration(inReach(ms)*1e9).Round(time.Millisecond)), ms, ms)
			}
		}
	}
}

func (p *plot) clock(second float64) string {
	return p.r.Time.Add(time.Duration(second * 1e9)).Round(time.Second).UTC().Format(time.TimeOnly)
}

// thresholds finds those of the signal: in force at each decision, and before each reload and restart.
func (p *plot) thresholds(of []*decision.Decision) {
	for n, d := range of {
		shift := decision.MS(d.Time, p.r.Time)
		since, until := p.sampledFrom(d), inReach(shift)
		if n == len(of)-1 {
			until = p.end
		}
		for i := range d.Thresholds {
			t, from := &d.Thresholds[i], since
			if t.InForce != nil {
				from = max(from, inReach(decision.MS(*t.InForce, p.r.Time)))
			}
			p.threshold(t, span{from: from, until: until})
		}
		for _, m := range d.Marks {
			if at := inReach(shift + m.MS); len(m.Former) > 0 {
				for i := range m.Former {
					p.threshold(&m.Former[i], span{from: since, until: at})
				}
				since = max(since, at)
			}
		}
	}
}

// sampledFrom returns the second of the first sample of a decision, from which on its record has the thresholds.
func (p *plot) sampledFrom(d *decision.Decision) float64 {
	at := decision.MS(d.Time, p.r.Time)
	for i := range d.Signals {
		if s := &d.Signals[i]; s.Signal == p.signal && len(s.Available) > 0 {
			return max(p.from, inReach(at+s.UntilMS-1000*float64(len(s.Available)-1)))
		}
	}
	return inReach(at)
}

// threshold adds l, the time in which t was in force, with its amount if that is not in a unit like the
// axis. It extends a level of the same threshold next to l.
func (p *plot) threshold(t *decision.Threshold, l span) {
	o := p.r.Observation(p.signal)
	in, err := t.Policy()
	if err != nil || t.Signal != p.signal || o == nil || l.from >= l.until {
		return
	}
	q := in.Amount(o.Capacity)
	l.text, l.amount = in.String(), q.AsApproximateFloat64()
	if amount, value := p.unit.Text(l.amount, 2), in.Value.String(); value != amount && !strings.HasSuffix(value, "i") {
		l.text += " (" + amount + ")"
	}
	for i := range p.levels {
		if same := &p.levels[i]; same.text == l.text && same.from <= l.until && l.from <= same.until {
			same.from, same.until = min(same.from, l.from), max(same.until, l.until)
			return
		}
	}
	if len(p.levels) < maxLevels {
		p.levels = append(p.levels, l)
	}
}

// scale fits the axis to the signal, the thresholds near it and the use of pods. If that left less
// than a third of the height to the signal, the use has an axis of its own.
func (p *plot) scale() {
	available, used := extent(p.curves[:p.signals]), extent(p.curves[p.signals:])
	near := cmp.Or((available.bottom-available.top)/3, available.bottom) // thresholds leave the samples half of the height
	low, high := available.top, available.bottom
	for _, l := range p.levels {
		if available.top-near <= l.amount && l.amount <= available.bottom+near {
			low, high = min(low, l.amount), max(high, l.amount)
		}
	}
	p.available = spread(min(low, used.top), max(high, used.bottom), 0, plotBottom)
	p.use = p.available
	if len(p.curves) > p.signals && 3*(available.bottom-available.top) < p.use.high-p.use.low {
		p.available, p.use = spread(low, high, 0, plotBottom*3/5), spread(0, used.bottom, plotBottom*2/3, plotBottom)
	}
}

// extent returns the least and the most of seconds, from left to right, and of amounts.
func extent(curves []line) box {
	b := box{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
	for _, c := range curves {
		for _, s := range c.points {
			b = box{min(b.left, s.x), min(b.top, s.y), max(b.right, s.x), max(b.bottom, s.y)}
		}
	}
	return b
}

// draw places all lines, and lists them below the plot.
func (p *plot) draw() {
	for i, c := range p.curves {
		a := map[bool]axis{true: p.available, false: p.use}[i < p.signals]
		for j, s := range c.points {
			c.points[j] = point{p.x(s.x), a.y(s.y)}
		}
		p.lines = append(p.lines, c)
	}
	for _, l := range p.levels {
		p.drawThreshold(l)
	}
	for _, l := range p.lines {
		if l.name != "" {
			y := p.entry(l.colour, l.name) - gap
			p.line(l.colour, l.style, "", point{lineHeight, y}, point{textLeft - 2*gap, y})
		}
	}
	p.drawEvents()
}

// drawThreshold draws a dashed line.
func (p *plot) drawThreshold(l span) {
	style := `stroke-dasharray="6 4"`
	if l.until < p.end {
		style += ` stroke-opacity="0.5"`
		l.text += " until " + p.clock(l.until)
	}
	if l.amount < p.available.low || l.amount > p.available.high {
		p.line(red, style, l.text+", outside the plot")
		return
	}
	y := p.available.y(l.amount)
	p.line(red, style, l.text, point{p.x(l.from), y}, point{p.x(l.until), y})
}

// drawEvents gives each event a line up to its number or letter, which for a later one is lower.
func (p *plot) drawEvents() {
	number := 0
	for i := range p.events {
		if e := &p.events[i]; e.letter == "" {
			number++
			e.letter = strconv.Itoa(number)
			p.label(textLeft-2*gap, p.entry(grey, e.text), "end", grey, e.letter)
		}
	}
	rows := make([]int, len(p.events))
	for i, e := range slices.Backward(p.events) {
		x := p.x(e.from)
		rows[i] = 1
		for j := i + 1; j < len(rows) && p.x(p.events[j].from) < x+width(e.letter)+2*gap; j++ {
			rows[i] = max(rows[i], rows[j]+1)
		}
		p.rows = max(p.rows, rows[i])
		p.label(x+gap, rowY(rows[i]), "start", grey, e.letter)
		p.line(grey, `stroke-dasharray="2 3"`, "", point{x, rowY(rows[i]) - ascent}, point{x, plotBottom})
	}
}

// picture returns the document, with the title above all labels.
func (p *plot) picture(title, about string) []byte {
	rows := wrapped(title, pictureWidth-2*lineHeight)
	above := lineHeight * (p.rows + len(rows) + 1)
	for i, text := range rows {
		p.label(lineHeight, float64(lineHeight*(2*i+3)/2-above), "start", black, text)
	}
	var b bytes.Buffer
	printf := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	label := ""
	if about != "" {
		label = `aria-label="` + html.EscapeString(printable.ClipText(about)) + `" `
	}
	height := above + plotBottom + 4*lineHeight + p.below
	printf(`<svg %sxmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`, label, shownWidth, height*shownWidth/pictureWidth, pictureWidth, height)
	printf("<title>%s</title>\n%s", html.EscapeString(title), Dark)
	printf(`<rect class="paper" width="100%%" height="100%%" fill="#ffffff"/>`)
	printf(`<g transform="translate(0 %d)">`, above)
	for _, e := range p.events {
		printf(`<rect x="%.1f" y="0" width="%.1f" height="%d" fill="%s" fill-opacity="0.15"/>`, p.x(e.from), p.x(e.until)-p.x(e.from), plotBottom, grey)
	}
	for _, c := range p.columns {
		printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="%g"/>`, c.left, c.top, c.right-c.left, c.bottom-c.top, c.colour, c.opacity)
	}
	for _, l := range p.lines {
		points := make([]string, len(l.points))
		for i, at := range l.points {
			points[i] = fmt.Sprintf("%.1f,%.1f", at.x, at.y)
		}
		printf(`<polyline fill="none" stroke="%s" %s points="%s"/>`, l.colour, l.style, strings.Join(points, " "))
	}
	for _, l := range p.labels {
		printf(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`, l.left, l.baseline, l.anchor, l.colour, html.EscapeString(l.text))
	}
	printf("</g>\n</svg>")
	return b.Bytes()
}

// figuresShown bounds the rows of figures.
const figuresShown = 120

// Figures returns samples of the signal and of pods' use, at most figuresShown of each.
func Figures(d *decision.Decision) [][]string {
	signal := eviction.Signal(d.Head().Signal)
	rows := [][]string{append([]string{"seconds", "available"}, d.Curves...)}
	var all []point
	for i := range d.Signals {
		if d.Signals[i].Signal == signal {
			all = append(all, samples(&d.Signals[i])...)
		}
	}
	if o := d.Outcome; o != nil && o.After != nil && o.After.Signal == signal {
		all = append(all, samples(o.After)...)
	}
	every := len(all)/figuresShown + 1
	for i, s := range all {
		if i%every != 0 && i != len(all)-1 {
			continue
		}
		row := []string{strconv.FormatFloat(s.x, 'f', 1, 64), format.AmountIn(d, signal, int64(s.y))}
		for at := range d.Curves {
			row = append(row, usedAt(d, signal, at, s.x))
		}
		rows = append(rows, row)
	}
	return rows
}

// usedAt returns the last known use of a pod of Curves at a second, empty if unknown or after the decision.
func usedAt(d *decision.Decision, signal eviction.Signal, at int, second float64) (used string) {
	for _, u := range d.Usage {
		if inReach(u.MS) <= second && second <= 0 && at < len(u.Used) && u.Used[at] >= 0 {
			used = format.AmountIn(d, signal, u.Used[at])
		}
	}
	return used
}
