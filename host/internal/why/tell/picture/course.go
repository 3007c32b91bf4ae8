package picture

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
)

// Bounds of a course: columns and holders of a picture, and the seconds without a sample that
// break a curve.
const columnsShown, holdersShown, breakSeconds = 120, 5, 3

// A Course has the samples of a signal over several decisions about it, and who held it at each.
type Course struct {
	all     []*decision.Decision // the oldest first
	letters []string
	// Signal is common to all decisions.
	Signal eviction.Signal
	// holders are the pods, and the controllers of several, that held most of the signal. holder names that of a pod.
	holders []string
	holder  map[string]string
}

// NewCourse returns the course of a signal at places in a list of decisions, which letter names. All are about that
// signal, the oldest first.
func NewCourse(all []*decision.Decision, places []int, letter func(int) string) *Course {
	c := &Course{Signal: eviction.Signal(all[places[0]].Head().Signal)}
	c.holder = map[string]string{}
	pods, most := map[string]map[string]bool{}, map[string]int64{}
	for _, i := range places {
		c.all, c.letters = append(c.all, all[i]), append(c.letters, letter(i))
		for _, pod := range all[i].Candidates {
			c.holder[pod.Pod] = cmp.Or((&decision.Head{Pod: pod.Pod, Owner: pod.Owner}).OwnerName(), pod.Pod)
			owned := pods[c.holder[pod.Pod]]
			if owned == nil {
				owned = map[string]bool{}
				pods[c.holder[pod.Pod]] = owned
			}
			owned[pod.Pod] = true
		}
	}
	for pod, owner := range c.holder {
		if len(pods[owner]) == 1 {
			c.holder[pod] = pod
		}
	}
	for _, d := range c.all {
		use := map[string]int64{}
		for _, pod := range d.Candidates {
			use[c.holder[pod.Pod]] = figures.Add(use[c.holder[pod.Pod]], max(0, pod.Usage))
		}
		for holder, used := range use {
			most[holder] = max(most[holder], used)
		}
	}
	c.holders = slices.SortedFunc(maps.Keys(most), func(a, b string) int { return cmp.Or(cmp.Compare(most[b], most[a]), cmp.Compare(a, b)) })
	c.holders = c.holders[:min(len(c.holders), holdersShown)]
	return c
}

// A held says who holds the capacity of a signal at a decision.
type held struct {
	capacity, available int64
	// parts are by place in names of the course.
	parts []int64
}

// names returns who may hold a part of the signal: the pods, other pods, the rest of what is in use, the cache or the
// images, and none.
func (c *Course) names() []string {
	b, _ := eviction.Builtin(c.Signal)
	last := "images"
	if b.Condition == eviction.MemoryPressure {
		last = "cache of files, which is available too"
	}
	return append(slices.Clone(c.holders), "other pods that could go", "the rest of the node, or pods that may not go", last, "free")
}

// held returns nil if a decision has no figures.
func (c *Course) held(d *decision.Decision) *held {
	o := d.Observation(c.Signal)
	if o == nil || o.State != decision.StateObserved || o.Capacity <= 0 || len(d.Candidates) == 0 {
		return nil
	}
	n := len(c.holders)
	h := &held{capacity: o.Capacity, available: min(max(0, o.Available), o.Capacity), parts: make([]int64, n+4)}
	rest := o.Capacity - h.available
	for i := range d.Candidates {
		pod := &d.Candidates[i]
		at := slices.Index(c.holders, c.holder[pod.Pod])
		if at < 0 {
			at = n
		}
		used := min(max(0, pod.Usage), rest) // as from another moment than the node's
		h.parts[at], rest = h.parts[at]+used, rest-used
	}
	if b, _ := eviction.Builtin(c.Signal); b.Condition == eviction.MemoryPressure {
		h.parts[n+2] = min(max(0, o.Components["inactive_file"]), h.available)
		h.parts[n+3] = h.available - h.parts[n+2]
	} else {
		h.parts[n+2] = min(max(0, o.Components[figures.Images]), rest)
		h.parts[n+3] = h.available
		rest -= h.parts[n+2]
	}
	h.parts[n+1] = rest
	return h
}

