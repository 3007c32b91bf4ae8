package tell

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

// drawn returns the texts of a picture and the points of its line, all of it read as XML.
func drawn(t *testing.T, r *decision.Decision) (texts []string, points []string) {
	t.Helper()
	picture, err := SVG(r)
	if err != nil {
		t.Fatal(err)
	}
	in := xml.NewDecoder(strings.NewReader(string(picture)))
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return texts, points
		}
		if err != nil {
			t.Fatalf("%v in %s", err, picture)
		}
		switch token := token.(type) {
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		case xml.StartElement:
			for _, a := range token.Attr {
				if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
					t.Errorf("<%s %s=%q> is no place", token.Name.Local, a.Name.Local, a.Value)
				}
				within(t, a.Name.Local, a.Value)
				if strings.Contains(a.Value, "var(") || slices.Contains([]string{"style", "class"}, a.Name.Local) || token.Name.Local == "style" {
					t.Errorf("<%s %s=%q> is for browsers alone", token.Name.Local, a.Name.Local, a.Value)
				}
				if a.Name.Local == "points" {
					points = strings.Fields(a.Value)
					for _, point := range points {
						x, y, _ := strings.Cut(point, ",")
						within(t, "x", x)
						within(t, "y", y)
					}
				}
			}
		}
	}
}

// within checks that a coordinate is inside of the picture.
func within(t *testing.T, name, value string) {
	t.Helper()
	most := map[string]float64{"x": pictureWidth, "x1": pictureWidth, "x2": pictureWidth, "y": pictureHeight, "y1": pictureHeight, "y2": pictureHeight}[name]
	if at, err := strconv.ParseFloat(value, 64); most > 0 && (err != nil || at < 0 || at > most) {
		t.Errorf("%s=%q is outside of the picture", name, value)
	}
}

func TestThePictureHasTheSignalItsThresholdsAndWhatFollowed(t *testing.T) {
	r := softEviction()
	r.Signals = []decision.Series{
		{Signal: eviction.PIDAvailable, Unit: 1, Available: []int64{5}},
		{Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 0, Available: []int64{4096, -1596, -1600}},
	}
	r.Outcome.After = &decision.Series{Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 2000, Available: []int64{900, 2048}}
	r.Victim.Pod = "shop/<report>"
	texts, points := drawn(t, r)
	all := strings.Join(texts, "\n")
	for _, want := range []string{
		"shop/<report> was evicted for memory.available, which it took itself", "memory.available<500Mi", "memory.available<1Gi for 30s",
		"2Gi", "4Gi", "decided 12:00:50", "killed after 1.2s", "gone after 1.25s",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	// It goes on after the kill, and its scale is that of what happened: half the height at least.
	if len(points) != 5 {
		t.Fatalf("the line goes by %v, want three points before the decision and two after it", points)
	}
	if top, bottom := height(t, points[0]), height(t, points[2]); bottom-top < (plotBottom-plotTop)/2 {
		t.Errorf("the line goes from %v to %v", top, bottom)
	}
}

func height(t *testing.T, point string) float64 {
	t.Helper()
	_, y, _ := strings.Cut(point, ",")
	at, err := strconv.ParseFloat(y, 64)
	if err != nil || at < plotTop || at > plotBottom {
		t.Fatalf("%q is outside of the plot", point)
	}
	return at
}

func TestARecordOfNonsenseIsDrawnInThePicture(t *testing.T) {
	for _, of := range []decision.Series{
		{UntilMS: -math.MaxFloat64, Unit: math.MaxInt64, Available: []int64{math.MinInt64, 3, math.MaxInt64}},
		{UntilMS: math.MaxFloat64, Unit: 1, Available: []int64{math.MaxInt64}},
		{UntilMS: math.NaN(), Unit: -1, Available: []int64{math.MaxInt64, 0}},
		{UntilMS: math.Inf(-1), Unit: 0, Available: make([]int64, 3*maxPlotted)},
	} {
		r := softEviction()
		of.Signal = eviction.MemoryAvailable
		r.Signals = []decision.Series{of}
		r.Outcome.After = &decision.Series{Signal: of.Signal, UntilMS: -of.UntilMS, Unit: 1, Available: make([]int64, 2*maxPlotted)}
		r.Outcome.GoneMS, r.Outcome.ReliefMS = math.MaxFloat64, math.Inf(1)
		r.Thresholds[0].Value, r.Thresholds[1].Value = "1e999999999", "9223372036854775807"
		for range 100 {
			r.Thresholds = append(r.Thresholds, r.Thresholds[1])
		}
		texts, points := drawn(t, r)
		if len(points) != len(of.Available)+2*maxPlotted || len(texts) == 0 || len(texts) > 200 {
			t.Errorf("%v ms: %d texts, %d points", of.UntilMS, len(texts), len(points))
		}
	}
}

// The curve has at least half of the height, amounts have two to four texts, and no text is on another.
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
		texts, points := drawn(t, r)
		if top, bottom := height(t, points[0]), height(t, points[2]); bottom-top < (plotBottom-plotTop)/2 {
			t.Errorf("%v: the line goes from %v to %v", c.values, top, bottom)
		}
		amounts := 0
		for _, text := range texts {
			if regexp.MustCompile(`^[0-9.]+([KMG]i)?$`).MatchString(text) && text != "0" {
				amounts++
			}
		}
		if amounts < 2 || amounts > 4 {
			t.Errorf("%v: amounts in %q", c.values, texts)
		}
		apart(t, r)
	}
}

// apart checks that the texts of events, and those of thresholds, are in rows of their own.
func apart(t *testing.T, r *decision.Decision) {
	t.Helper()
	picture, err := SVG(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, colour := range []string{red, grey} {
		var rows []float64
		for _, m := range regexp.MustCompile(`<text x="[^"]*" y="([^"]*)"[^>]* fill="`+colour).FindAllSubmatch(picture, -1) {
			row, _ := strconv.ParseFloat(string(m[1]), 64)
			rows = append(rows, row)
		}
		slices.Sort(rows)
		for i := range rows[1:] {
			if rows[i+1]-rows[i] < 12 {
				t.Errorf("texts of %s are at %v", colour, rows)
			}
		}
	}
}

// Amounts that differ by less than their own precision made ticks without end.
func TestHugeAmountsHaveAnEndOfTicks(t *testing.T) {
	r := softEviction()
	r.Signals = []decision.Series{{Signal: eviction.MemoryAvailable, Unit: 1, Available: []int64{math.MaxInt64 - 1, 1}}}
	if texts, _ := drawn(t, r); len(texts) > 40 {
		t.Errorf("%d texts", len(texts))
	}
}

func TestWithoutSamplesThereIsNoPicture(t *testing.T) {
	if _, err := SVG(softEviction()); err == nil || !strings.Contains(err.Error(), `no sample of "memory.available"`) {
		t.Errorf("error %v, want what is missing", err)
	}
}
