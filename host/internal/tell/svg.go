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

// The picture in pixels, and what of it the plot has.
const (
	pictureWidth, pictureHeight              = 960, 360
	plotLeft, plotRight, plotTop, plotBottom = 90, 940, 60, 320
	lineHeight                               = 16
)

// maxPlotted is how far from the decision anything is drawn, in seconds: a file may say anything.
const maxPlotted = 3600

// SVG draws how the signal that a decision is about went, with its thresholds and what followed. It
// has an error if the record has no samples of it.
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
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 %d %d" font-family="system-ui, sans-serif" font-size="12">`+"\n", pictureWidth, pictureHeight)
	p.printf("<style>svg{background:#fff;color:#1f2328;--signal:#0969da;--limit:#cf222e;--event:#59636e}" +
		"@media(prefers-color-scheme:dark){svg{background:#0d1117;color:#e6edf3;--signal:#58a6ff;--limit:#ff7b72;--event:#9198a1}}</style>\n")
	p.printf("<title>%s</title>\n", escaped(title))
	p.label(plotLeft, 24, "start", "currentColor", title)
	p.axes(w, signal)
	p.thresholds(w, signal)
	p.printf(`<polyline fill="none" stroke="var(--signal)" stroke-width="1.5" points="%s"/>`+"\n", p.points())
	p.events()
	p.printf("</svg>\n")
	return p.Bytes(), nil
}

// A plot is of one signal. Seconds are from the decision on, negative before it.
type plot struct {
	bytes.Buffer

	r           *decision.Decision
	values      []int64
	from, until float64 // of the samples, in seconds
	end         float64 // of what is drawn
	top         float64 // the greatest amount
}

func plotted(r *decision.Decision, s *decision.Series) *plot {
	p := &plot{r: r, values: s.Values(), until: inReach(s.UntilMS / 1000)}
	p.from = p.until - float64(len(p.values)-1)
	p.end = max(p.until, p.from+1)
	for _, e := range happened(r) {
		p.end = max(p.end, e.second)
	}
	p.top = max(1, float64(slices.Max(p.values)))
	return p
}

func inReach(second float64) float64 { return min(max(second, -maxPlotted), maxPlotted) }

func (p *plot) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

func (p *plot) x(second float64) float64 {
	return plotLeft + (second-p.from)/(p.end-p.from)*(plotRight-plotLeft)
}

func (p *plot) y(amount float64) float64 {
	return plotBottom - min(max(amount/p.top, 0), 1)*(plotBottom-plotTop)
}

func (p *plot) line(x1, y1, x2, y2 float64, style string) {
	p.printf(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", x1, y1, x2, y2, style)
}

func (p *plot) label(x, y float64, anchor, colour, text string) {
	p.printf(`<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, escaped(text))
}

// axes have an amount at each end, and the minutes before the decision.
func (p *plot) axes(w *text, signal eviction.Signal) {
	p.line(plotLeft, plotTop, plotLeft, plotBottom, `stroke="currentColor"`)
	p.line(plotLeft, plotBottom, plotRight, plotBottom, `stroke="currentColor"`)
	p.label(plotLeft-6, plotTop+4, "end", "currentColor", w.amount(signal, slices.Max(p.values)))
	p.label(plotLeft-6, plotBottom, "end", "currentColor", w.amount(signal, 0))
	p.label(plotLeft, plotTop-8, "start", "var(--signal)", string(signal))
	for second := math.Ceil(p.from/60) * 60; second < 0; second += 60 {
		p.label(p.x(second), plotBottom+lineHeight, "middle", "currentColor", fmt.Sprintf("%.0f min", second/60))
	}
}

// thresholds are dashed lines. One that is above all that was available is told at the top.
func (p *plot) thresholds(w *text, signal eviction.Signal) {
	o := w.r.Observation(signal)
	for i := range p.r.Thresholds {
		t, err := p.r.Thresholds[i].Policy()
		if err != nil || t.Signal != signal || o == nil {
			continue
		}
		amount := t.Amount(o.Capacity)
		y := p.y(amount.AsApproximateFloat64())
		p.line(plotLeft, y, plotRight, y, `stroke="var(--limit)" stroke-dasharray="6 4"`)
		p.label(plotLeft+6, y-4, "start", "var(--limit)", t.String())
	}
}

func (p *plot) points() string {
	var all strings.Builder
	for i, v := range p.values {
		_, _ = fmt.Fprintf(&all, "%.1f,%.1f ", p.x(p.from+float64(i)), p.y(float64(v)))
	}
	return strings.TrimSpace(all.String())
}

// events are lines across, each with a label in a row of its own: they are close to each other.
func (p *plot) events() {
	for i, e := range happened(p.r) {
		x := p.x(e.second)
		p.line(x, plotTop, x, plotBottom, `stroke="var(--event)" stroke-dasharray="2 3"`)
		p.label(x-4, plotTop+lineHeight*float64(i+1), "end", "var(--event)", e.what)
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