// Table returns the figures of the columns.
func (c *Course) Table() [][]string {
	rows := [][]string{append([]string{"decision", "time", "available"}, c.names()...)}
	for i, d := range c.all {
		if h := c.held(d); h != nil {
			row := []string{c.letters[i], format.Clock(d.Time), format.AmountIn(d, c.Signal, h.available)}
			for _, part := range h.parts {
				row = append(row, format.AmountIn(d, c.Signal, part))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// merged returns the newest decision with the marks of all.
func (c *Course) merged() *decision.Decision {
	last := *c.all[len(c.all)-1]
	m := &decision.Decision{Kind: last.Kind, Time: last.Time, Observations: last.Observations}
	seen := map[string]bool{}
	for _, d := range c.all {
		for _, mark := range d.Marks {
			shift := decision.MS(d.Time, last.Time)
			mark.MS, mark.UntilMS = mark.MS+shift, mark.UntilMS+shift
			key := fmt.Sprint(mark.What, mark.Text, math.Round(mark.MS/1000))
			if mark.What != decision.MarkWait && !seen[key] {
				seen[key] = true
				m.Marks = append(m.Marks, mark)
			}
		}
	}
	slices.SortStableFunc(m.Marks, func(a, b decision.Mark) int { return cmp.Compare(a.MS, b.MS) })
	return m
}

// samples returns the samples of all decisions, by seconds from the newest.
func (c *Course) samples() map[int64]float64 {
	last, at := c.all[len(c.all)-1].Time, map[int64]float64{}
	for _, d := range c.all {
		shift, series := d.Time.Sub(last).Seconds(), slices.Clone(d.Signals)
		if d.Outcome != nil && d.Outcome.After != nil {
			series = append(series, *d.Outcome.After)
		}
		for i := range series {
			for _, p := range samples(&series[i]) {
				if x := math.Round(p.x + shift); series[i].Signal == c.Signal && x >= -maxPlotted {
					at[int64(x)] = p.y
				}
			}
		}
	}
	return at
}

// thinned returns samples as curves without a break each. Of the seconds of a pixel it keeps the least and the most.
func thinned(at map[int64]float64) (curves [][]point) {
	seconds := slices.Sorted(maps.Keys(at))
	if len(seconds) == 0 {
		return nil
	}
	every, pixels := (seconds[len(seconds)-1]-seconds[0])/(plotRight-plotLeft)+1, map[int64]box{}
	pixel := func(second int64) int64 { return (second - seconds[0]) / every }
	for _, s := range seconds {
		b, known := pixels[pixel(s)]
		if !known {
			b = box{top: at[s], bottom: at[s]}
		}
		pixels[pixel(s)] = box{top: min(b.top, at[s]), bottom: max(b.bottom, at[s])}
	}
	for i, s := range seconds {
		if i == 0 || s-seconds[i-1] > breakSeconds {
			curves = append(curves, nil)
		}
		curve, b := &curves[len(curves)-1], pixels[pixel(s)]
		repeated := false
		if n := len(*curve); n > 0 {
			former := (*curve)[n-1]
			repeated = former.y == at[s] && pixel(int64(former.x)) == pixel(s)
		}
		if (at[s] == b.top || at[s] == b.bottom) && !repeated || i == len(seconds)-1 {
			*curve = append(*curve, point{float64(s), at[s]})
		}
	}
	return curves
}

// SVG draws the signal and, below it, who held it at each decision. about is that of Decision.
func (c *Course) SVG(about string) ([]byte, error) {
	curves := thinned(c.samples())
	if len(curves) == 0 {
		return nil, errors.New("no samples of a signal are on record")
	}
	first, last := c.all[0].Time, c.all[len(c.all)-1]
	p := newPlot(c.merged(), c.Signal, curves...)
	p.begin()
	p.clockOnly = true
	p.marks()
	near := (p.end - p.from) / 20 * 1000 // letters that would be on each other are one label
	for i := 0; i < len(c.all); {
		from, n := decision.MS(c.all[i].Time, last.Time), i
		for n+1 < len(c.all) && decision.MS(c.all[n+1].Time, last.Time)-from < near {
			n++
		}
		name := c.letters[i]
		if n > i {
			name += "…" + c.letters[n]
		}
		p.event(span{letter: name, from: inReach(from), until: inReach(decision.MS(c.all[n].Time, last.Time))})
		i = n + 1
	}
	title := fmt.Sprintf("%s on %s, %s", c.Signal, last.Node, format.Counted(len(c.all), "decision"))
	if len(c.all) > 1 {
		title += fmt.Sprintf(" in %v", last.Time.Sub(first).Round(time.Second))
	}
	p.fit()
	p.stack(c)
	return p.finish(printable.ClipText(title), about, c.all...), nil
}

// Heights below the axis of time: of the columns, and of their names.
const columnsTop, columnsHeight = plotBottom + 3*lineHeight, 160

// stack adds a column for each decision, with the parts of those that held the signal.
func (p *plot) stack(c *Course) {
	colours := append([]string{blue, orange, purple, green, teal}[:len(c.holders)], grey, black, blue, grey)
	opacity := func(at int) float64 { return []float64{0.5, 0.45, 0.3, 0.1, 1}[min(4, uint(at-len(c.holders)))] }
	most, last := int64(0), c.all[len(c.all)-1]
	for _, d := range c.all[max(0, len(c.all)-columnsShown):] {
		if h := c.held(d); h != nil {
			most = max(most, h.capacity)
		}
	}
	if most == 0 {
		return
	}
	a := axis{0, float64(most), columnsTop, columnsTop + columnsHeight}
	shown := c.all[max(0, len(c.all)-columnsShown):]
	for i, d := range shown {
		h := c.held(d)
		if h == nil {
			continue
		}
		left := p.x(decision.MS(d.Time, last.Time) / 1000)
		right := left + 3*lineHeight/2
		if i+1 < len(shown) {
			right = max(left+1, min(right, p.x(decision.MS(shown[i+1].Time, last.Time)/1000)-1))
		}
		below := float64(0)
		for at, part := range h.parts {
			p.columns = append(p.columns, column{box{left, a.y(below + float64(part)), right, a.y(below)}, colours[at], opacity(at)})
			below += float64(part)
		}
	}
	p.label(plotLeft, a.top-lineHeight/2, "start", black, "Who held it at each decision, of "+format.AmountIn(last, c.Signal, most))
	p.line(black, "", "", point{plotLeft, a.top}, point{plotLeft, a.bottom}, point{plotRight, a.bottom})
	for _, n := range slices.Compact([]int64{0, most / 2, most}) {
		p.label(plotLeft-gap-2, a.y(float64(n))+gap, "end", black, clipped(format.AmountIn(last, c.Signal, n), plotLeft-gap))
	}
	p.below = columnsHeight + lineHeight/2
	for i, name := range c.names() {
		y := p.entry(black, name)
		p.columns = append(p.columns, column{box{textLeft - 2*gap - ascent, y - ascent, textLeft - 2*gap, y}, colours[i], opacity(i)})
	}
	p.below += lineHeight / 2
}
