package picture

import (
	"encoding/xml"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

const gibibyte = 1 << 30

func softEviction() *decision.Decision { return decoded("../../../core/decision/testdata/soft.json") }

// example returns the eviction that the documentation tells of.
func example() *decision.Decision { return decoded("../testdata/example.json") }

func decoded(path string) *decision.Decision {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	r, err := decision.Decode(data)
	if err != nil {
		panic(err)
	}
	return r
}

// A picture is what a viewer reads.
type picture struct {
	ViewBox string `xml:"viewBox,attr"`
	Title   string `xml:"title"`
	Style   string `xml:"style"`
	Group   struct {
		Transform string `xml:"transform,attr"`
		Rects     []struct {
			X       float64 `xml:"x,attr"`
			Y       float64 `xml:"y,attr"`
			Width   float64 `xml:"width,attr"`
			Height  float64 `xml:"height,attr"`
			Fill    string  `xml:"fill,attr"`
			Opacity float64 `xml:"fill-opacity,attr"`
		} `xml:"rect"`
		Lines []struct {
			Stroke  string `xml:"stroke,attr"`
			Dashes  string `xml:"stroke-dasharray,attr"`
			Opacity string `xml:"stroke-opacity,attr"`
			Points  string `xml:"points,attr"`
		} `xml:"polyline"`
		Texts []struct {
			X      float64 `xml:"x,attr"`
			Y      float64 `xml:"y,attr"`
			Anchor string  `xml:"text-anchor,attr"`
			Fill   string  `xml:"fill,attr"`
			Text   string  `xml:",chardata"`
		} `xml:"text"`
	} `xml:"g"`

	Width, Height float64
	texts         []drawnText
	lines         []drawnLine
	// top is the height of the plot's top.
	top float64
}

type drawnText struct {
	text, colour             string
	left, top, right, bottom float64
}

type drawnLine struct {
	colour  string
	lighter bool
	dashed  bool
	points  [][2]float64
}

// drawn reads the picture of r, and checks what holds for every picture: all is within it, and no text
// is on a line or on another text.
func drawn(t *testing.T, r *decision.Decision) *picture {
	t.Helper()
	document, err := Decision(r, r.Victim.Pod+" was evicted for "+r.Victim.Signal+", which it took itself", "")
	if err != nil {
		t.Fatal(err)
	}
	return legible(t, document)
}

// legible reads a picture, and checks what holds for every one.
func legible(t *testing.T, document []byte) *picture {
	t.Helper()
	p := read(t, document)
	for i, a := range p.texts {
		if a.colour == "" {
			t.Errorf("%q has no colour without a style sheet", a.text)
		}
		if a.left < 0 || a.right > p.Width || a.top < 0 || a.bottom > p.Height {
			t.Errorf("%q is out of the picture: %+v", a.text, a)
		}
		for _, b := range p.texts[:i] {
			if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
				t.Errorf("%q is on %q", a.text, b.text)
			}
		}
		for _, l := range p.lines {
			if l.through(a) {
				t.Errorf("a line of %s goes through %q", l.colour, a.text)
			}
		}
	}
	if t.Failed() {
		t.Logf("%s", document)
	}
	return p
}

func read(t *testing.T, document []byte) *picture {
	t.Helper()
	p := &picture{}
	if err := xml.Unmarshal(document, p); err != nil {
		t.Fatalf("%v in %s", err, document)
	}
	if _, err := fmt.Sscanf(p.Group.Transform, "translate(0 %f)", &p.top); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(p.ViewBox, "0 0 %f %f", &p.Width, &p.Height); err != nil {
		t.Fatal(err)
	}
	down := p.top
	for _, d := range p.Group.Texts {
		// An average of 7.5 pixels is that of DejaVu Sans, the widest of usual fonts; capitals and others are wider.
		w := 0.0
		for _, r := range d.Text {
			if w += 7.5; r > '~' || 'A' <= r && r <= 'Z' {
				w += 5.4
			}
		}
		left := map[string]float64{"start": d.X, "middle": d.X - w/2, "end": d.X - w}[d.Anchor]
		p.texts = append(p.texts, drawnText{d.Text, d.Fill, left, down + d.Y - 10, left + w, down + d.Y + 3})
	}
	for _, d := range p.Group.Lines {
		l := drawnLine{colour: d.Stroke, lighter: d.Opacity != "", dashed: d.Dashes != ""}
		for at := range strings.FieldsSeq(d.Points) {
			x, y, _ := strings.Cut(at, ",")
			l.points = append(l.points, [2]float64{within(t, x, 0, p.Width), within(t, y, -down, p.Height-down) + down})
		}
		p.lines = append(p.lines, l)
	}
	return p
}

