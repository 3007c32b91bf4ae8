package tell

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/shared/eviction"
)

// The picture in pixels, and the part of it that has the plot.
const (
	pictureWidth, pictureHeight              = 960, 360
	plotLeft, plotRight, plotTop, plotBottom = 90, 940, 60, 320
	lineHeight                               = 16
)

// Plain colours, on white: style sheets are a browser's.
const (
	black = "#1f2328"
	blue  = "#0969da"
	red   = "#cf222e"
	grey  = "#59636e"
)

// maxPlotted bounds how far from the decision anything is drawn, in seconds: a file may say anything.
const maxPlotted = 3600

// SVG draws how the signal that a decision is about went before and after it, with its thresholds and
// what followed. It has an error if the record has no samples of it.
func SVG(r *decision.Decision) ([]byte, error) {
	w := &text{r: r}
	signal := eviction.Signal(r.Head().Signal)
	at := slices.IndexFunc(r.Signals, func(s decision.Series) bool { return s.Signal == signal && len(s.Available) > 0 })
	if at < 0 {
		return nil, fmt.Errorf("signals: no sample of %q, which is kept while evictd runs", signal)
	}
	p := plotted(r, &r.Signals[at])
	w.headline()
	title, _, _ := strings.Cut(w.b.String(), "\n")
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		pictureWidth, pictureHeight, pictureWidth, pictureHeight)
	p.printf("<title>%s</title>\n", escaped(title))
	p.printf(`<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", pictureWidth, pictureHeight)
	p.label(plotLeft, 24, "start", black, title)
	p.axes(signal)
	p.thresholds()
	p.printf(`<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", blue, p.points())
	p.events()
	p.printf("</svg>\n")
	return p.Bytes(), nil
}

// A plot is of one signal. Seconds are from the decision on, negative before it.
type plot struct {
	bytes.Buffer

	r           *decision.Decision
	values      []int64
	from, end   float64 // what is drawn, in seconds; the samples begin at from
	low, high   float64 // the amounts at the bottom and at the top
	thresholdAt []mark
}

// A mark is a threshold and its amount.
type mark struct {
	text   string
	amount float64
}

func plotted(r *decision.Decision, before *decision.Series) *plot {
	until := inReach(before.UntilMS / 1000)
	p := &plot{r: r, values: before.Values(), from: until - float64(len(before.Available)-1)}
	if o := r.Outcome; o != nil && o.After != nil {
		// A gap between the two is that of the samples of one second.
		p.values = append(p.values, o.After.Values()...)
	}
	p.end = p.from + max(1, float64(len(p.values)-1))
	for _, e := range happened(r) {
		p.end = max(p.end, e.second)
	}
	p.end += (p.end - p.from) / 50
	p.low, p.high = float64(slices.Min(p.values)), float64(slices.Max(p.values))
	o := r.Observation(before.Signal)
	for i := range r.Thresholds {
		t, err := r.Thresholds[i].Policy()
		if err != nil || t.Signal != before.Signal || o == nil {
			continue
		}
		q := t.Amount(o.Capacity)
		p.thresholdAt = append(p.thresholdAt, mark{t.String(), q.AsApproximateFloat64()})
	}
	span := max(1, p.high-p.low)
	low, high := p.low, p.high
	for _, m := range p.thresholdAt {
		if p.low-span <= m.amount && m.amount <= p.high+span { // else it is shown at the edge
			low, high = min(low, m.amount), max(high, m.amount)
		}
	}
	margin := max(1, high-low) / 20
	p.low, p.high = low-margin, high+margin
	if low >= 0 {
		p.low = max(0, p.low)
	}
	return p
}

func inReach(second float64) float64 { return min(max(second, -maxPlotted), maxPlotted) }

func (p *plot) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

func (p *plot) x(second float64) float64 {
	return plotLeft + (second-p.from)/(p.end-p.from)*(plotRight-plotLeft)
}

func (p *plot) y(amount float64) float64 {
	return plotBottom - min(max((amount-p.low)/(p.high-p.low), 0), 1)*(plotBottom-plotTop)
}

