package picture

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

// night returns decisions at seconds after the first one, in which shop/report-N holds most and grows each time,
// and memory falls by 1Mi a second from 10 minutes before to 5 minutes after each.
func night(seconds ...int) []*decision.Decision {
	all := make([]*decision.Decision, len(seconds))
	for i, second := range seconds {
		d := example()
		d.Time = d.Time.Add(time.Duration(second) * time.Second)
		d.ID = decision.NewID(d.Time)
		d.Victim.Pod = fmt.Sprintf("shop/report-%d", i)
		d.Marks, d.Thresholds[1].InForce, d.Thresholds[1].Since = nil, nil, new(d.Time.Add(-30*time.Second))
		d.Candidates = []decision.Candidate{
			{UID: "r", Pod: d.Victim.Pod, QoS: eviction.Burstable, MemoryRequest: gibibyte / 2, Usage: 2 * gibibyte},
			{UID: "w", Pod: "shop/web", QoS: eviction.Burstable, Usage: gibibyte},
		}
		d.Order, d.Curves, d.Usage = []int{0, 1}, nil, nil
		before, after := make([]int64, 600), make([]int64, 300)
		for n := range 600 {
			before[n] = -1
		}
		for n := range 300 {
			after[n] = -1
		}
		before[0], after[0] = 1500, 899
		d.Signals = []decision.Series{{Signal: eviction.MemoryAvailable, Unit: 1 << 20, Available: before}}
		d.Outcome.After = &decision.Series{Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 300_000, Available: after}
		d.Observations[0].Components = map[string]int64{"inactive_file": gibibyte / 4}
		all[i] = d
	}
	return all
}

func courseOf(all []*decision.Decision) *Course {
	var places []int
	for i := range all {
		places = append(places, i)
	}
	return NewCourse(all, places, func(i int) string { return string(rune('A' + i)) })
}

func drawnCourse(t *testing.T, all []*decision.Decision) *picture {
	t.Helper()
	document, err := courseOf(all).SVG("")
	if err != nil {
		t.Fatal(err)
	}
	return legible(t, document)
}

// columns returns the heights of the parts of each column, from below, as parts of the whole height.
func (p *picture) columns() (all [][]float64) {
	at := math.NaN()
	for _, r := range p.Group.Rects {
		if r.Y < columnsTop || r.Y > columnsTop+columnsHeight {
			continue
		}
		if r.X != at {
			at, all = r.X, append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], math.Round(1000*r.Height/columnsHeight)/1000)
	}
	return all
}