func within(t *testing.T, coordinate string, least, most float64) float64 {
	t.Helper()
	at, err := strconv.ParseFloat(coordinate, 64)
	if err != nil || !(least <= at && at <= most) {
		t.Fatalf("%q is outside of the picture", coordinate)
	}
	return at
}

// through looks at each half pixel of l.
func (l *drawnLine) through(text drawnText) bool {
	for i := range len(l.points) - 1 {
		a, b := l.points[i], l.points[i+1]
		if max(a[0], b[0]) < text.left || min(a[0], b[0]) > text.right || max(a[1], b[1]) < text.top || min(a[1], b[1]) > text.bottom {
			continue
		}
		n := 2*math.Hypot(b[0]-a[0], b[1]-a[1]) + 1
		for k := range int(n) {
			x, y := a[0]+(b[0]-a[0])*float64(k)/n, a[1]+(b[1]-a[1])*float64(k)/n
			if text.left < x && x < text.right && text.top < y && y < text.bottom {
				return true
			}
		}
	}
	return false
}

func (p *picture) all() string {
	var all []string
	for _, d := range p.texts {
		all = append(all, d.text)
	}
	return strings.Join(all, "\n")
}

// of returns the lines of a colour in the plot.
func (p *picture) of(colour string) (all []drawnLine) {
	for _, l := range p.lines {
		if l.colour == colour && l.points[0][0] >= plotLeft {
			all = append(all, l)
		}
	}
	return all
}

// at returns where in the picture a text begins.
func (p *picture) at(t *testing.T, text string) drawnText {
	t.Helper()
	i := slices.IndexFunc(p.texts, func(d drawnText) bool { return strings.HasPrefix(d.text, text) })
	if i < 0 {
		t.Fatalf("no %q in\n%s", text, p.all())
	}
	return p.texts[i]
}

// amounts returns the texts beside the axis.
func (p *picture) amounts() (all []string) {
	for _, d := range p.texts {
		if math.Abs(d.right-(plotLeft-gap-2)) < 0.1 {
			all = append(all, d.text)
		}
	}
	return all
}

// event returns where the event with a text is in the plot: at its number.
func (p *picture) event(t *testing.T, text string) (x float64) {
	t.Helper()
	entry := p.at(t, text)
	number := slices.IndexFunc(p.texts, func(d drawnText) bool { return d.top == entry.top && d.right < entry.left })
	if number < 0 {
		t.Fatalf("%q has no number", text)
	}
	i := slices.IndexFunc(p.texts, func(d drawnText) bool { return d.text == p.texts[number].text && d.top < p.top })
	if i < 0 {
		t.Fatalf("%q has no number in the plot", text)
	}
	return p.texts[i].left - gap
}

func TestThePictureHasTheSignalItsThresholdsAndWhatFollowed(t *testing.T) {
	r := softEviction()
	r.Signals = []decision.Series{
		{Signal: eviction.PIDAvailable, Unit: 1, Available: []int64{5}},
		{Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 0, Available: []int64{4096, -1596, -1600}},
	}
	r.Outcome.After = &decision.Series{Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 2000, Available: []int64{900, 2048}}
	r.Victim.Pod = "shop/<report>"
	p := drawn(t, r)
	for _, want := range []string{
		"shop/<report> was evicted for memory.available, which\nit took itself", "memory.available<500Mi", "memory.available<1Gi for 30s",
		"2Gi", "4Gi", "wake: memcg", "decided 12:00:50", "killed after 1.2s", "gone after 1.25s", "UTC", "12:00:49", "-1 s", "12:00:52", "2 s",
	} {
		if !strings.Contains(p.all(), want) {
			t.Errorf("no %q in\n%s", want, p.all())
		}
	}
	// It goes on after the kill, and its scale is that of what happened: half the height at least.
	points := p.of(blue)[0].points
	if len(points) != 5 {
		t.Fatalf("the line goes by %v, want three points before the decision and two after it", points)
	}
	if points[2][1]-points[0][1] < plotBottom/2 {
		t.Errorf("the line goes by %v", points)
	}
}

