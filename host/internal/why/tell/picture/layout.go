package picture

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/printable"
)

// Positions in units of the view box, which is scaled to the width of its place. Heights are relative to the top of
// the plot, above which are the rows of numbers, and below it their list with the curves.
const (
	pictureWidth, textLeft, textEnd            = 480, 44, 476
	plotLeft, plotRight, plotBottom            = 72, 440, 260
	lineHeight, ascent, descent, gap, mostWide = 16, 11, 4, 4, 15
	// shownWidth is the width of a picture by itself, in pixels.
	shownWidth = 720
)

type point struct{ x, y float64 }

// A line is told of below the plot if it has a name.
type line struct {
	colour, style, name string
	points              []point
}

func (p *plot) line(colour, style, name string, points ...point) {
	p.lines = append(p.lines, line{colour, style, name, points})
}

type label struct {
	left, baseline       float64 // left is the place of anchor
	anchor, colour, text string
}

func (p *plot) label(left, baseline float64, anchor, colour, text string) {
	p.labels = append(p.labels, label{left, baseline, anchor, colour, text})
}

// entry adds a text below all others, and returns the baseline of its first line.
func (p *plot) entry(colour, text string) (baseline float64) {
	baseline = plotBottom + 4*lineHeight + float64(p.below)
	for i, row := range wrapped(text, textEnd-textLeft) {
		p.label(textLeft, baseline+float64(lineHeight*i), "start", colour, row)
		p.below += lineHeight
	}
	return baseline
}

func rowY(row int) float64 { return float64(lineHeight/2 - lineHeight*row) }

type box struct{ left, top, right, bottom float64 }

// width returns the pixels of text, which is narrower in usual fonts.
func width(text string) (pixels float64) {
	for _, r := range text {
		pixels += 8
		if r > '~' || 'A' <= r && r <= 'Z' {
			pixels += mostWide - 8
		}
	}
	return pixels
}

// clipped returns text on one printable line of at most pixels.
func clipped(text string, pixels float64) string {
	text = printable.Text(text)
	for i, r := range text {
		if pixels -= width(string(r)); pixels < mostWide {
			return text[:i] + "…"
		}
	}
	return text
}

// mostRows bounds the lines of a text.
const mostRows = 3

// wrapped returns text in lines of at most pixels, and clips what is longer.
func wrapped(text string, pixels float64) (rows []string) {
	for word := range strings.FieldsSeq(printable.ClipText(text)) {
		if n := len(rows); n > 0 && (n == mostRows || width(rows[n-1]+" "+word) < pixels) {
			rows[n-1] += " " + word
		} else {
			rows = append(rows, word)
		}
	}
	for i := range rows {
		rows[i] = clipped(rows[i], pixels)
	}
	return rows
}

// An axis shows the amounts from low to high between two heights.
type axis struct{ low, high, top, bottom float64 }

// spread returns an axis with a margin around the amounts from least to most.
func spread(least, most, top, bottom float64) axis {
	// The range is at least a hundredth of the amounts, so that each tick has a different text.
	margin := max(1, (most-least)/20, math.Abs(least)/200, math.Abs(most)/200)
	return axis{max(least-margin, min(0, least)), most + margin, top, bottom}
}

func (a axis) y(amount float64) float64 {
	return a.bottom - (amount-a.low)/(a.high-a.low)*(a.bottom-a.top)
}

func (p *plot) x(second float64) float64 {
	return plotLeft + (second-p.from)/(p.end-p.from)*(plotRight-plotLeft)
}

// axes draws a few round amounts, and below the plot the clock and the seconds from the decision.
func (p *plot) axes() {
	for _, a := range slices.Compact([]axis{p.available, p.use}) {
		p.line(black, "", "", point{plotLeft, a.top}, point{plotLeft, a.bottom}, point{plotRight, a.bottom})
		step := p.unit.Step((a.high - a.low) / max(3.3, (a.bottom-a.top)/65))
		for n := math.Ceil(a.low / step); n*step <= a.high; n++ {
			p.line(black, "", "", point{plotLeft - gap, a.y(n * step)}, point{plotLeft, a.y(n * step)})
			p.label(plotLeft-gap-2, a.y(n*step)+gap, "end", black, clipped(p.unit.Text(n*step, 3), plotLeft-gap))
		}
	}
	every := 1.0
	for _, n := range []float64{2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 43_200} {
		if p.end-p.from > 5*every {
			every = n
		}
	}
	p.label(plotLeft-8*gap, plotBottom+20, "end", black, "UTC")
	decided := float64(p.r.Time.UnixMilli()) / 1000
	for at := math.Ceil((decided+p.from)/every)*every - decided; at <= p.end; at += every {
		p.line(black, "", "", point{p.x(at), plotBottom}, point{p.x(at), plotBottom + gap})
		p.label(p.x(at), plotBottom+20, "middle", black, p.clock(at))
		if p.clockOnly {
			continue
		}
		p.label(p.x(at), plotBottom+36, "middle", black, strconv.FormatFloat(math.Round(10*at)/10, 'f', -1, 64)+" s")
	}
}