func TestACourseHasAllVictimsAndWhoHeldTheSignal(t *testing.T) {
	all := night(0, 200, 700)
	all[1].Marks = []decision.Mark{
		{What: decision.MarkPlugin, Text: "memory ended", MS: -20_000, UntilMS: -20_000},
		{What: decision.MarkReload, Text: "memory.available<1Gi", MS: -100_000, UntilMS: -100_000, Former: []decision.Threshold{{Signal: eviction.MemoryAvailable, Value: "800Mi"}}},
	}
	for _, d := range all[1:] {
		reload := all[1].Time.Add(-100 * time.Second)
		d.Thresholds[1].InForce = &reload
	}
	all[2].Thresholds[1].InForce = nil // it was before the first sample of this record
	all[2].Marks = []decision.Mark{{What: decision.MarkPlugin, Text: "memory ended", MS: -520_000, UntilMS: -520_000}, {What: decision.MarkStart, Text: "v1 started", MS: -90_000, UntilMS: -90_000}}
	p := drawnCourse(t, all)
	for _, letter := range []string{"A", "B", "C"} {
		if !slices.ContainsFunc(p.texts, func(d drawnText) bool { return d.text == letter }) {
			t.Errorf("no letter %s in\n%s", letter, p.all())
		}
	}
	if n := strings.Count(p.all(), "memory ended"); n != 1 {
		t.Errorf("a mark of two records is drawn %d times", n)
	}
	p.at(t, "12:11:00 v1 started")
	p.at(t, "memory.available<800Mi until 12:02:30")
	reload := p.event(t, "reload 12:02:30")
	for _, l := range p.of(red) {
		if from := l.points[0][0]; !l.lighter && math.Abs(from-reload) > 1 && math.Abs(from-plotLeft) > 1 {
			t.Errorf("a threshold begins at %v, want the reload at %v", from, reload)
		}
	}
	// The samples overlap, and make one curve from 10 minutes before the first to 5 minutes after the last decision.
	if signal := p.of(blue); len(signal) != 1 || len(signal[0].points) < plotRight-plotLeft {
		t.Errorf("the signal has %d curves", len(signal))
	}
	// Of 8Gi: 2Gi have report-N, 1Gi web, 4.1Gi the rest, 0.25Gi the cache.
	rest := 8 - 900.0/1024 - 3
	for i, column := range p.columns() {
		want := []float64{0, 0, 0, 1.0 / 8, 0, math.Round(1000*rest/8) / 1000, math.Round(1000*0.25/8) / 1000, math.Round(1000*(900.0/1024-0.25)/8) / 1000}
		want[i] = 2.0 / 8
		if !slices.Equal(column, want) {
			t.Errorf("column %d has %v, want %v", i, column, want)
		}
	}
	if n := len(p.columns()); n != len(all) {
		t.Errorf("%d columns, want one for each of %d decisions", n, len(all))
	}
	table := fmt.Sprint(courseOf(all).Table())
	for _, want := range []string{"the rest of the node, or pods that may not go", "C 12:12:30 900Mi", "4.12Gi"} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q: %s", want, table)
		}
	}
}

// Pods that a controller makes again and again are one holder.
func TestPodsOfAControllerAreOneHolder(t *testing.T) {
	all := night(0, 60, 120)
	for _, d := range all {
		d.Candidates[0].Owner, d.Candidates[1].Owner = "ReplicaSet/report-5f", "DaemonSet/web"
	}
	c := courseOf(all)
	if want := []string{"ReplicaSet/shop/report-5f", "shop/web"}; !slices.Equal(c.holders, want) {
		t.Errorf("holders %q, want %q", c.holders, want)
	}
	for i, column := range drawnCourse(t, all).columns() {
		if column[0] != 0.25 {
			t.Errorf("column %d is %v, want 2Gi of 8Gi first", i, column)
		}
	}
}

// Two samples of seconds that are far from each other were joined by a line.
func TestACurveBreaksWithoutSamples(t *testing.T) {
	all := night(0, 2400)
	if n := len(drawnCourse(t, all).of(blue)); n != 2 {
		t.Errorf("%d curves, want one for each decision, which have no sample between them", n)
	}
}

// A long night has no more points than the picture has pixels, and keeps the least and the most of each.
func TestALongNightIsDrawnWithFewPoints(t *testing.T) {
	var seconds []int
	for i := range 90 {
		seconds = append(seconds, 480*i) // twelve hours
	}
	all := night(seconds...)
	all[45].Signals[0].Available[300], all[45].Signals[0].Available[301] = -700, 699
	all[44].Outcome.After = nil
	p, points, lowest := drawnCourse(t, all), 0, 0.0
	for _, l := range p.of(blue) {
		points += len(l.points)
		for _, at := range l.points {
			lowest = max(lowest, at[1])
		}
	}
	if points > 3*(plotRight-plotLeft) || lowest < plotBottom*3/5-20 {
		t.Errorf("%d points, the lowest at %v: want few, and the fall of a second", points, lowest)
	}
}