func TestTheExampleIsLegible(t *testing.T) { drawn(t, example()) }

func TestARecordOfNonsenseIsDrawnInThePicture(t *testing.T) {
	for _, of := range []decision.Series{
		{UntilMS: -math.MaxFloat64, Unit: math.MaxInt64, Available: []int64{math.MinInt64, 3, math.MaxInt64}},
		{UntilMS: math.MaxFloat64, Unit: 1, Available: []int64{math.MaxInt64}},
		{UntilMS: math.NaN(), Unit: -1, Available: []int64{math.MaxInt64, 0}},
		{UntilMS: math.Inf(-1), Unit: 0, Available: make([]int64, 3*maxUsage)},
	} {
		r := softEviction()
		of.Signal = eviction.MemoryAvailable
		r.Signals = []decision.Series{of}
		r.Outcome.After = &decision.Series{Signal: of.Signal, UntilMS: -of.UntilMS, Unit: 1, Available: make([]int64, 2*maxUsage)}
		r.Outcome.GoneMS, r.Outcome.ReliefMS = math.MaxFloat64, math.Inf(1)
		r.Thresholds[0].Value, r.Thresholds[1].Value = "1e999999999", "9223372036854775807"
		for range 100 {
			r.Thresholds = append(r.Thresholds, r.Thresholds[1])
		}
		r.Trigger, r.Causes = strings.Repeat("\x1b]0;", 1000), "<script>\u202e"
		r.Curves = []string{"shop/report", strings.Repeat("W", 5000)}
		hostile := strings.Repeat("日本", 1000)
		for i := range 1000 {
			r.Usage = append(r.Usage, decision.UsageSample{MS: of.UntilMS / float64(i), Used: []int64{math.MaxInt64, int64(i), -5}[:i%4]})
			r.Marks = append(r.Marks, decision.Mark{What: hostile, Text: hostile, MS: math.Inf(-1 + i%2), UntilMS: of.UntilMS},
				decision.Mark{What: decision.MarkReload, MS: of.UntilMS, Former: r.Thresholds})
		}
		p := drawn(t, r)
		if n := len(p.of(blue)[0].points); n != len(of.Available)+2*maxUsage || len(p.texts) > 200 {
			t.Errorf("%v ms: %d texts, %d points", of.UntilMS, len(p.texts), n)
		}
	}
}

// The curve has at least half of the height, amounts have two to four texts.
func TestAFallToHalfFillsThePicture(t *testing.T) {
	for _, c := range []struct {
		signal eviction.Signal
		unit   int64
		values [2]string
	}{
		{eviction.MemoryAvailable, 1 << 20, [2]string{"990Mi", "1Gi"}},
		{eviction.MemoryAvailable, 1 << 20, [2]string{"1Mi", "2Mi"}},
		{eviction.MemoryAvailable, 1 << 20, [2]string{"90Gi", "99Gi"}},
		{eviction.PIDAvailable, 7, [2]string{"3", "10"}},
	} {
		r := softEviction()
		r.Victim.Signal, r.Observations[0].Signal = string(c.signal), c.signal
		r.Signals = []decision.Series{{Signal: c.signal, Unit: c.unit, Available: []int64{3000, 0, -1500}}}
		for i, value := range c.values {
			r.Thresholds[i].Signal, r.Thresholds[i].Value = c.signal, value
		}
		p := drawn(t, r)
		if points := p.of(blue)[0].points; points[2][1]-points[0][1] < plotBottom/2 {
			t.Errorf("%v: the line goes by %v", c.values, points)
		}
		if n := len(p.amounts()); n < 2 || n > 4 {
			t.Errorf("%v: amounts %q", c.values, p.amounts())
		}
	}
}

// Amounts that differ by less than their own precision made ticks without end.
func TestHugeAmountsHaveAnEndOfTicks(t *testing.T) {
	r := softEviction()
	r.Signals = []decision.Series{{Signal: eviction.MemoryAvailable, Unit: 1, Available: []int64{math.MaxInt64 - 1, 1}}}
	if p := drawn(t, r); len(p.texts) > 40 {
		t.Errorf("%d texts", len(p.texts))
	}
}