func (p *plot) line(x1, y1, x2, y2 float64, colour, dashes string) {
	p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-dasharray="%s"/>`+"\n", x1, y1, x2, y2, colour, dashes)
}

func (p *plot) label(x, y float64, anchor, colour, text string) {
	p.printf(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, escaped(text))
}

// mostTicks is how many times are below the plot at most, but for the longest.
const mostTicks = 20

// axes have a few round amounts, and the time before and after the decision.
func (p *plot) axes(signal eviction.Signal) {
	p.line(plotLeft, plotTop, plotLeft, plotBottom, black, "none")
	p.line(plotLeft, plotBottom, plotRight, plotBottom, black, "none")
	p.label(plotLeft, plotTop-8, "start", blue, string(signal))
	d, _ := eviction.Builtin(signal)
	step := roundStep((p.high-p.low)/4, d.Unit == eviction.UnitBytes)
	for amount := math.Ceil(p.low/step) * step; amount <= p.high; amount += step {
		p.line(plotLeft-4, p.y(amount), plotLeft, p.y(amount), black, "none")
		p.label(plotLeft-6, p.y(amount)+4, "end", black, AmountIn(p.r, signal, int64(amount)))
	}
	every, unit, name := 300.0, 60.0, "min"
	for _, n := range []float64{1, 5, 10, 30, 60} {
		if (p.end-p.from)/n <= mostTicks {
			every = n
			break
		}
	}
	if every < unit {
		unit, name = 1, "s"
	}
	for second := math.Ceil(p.from/every) * every; second <= p.end; second += every {
		p.label(p.x(second), plotBottom+lineHeight, "middle", black, fmt.Sprintf("%+.0f %s", second/unit, name))
	}
}

// roundStep returns a round amount of at least so much: a power of two of bytes, else 1, 2 or 5 times a
// power of ten.
func roundStep(least float64, isBytes bool) float64 {
	if isBytes {
		return math.Exp2(math.Ceil(math.Log2(max(1, least))))
	}
	for unit := 1.0; ; unit *= 10 {
		for _, n := range []float64{1, 2, 5} {
			if n*unit >= least {
				return n * unit
			}
		}
	}
}

// thresholds are dashed lines. One that is far from all that was available is at the edge.
func (p *plot) thresholds() {
	for _, m := range p.thresholdAt {
		y := p.y(m.amount)
		p.line(plotLeft, y, plotRight, y, red, "6 4")
		p.label(plotLeft+6, y-4, "start", red, m.text)
	}
}

func (p *plot) points() string {
	var all strings.Builder
	for i, v := range p.values {
		_, _ = fmt.Fprintf(&all, "%.1f,%.1f ", p.x(p.from+float64(i)), p.y(float64(v)))
	}
	return strings.TrimSpace(all.String())
}

// events are lines across, each with a label in a row of its own, on the side that has more room: they are
// close to each other.
func (p *plot) events() {
	for i, e := range happened(p.r) {
		x, anchor, side := p.x(e.second), "end", -4.0
		if x < (plotLeft+plotRight)/2 {
			anchor, side = "start", 4
		}
		p.line(x, plotTop, x, plotBottom, grey, "2 3")
		p.label(x+side, plotTop+lineHeight*float64(i+1), anchor, grey, e.what)
	}
}

// An event is what happened at a second from the decision on.
type event struct {
	what   string
	second float64
}

func happened(r *decision.Decision) []event {
	all := []event{{"decided " + clock(r.Time), 0}}
	if r.Outcome == nil {
		return all
	}
	killed := "killed"
	if r.Outcome.Err != "" {
		killed = "given up"
	}
	for _, e := range []struct {
		what string
		ms   float64
	}{{killed, r.Outcome.KilledMS}, {"gone", r.Outcome.GoneMS}, {"what was promised was back", r.Outcome.ReliefMS}} {
		if e.ms > 0 {
			second := inReach(e.ms / 1000)
			all = append(all, event{fmt.Sprintf("%s after %v", e.what, time.Duration(second*float64(time.Second)).Round(time.Millisecond)), second})
		}
	}
	return all
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(input.Printable(text)))
	return b.String()
}