// What a record says may be wrong: no course has a text on another one, or a column that leaves the picture.
func TestACourseOfNonsenseIsDrawn(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 100 {
		var all []*decision.Decision
		at := time.Duration(0)
		for range 1 + random.IntN(30) {
			d := randomRecord(random)
			at += time.Duration(random.Int64N(int64(9 * time.Minute)))
			d.Time = d.Time.Add(at)
			for n := range random.IntN(9) {
				d.Candidates = append(d.Candidates, decision.Candidate{Pod: fmt.Sprintf("%s/%d", strings.Repeat("長", random.IntN(40)), n), Usage: []int64{math.MinInt64, -1, 0, 1 << 20, math.MaxInt64}[random.IntN(5)]})
			}
			o := &d.Observations[0]
			o.Available, o.Capacity = []int64{math.MinInt64, 0, 1 << 20, math.MaxInt64}[random.IntN(4)], []int64{math.MinInt64, 0, 1, 1 << 33, math.MaxInt64}[random.IntN(5)]
			o.Components = map[string]int64{"inactive_file": random.Int64() - math.MaxInt64/2, "images": random.Int64()}
			all = append(all, d)
		}
		signal := all[0].Head().Signal
		all = slices.DeleteFunc(all, func(d *decision.Decision) bool { return d.Head().Signal != signal })
		p := drawnCourse(t, all)
		for _, r := range p.Group.Rects {
			if !(r.X >= 0 && r.X+r.Width <= p.Width && r.Height >= 0 && r.Height <= p.Height) {
				t.Errorf("a rectangle %+v", r)
			}
		}
		if t.Failed() {
			t.Fatalf("night %d", i)
		}
	}
}

// The line of a new threshold was drawn over decisions that were made at the former one, after a restart.
func TestNoThresholdIsDrawnWhereItWasNotInForce(t *testing.T) {
	for seed := range 1000 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		begin := example().Time
		second := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
		type change struct {
			at     int // until the next one value is in force
			value  string
			starts bool // evictd starts, and knows the former value or not
			known  bool
		}
		changes := []change{{at: 0, value: "500Mi", starts: true}}
		for at := 1 + r.IntN(900); at < 3000; at += 1 + r.IntN(900) {
			changes = append(changes, change{at, []string{"500Mi", "1Gi", "2Gi"}[r.IntN(3)], r.IntN(2) == 0, r.IntN(3) > 0})
		}
		inForce := func(at int) (n int) {
			for n+1 < len(changes) && changes[n+1].at <= at {
				n++
			}
			return n
		}
		var all []*decision.Decision
		for at := 20 + r.IntN(500); at < 3000; at += 20 + r.IntN(900) {
			d, since := night(at)[0], max(0, at-600)
			d.Thresholds = d.Thresholds[1:]
			d.Thresholds[0].Value = changes[inForce(at)].value
			for n, c := range changes[:inForce(at)+1] {
				if c.starts && c.at >= since {
					since, d.Marks, d.Thresholds[0].InForce = c.at, nil, nil
				}
				if n == 0 || c.at < since || c.starts && !c.known || c.value == changes[n-1].value {
					continue
				}
				d.Thresholds[0].InForce = new(second(c.at))
				former := d.Thresholds[0]
				former.Value, former.InForce = changes[n-1].value, nil
				ms := float64(c.at-at) * 1000
				d.Marks = append(d.Marks, decision.Mark{What: decision.MarkReload, MS: ms, UntilMS: ms, Former: []decision.Threshold{former}})
			}
			d.Signals[0].Available = d.Signals[0].Available[:max(1, at-since)]
			all = append(all, d)
		}
		if len(all) == 0 {
			continue
		}
		c, last := courseOf(all), all[len(all)-1].Time
		p := newPlot(c.merged(), c.Signal, thinned(c.samples())...)
		p.begin()
		p.thresholds(all)
		drawn := 0
		for _, l := range p.levels {
			for at := math.Ceil(l.from); at < min(0, math.Floor(l.until)); at++ {
				in := changes[inForce(int(last.Sub(begin).Seconds()+at))]
				if drawn++; l.text != "memory.available<"+in.value+" for 30s" {
					t.Fatalf("seed %d: %s is drawn %v s before the last decision, where %s is in force", seed, l.text, -at, in.value)
				}
			}
		}
		if drawn == 0 && len(p.levels) < maxLevels {
			t.Fatalf("seed %d: no threshold is drawn before the last of %d decisions", seed, len(all))
		}
	}
}