func TestWithoutSamplesThereIsNoPicture(t *testing.T) {
	if _, err := Decision(softEviction(), "", ""); err == nil || !strings.Contains(err.Error(), "no samples of a signal are on record") {
		t.Errorf("error %v, want what is missing", err)
	}
}

// falling returns a record in which memory falls by 10Mi a second, from 1600Mi, for a minute.
func falling() *decision.Decision {
	r := softEviction()
	fall := make([]int64, 61)
	for i := range fall {
		fall[i] = -10
	}
	fall[0] = 1600
	r.Signals = []decision.Series{{Signal: eviction.MemoryAvailable, Unit: 1 << 20, Available: fall}}
	return r
}

// After a reload the new threshold was drawn over the time before it.
func TestThresholdsBeginAndEndWithTheReload(t *testing.T) {
	r := falling()
	reload := r.Time.Add(-20 * time.Second)
	r.Thresholds[0].Value = "900Mi"
	r.Thresholds[1].InForce = &reload
	former := []decision.Threshold{r.Thresholds[0], {Signal: eviction.MemoryAvailable, Value: "1300Mi"}, {Signal: eviction.PIDAvailable, Value: "5"}}
	r.Marks = []decision.Mark{{What: decision.MarkReload, Text: "memory.available<1Gi", MS: -20_000, UntilMS: -20_000, Former: former}}
	p := drawn(t, r)
	red := p.of(red)
	if len(red) != 3 {
		t.Fatalf("%d lines of thresholds, want 900Mi, 1Gi and the former 1300Mi\n%s", len(red), p.all())
	}
	at := p.event(t, "reload 12:00:30")
	for i, want := range [][2]float64{{plotLeft, plotRight}, {at, plotRight}, {plotLeft, at}} {
		if l := red[i]; math.Abs(l.points[0][0]-want[0]) > 1 || math.Abs(l.points[len(l.points)-1][0]-want[1]) > 1 || l.lighter != (i == 2) {
			t.Errorf("threshold %d goes by %v, lighter %v, want %v", i, l.points, l.lighter, want)
		}
	}
	p.at(t, "memory.available<1300Mi until 12:00:30")
}

// The former threshold that a second reload brought back is drawn in both times.
func TestAReloadThatIsTakenBackLeavesAGap(t *testing.T) {
	r := falling()
	back := r.Time.Add(-10 * time.Second)
	r.Thresholds[1].InForce = &back
	r.Thresholds[0].Value = "900Mi"
	r.Marks = []decision.Mark{
		{What: decision.MarkReload, MS: -30_000, UntilMS: -30_000, Former: r.Thresholds},
		{What: decision.MarkReload, MS: -10_000, UntilMS: -10_000, Former: r.Thresholds[:1]},
	}
	if red := drawn(t, r).of(red); len(red) != 3 || red[2].points[0][1] != red[1].points[0][1] || red[2].points[len(red[2].points)-1][0] >= red[1].points[0][0] {
		t.Errorf("lines %v, want 1Gi until the first reload and from the second one", red)
	}
}

func TestPlainNumbersAndSharesAreAmountsOfTheAxis(t *testing.T) {
	r := falling()
	r.Thresholds[0].Value, r.Thresholds[1].Value = "1342177280", "15%"
	r.Signals[0].Available[0] = 2600
	p := drawn(t, r)
	p.at(t, "memory.available<1342177280 (1.25Gi)")
	p.at(t, "memory.available<15% for 30s (1.2Gi)")
	for _, amount := range p.amounts() {
		if !strings.HasSuffix(amount, "Gi") {
			t.Errorf("%q is another unit than Gi", amount)
		}
	}
}

