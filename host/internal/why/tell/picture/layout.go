package picture

import (
	"math"
	"slices"
	"strconv"

	"github.com/evictd/evictd/host/internal/ground/printable"
)

// Positions in pixels. Heights are relative to the top of the plot, above which are rows of labels.
const (
	pictureWidth, textEnd                      = 960, 955
	plotLeft, plotRight, plotBottom            = 100, 920, 260
	lineHeight, ascent, descent, gap, mostWide = 16, 11, 4, 4, 15
)

type point struct{ x, y float64 }

// A line has a label if it has a name.
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

// put places the label of l near one of its points, the last first, where it is free of lines and other
// labels, or in a row above the plot.
func (p *plot) put(l *line) {
	name, heights := clipped(l.name, plotRight-plotLeft), []float64{-descent - gap, ascent + gap, -3 * lineHeight / 2, 2 * lineHeight}
	if l.colour == red {
		heights = heights[:2]
	}
	for _, at := range slices.Backward(l.points) {
		for _, dy := range heights {
			for _, x := range []float64{at.x + gap, at.x - gap - width(name)} {
				b := box{x - gap/2, at.y + dy - ascent, x + width(name), at.y + dy + descent}
				if (at.y <= p.available.bottom) == (b.bottom <= p.available.bottom) && p.free(b) {
					p.label(x, at.y+dy, "start", l.colour, name)
					return
				}
			}
		}
	}
	p.rows++
	p.label(plotLeft, rowY(p.rows), "start", l.colour, name)
}

func rowY(row int) float64 { return float64(lineHeight/2 - lineHeight*row) }

func (p *plot) free(b box) bool {
	return b.left > plotLeft && b.right < textEnd && b.top > 0 && b.bottom < plotBottom && !slices.ContainsFunc(p.labels, func(l label) bool {
		return l.anchor == "start" && b.left < l.left+width(l.text) && l.left < b.right && b.top < l.baseline+descent && l.baseline-ascent < b.bottom
	}) && !slices.ContainsFunc(p.lines, func(l line) bool {
		for i := range len(l.points) - 1 {
			if b.isCut(l.points[i], l.points[i+1]) {
				return true
			}
		}
		return false
	})
}

type box struct{ left, top, right, bottom float64 }

// isCut reports whether the line from p to q goes through b.
func (b box) isCut(p, q point) bool {
	from, to := 0.0, 1.0 // the part of the line in b, infinite if the line is along an axis
	for _, d := range [][4]float64{{p.x, q.x - p.x, b.left, b.right}, {p.y, q.y - p.y, b.top, b.bottom}} {
		in, out := (d[2]-d[0])/d[1], (d[3]-d[0])/d[1]
		from, to = max(from, min(in, out)), min(to, max(in, out))
	}
	return from <= to
}

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
	for _, n := range []float64{2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 10_800, 21_600} {
		if p.end-p.from > 11*every {
			every = n
		}
	}
	p.label(plotLeft-10*gap, plotBottom+20, "end", black, "UTC")
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
