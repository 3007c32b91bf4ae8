package tell

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

// Size of the picture and position of the plot, in pixels.
const (
	pictureWidth, pictureHeight              = 960, 400
	plotLeft, plotRight, plotTop, plotBottom = 110, 930, 132, 360
	lineHeight                               = 16
)

// Plain colours on white, because not every viewer supports style sheets.
const (
	black = "#1f2328"
	blue  = "#0969da"
	red   = "#cf222e"
	grey  = "#59636e"
)

// maxPlotted bounds the drawn time from the decision in seconds: a file may be wrong.
const maxPlotted = 3600

// SVG draws the signal of a decision before and after it, with its thresholds and events. It
// returns an error if the record has no samples.
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

// A plot shows one signal. Seconds count from the decision, negative before it.
type plot struct {
	bytes.Buffer

	r           *decision.Decision
	samples     []sample
	from, end   float64 // the drawn range, in seconds
	low, high   float64 // the amounts at the bottom and at the top
	thresholdAt []mark  // the lowest first
}

type sample struct{ second, amount float64 }

type mark struct {
	text   string
	amount float64
}

func plotted(r *decision.Decision, before *decision.Series) *plot {
	p := &plot{r: r, samples: samples(before)}
	if o := r.Outcome; o != nil && o.After != nil && o.After.Signal == before.Signal {
		p.samples = append(p.samples, samples(o.After)...)
	}
	for _, s := range p.samples {
		p.from, p.end = min(p.from, s.second), max(p.end, s.second)
	}
	for _, e := range happened(r) {
		p.end = max(p.end, e.second)
	}
	p.end = max(p.end, p.from+1)
	p.end += (p.end - p.from) / 50
	o := r.Observation(before.Signal)
	for i := range r.Thresholds {
		t, err := r.Thresholds[i].Policy()
		if err != nil || t.Signal != before.Signal || o == nil {
			continue
		}
		q := t.Amount(o.Capacity)
		p.thresholdAt = append(p.thresholdAt, mark{t.String(), q.AsApproximateFloat64()})
	}
	slices.SortStableFunc(p.thresholdAt, func(a, b mark) int { return cmp.Compare(a.amount, b.amount) })
	p.scale()
	return p
}

func samples(s *decision.Series) []sample {
	values := s.Values()
	all := make([]sample, len(values))
	for i, v := range values {
		all[i] = sample{inReach(s.UntilMS/1000 - float64(len(values)-1-i)), float64(v)}
	}
	return all
}

// scale fits the plot to the samples and the thresholds near them. Others are drawn at the edge.
func (p *plot) scale() {
	least, most := p.samples[0].amount, p.samples[0].amount
	for _, s := range p.samples {
		least, most = min(least, s.amount), max(most, s.amount)
	}
	near := (most - least) / 3 // a threshold on each side leaves the samples half of the height
	if near == 0 {
		near = most
	}
	p.low, p.high = least, most
	for _, m := range p.thresholdAt {
		if least-near <= m.amount && m.amount <= most+near {
			p.low, p.high = min(p.low, m.amount), max(p.high, m.amount)
		}
	}
	// The range is at least a hundredth of the amounts, so that each tick has a different text.
	margin := max(1, (p.high-p.low)/20, math.Abs(p.low)/200, math.Abs(p.high)/200)
	p.low, p.high = p.low-margin, p.high+margin
	if least >= 0 {
		p.low = max(0, p.low)
	}
}

func inReach(second float64) float64 {
	if math.IsNaN(second) {
		return 0
	}
	return min(max(second, -maxPlotted), maxPlotted)
}

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

// mostTicks bounds the times below the plot, except for the longest range.
const mostTicks = 20

// axes draws a few round amounts, and the time before and after the decision.
func (p *plot) axes(signal eviction.Signal) {
	p.line(plotLeft, plotTop, plotLeft, plotBottom, black, "none")
	p.line(plotLeft, plotBottom, plotRight, plotBottom, black, "none")
	p.label(plotLeft, 24+lineHeight, "start", blue, string(signal))
	step := roundStep((p.high-p.low)/4, strings.HasPrefix(AmountIn(p.r, signal, 1<<30), "1Gi"))
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
		text := fmt.Sprintf("%+.0f %s", second/unit, name)
		if second == 0 {
			text = "0"
		}
		p.label(p.x(second), plotBottom+lineHeight, "middle", black, text)
	}
}

// roundStep returns a round amount of at least least: a power of two, or 1, 2, 4 or 5 times one of ten.
func roundStep(least float64, isBytes bool) float64 {
	if isBytes {
		return math.Exp2(math.Ceil(math.Log2(max(1, least))))
	}
	for unit := 1.0; ; unit *= 10 {
		for _, n := range []float64{1, 2, 4, 5} {
			if n*unit >= least {
				return n * unit
			}
		}
	}
}

// thresholds draws dashed lines, each with its text above the text of the one below it. A threshold
// far from all samples is drawn at the edge.
func (p *plot) thresholds() {
	row := float64(plotBottom + lineHeight)
	for _, m := range p.thresholdAt {
		y := p.y(m.amount)
		p.line(plotLeft, y, plotRight, y, red, "6 4")
		row = max(lineHeight, min(y-4, row-lineHeight))
		p.label(plotLeft+6, row, "start", red, m.text)
	}
}

func (p *plot) points() string {
	var all strings.Builder
	for _, s := range p.samples {
		_, _ = fmt.Fprintf(&all, "%.1f,%.1f ", p.x(s.second), p.y(s.amount))
	}
	return strings.TrimSpace(all.String())
}

// events draws vertical lines, each up to its label in a row above the plot, on the side with more
// room. The rows rise to that side, so that adjacent lines do not cross the labels.
func (p *plot) events() {
	all := happened(p.r)
	for i, e := range all {
		row, x, anchor, side := len(all)-i, p.x(e.second), "end", -4.0
		if p.x(0) >= (plotLeft+plotRight)/2 {
			row = i + 1
		}
		if x < (plotLeft+plotRight)/2 {
			anchor, side = "start", 4
		}
		y := plotTop - 8 - lineHeight*float64(row-1)
		p.line(x, y-lineHeight/2, x, plotBottom, grey, "2 3")
		p.label(x+side, y, anchor, grey, e.what)
	}
}

// An event marks a second relative to the decision.
type event struct {
	what   string
	second float64
}

func happened(r *decision.Decision) []event {
	all := []event{{"decided " + Clock(r.Time), 0}}
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
	_ = xml.EscapeText(&b, []byte(printable.Text(text)))
	return b.String()
}