func TestTheUseOfTheVictimIsDrawn(t *testing.T) {
	r := falling()
	r.Curves = []string{"shop/web", "shop/report", "shop/cache"}
	for i := range 13 {
		used := []int64{2 << 30, int64(i) * 200 << 20, 1 << 20}
		if i == 6 {
			used[1] = -1
		}
		r.Usage = append(r.Usage, decision.UsageSample{MS: float64(-60_000 + 5000*i), Used: used})
	}
	r.Usage = r.Usage[:12]
	p := drawn(t, r)
	// It was not known at one time, and it was 3Gi at the decision.
	victim := slices.DeleteFunc(p.of(orange), func(l drawnLine) bool { return l.dashed })
	if len(victim) != 2 || len(victim[0].points) != 6 || len(victim[1].points) != 6 {
		t.Errorf("the use of the victim goes by %v", victim)
	}
	p.at(t, "shop/report uses 3Gi")
	p.at(t, "shop/web uses 2Gi")
	if strings.Contains(p.all(), "shop/cache") {
		t.Errorf("a third pod in\n%s", p.all())
	}
	// A use that is not known at the end has a name, too.
	r.Candidates[1].State, r.Usage[11].Used[1] = decision.StateUnknown, -1
	drawn(t, r).at(t, "shop/report uses 1.95Gi")
	r.Candidates[1].State, r.Usage[11].Used[1] = "", 2200<<20
	// The use is far from the signal: it is below, so that the signal has a third of the height.
	signal := p.of(blue)[0].points
	if fall := signal[60][1] - signal[0][1]; fall < plotBottom/3 || victim[1].points[5][1] <= signal[60][1] {
		t.Errorf("the signal falls by %v pixels, above %v", fall, victim)
	}
	// Near it the use is on the same axis.
	r.Signals[0].Available[0], r.Signals[0].Available[30] = 4000, -2400
	p = drawn(t, r)
	signal, victim = p.of(blue)[0].points, p.of(orange)[:2]
	if end := victim[1].points[5][1]; end <= signal[0][1] || end >= signal[60][1] {
		t.Errorf("3Gi are at %v, not between %v and %v", end, signal[0], signal[60])
	}
}

// Bands are waits; lines are the other marks.
func TestMarksAreInThePicture(t *testing.T) {
	r := falling()
	r.Marks = []decision.Mark{
		{What: decision.MarkWait, Text: "the end of shop/cache", MS: -30_000, UntilMS: -15_000},
		{What: decision.MarkPlugin, Text: "memory <ended>", MS: -40_000, UntilMS: -40_000},
	}
	r.Timeline.ObservedMS = -1500
	p := drawn(t, r)
	wait := p.event(t, "12:00:20 the end of shop/cache")
	p.event(t, "12:00:10 memory <ended>")
	if at := p.event(t, "wake: memcg"); at >= p.event(t, "decided") {
		t.Errorf("the wake is at %v, after the decision", at)
	}
	for _, rect := range p.Group.Rects {
		if rect.Width > 1 && (math.Abs(rect.X-wait) > 1 || math.Abs(rect.Width-(p.event(t, "decided")-wait)/2) > 1) {
			t.Errorf("the wait is %+v, it begins at %v", rect, wait)
		}
	}
}

// Colours have another one on a dark screen, and are there without style sheets.
func TestAPictureIsForDarkScreensToo(t *testing.T) {
	r := falling()
	r.Curves, r.Usage = []string{"shop/web", "shop/report"}, []decision.UsageSample{{MS: -1000, Used: []int64{1, 2}}}
	p := drawn(t, r)
	if !strings.HasPrefix(p.Style, "@media screen and (prefers-color-scheme: dark) {") || strings.Count(p.Style, "@") != 1 {
		t.Errorf("style %q", p.Style)
	}
	for _, d := range p.texts {
		if !strings.Contains(p.Style, `[fill="`+d.colour+`"]`) {
			t.Errorf("%q is %q on a dark screen", d.text, d.colour)
		}
	}
	for _, l := range p.lines {
		if !strings.Contains(p.Style, `[stroke="`+l.colour+`"]`) {
			t.Errorf("a line is %q on a dark screen", l.colour)
		}
	}
}

// Of a storm of marks the last ones are drawn, with the number of the others.
func TestAStormOfMarksIsBounded(t *testing.T) {
	r := falling()
	for i := range 50 {
		r.Marks = append(r.Marks, decision.Mark{What: decision.MarkPlugin, Text: "memory started", MS: float64(-50_000 + 1000*i), UntilMS: float64(-50_000 + 1000*i)})
	}
	p := drawn(t, r)
	p.at(t, "34 marks until here are not drawn")
	if n := strings.Count(p.all(), "memory started"); n != 16 {
		t.Errorf("%d marks are drawn", n)
	}
}

// Labels were on curves and on other labels.
func TestNoLabelIsOnACurveOrAnotherLabel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	records := 60
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		records = 300
	}
	for i := range records {
		r := randomRecord(random)
		if drawn(t, r); t.Failed() {
			t.Fatalf("record %d", i)
		}
	}
}

func randomRecord(random *rand.Rand) *decision.Decision {
	r := softEviction()
	signals := []struct {
		signal eviction.Signal
		unit   int64
		values []string
	}{
		{eviction.MemoryAvailable, 1 << 20, []string{"1Gi", "10%", "1500000000", "900Mi", "2Gi"}},
		{eviction.NodeFsAvailable, 1 << 24, []string{"5%", "15%", "10Gi", "64000000000"}},
		{eviction.PIDAvailable, 1, []string{"5%", "1000", "2k"}},
		{eviction.NodeFsInodesFree, 1000, []string{"5%", "100k", "2M"}},
	}
	s := signals[random.IntN(len(signals))]
	threshold := func() decision.Threshold {
		t := decision.Threshold{Signal: s.signal, Value: s.values[random.IntN(len(s.values))]}
		if random.IntN(2) == 0 {
			t.GracePeriod = []string{"30s", "1m30s", "5m"}[random.IntN(3)]
		}
		if random.IntN(3) == 0 {
			from := r.Time.Add(-time.Duration(random.Int64N(int64(10 * time.Minute))))
			t.InForce = &from
		}
		return t
	}
	r.Thresholds = nil
	for range 1 + random.IntN(4) {
		r.Thresholds = append(r.Thresholds, threshold())
	}
	r.Thresholds[0].Acted = true
	r.Victim.Signal = string(s.signal)
	r.Observations[0].Signal, r.Observations[0].Capacity = s.signal, 8000*s.unit
	before, after := walk(random, 1+random.IntN(600)), walk(random, 1+random.IntN(300))
	r.Signals = []decision.Series{{Signal: s.signal, Unit: s.unit, Available: before}}
	r.Outcome.After = &decision.Series{Signal: s.signal, Unit: s.unit, UntilMS: float64(1000 * len(after)), Available: after}
	r.Outcome.KilledMS = random.Float64() * 40_000
	r.Outcome.GoneMS = r.Outcome.KilledMS + random.Float64()*1000
	r.Outcome.ReliefMS = r.Outcome.GoneMS + random.Float64()*10_000
	r.Timeline.ObservedMS = -random.Float64() * 2000
	if random.IntN(2) == 0 {
		r.Curves = []string{"shop/report", "shop/web"}[:1+random.IntN(2)]
		one, two := walk(random, len(before)), walk(random, len(before))
		var used [2]int64
		for i := range before {
			used[0], used[1] = used[0]+one[i]*s.unit, used[1]+two[i]*s.unit
			r.Usage = append(r.Usage, decision.UsageSample{MS: float64(1000 * (i - len(before))), Used: []int64{max(-1, used[0]), max(-1, used[1])}})
		}
	}
	for range random.IntN(3) * random.IntN(20) {
		m := decision.Mark{What: []string{decision.MarkReload, decision.MarkWait, decision.MarkPlugin, decision.MarkStart, decision.MarkStandby}[random.IntN(5)], MS: -random.Float64() * 600_000}
		m.UntilMS = m.MS
		m.Text = []string{"memory", "the end of shop/cache", "ranker of version 1.2.3 ended after a failure", "日本\x1b[31m", "<b>" + strings.Repeat("W", 200)}[random.IntN(5)]
		switch m.What {
		case decision.MarkWait:
			m.UntilMS += random.Float64() * 60_000
		case decision.MarkReload:
			m.Former = []decision.Threshold{threshold(), threshold()}
		}
		r.Marks = append(r.Marks, m)
	}
	return r
}

// walk returns a random curve as a first value and differences.
func walk(random *rand.Rand, n int) []int64 {
	steps := make([]int64, n)
	steps[0] = random.Int64N(4000)
	for i, at, most := 1, steps[0], 1+random.Int64N(400); i < n; i++ {
		steps[i] = max(random.Int64N(2*most)-most, -at)
		at += steps[i]
	}
	return steps
}
