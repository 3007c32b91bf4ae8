package browser

import (
	"bytes"
	"compress/zlib"
	"io"
	"maps"
	"os/exec"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
)

// printed returns the sheets of a page on paper, and how often each colour fills something.
func printed(p *tab, paper chromedp.PaperSize) (sheets int, colours map[string]int) {
	p.Helper()
	pdf, err := chromedp.Run(p.Context, chromedp.PrintToPDF(chromedp.PDFPaper(paper)))
	p.must(err)
	colours = map[string]int{}
	for _, stream := range regexp.MustCompile(`(?s)stream\r?\n(.*?)endstream`).FindAllSubmatch(pdf, -1) {
		z, err := zlib.NewReader(bytes.NewReader(stream[1]))
		if err != nil {
			continue // a font
		}
		drawn, _ := io.ReadAll(z) // as far as it is one
		for _, colour := range regexp.MustCompile(`[.\d]+ [.\d]+ [.\d]+ rg`).FindAll(drawn, -1) {
			colours[string(colour)]++
		}
	}
	return len(regexp.MustCompile(`/Type ?/Page\b`).FindAll(pdf, -1)), colours
}

func TestADecisionIsTwoSheetsOfPaper(t *testing.T) {
	p := open(t, written(t, example), desk, "dark")
	for _, paper := range []chromedp.PaperSize{chromedp.PaperA4, chromedp.PaperLetter} {
		if n, _ := printed(p, paper); n < 1 || n > 2 {
			t.Errorf("%d sheets of %v, want two at most", n, paper)
		}
	}
	if n, _ := printed(open(t, written(t, file(t, disk(t))), desk, "light"), chromedp.PaperA4); n < 2 {
		t.Errorf("%d sheets of 40 pods, want more than one", n)
	}
}

// Light letters for a dark screen were printed on white paper.
func TestPaperIsWhiteAtNight(t *testing.T) {
	p := open(t, written(t, example), desk, "light")
	_, day := printed(p, chromedp.PaperA4)
	p.screen(desk, "dark")
	if _, night := printed(p, chromedp.PaperA4); len(day) < 5 || !maps.Equal(day, night) {
		t.Errorf("colours at night %v, want those of the day %v", night, day)
	}
	if ink := evaluate[string](p, `getComputedStyle(document.body).color`); ink != "rgb(230, 237, 243)" {
		t.Errorf("letters are %s on a dark screen, want light ones", ink)
	}
}

func TestThePictureAloneIsDrawnElsewhere(t *testing.T) {
	for name, r := range map[string]string{"example": example, "disk": file(t, disk(t)), "hostile": file(t, hostile(t))} {
		alone := explain(t, r, "--svg")
		for of, svg := range map[string][]byte{"alone": alone, "in the page": regexp.MustCompile(`(?s)<svg .*</svg>`).Find(explain(t, r, "--html"))} {
			draw := exec.CommandContext(t.Context(), "rsvg-convert")
			draw.Stdin = bytes.NewReader(svg)
			png, err := draw.Output()
			if err != nil || !bytes.HasPrefix(png, []byte("\x89PNG")) {
				t.Errorf("%s, %s: rsvg-convert: %v", name, of, err)
			}
		}
	}
	broken := exec.CommandContext(t.Context(), "rsvg-convert")
	broken.Stdin = bytes.NewReader([]byte(`<svg xmlns="http://www.w3.org/2000/svg" role="img" role="img" width="1" height="1"/>`))
	if broken.Run() == nil {
		t.Error("rsvg-convert draws what is no XML")
	}
}

// The pictures are for people to look at; bin/test/pages has them.
func TestPagesAreKeptAsPictures(t *testing.T) {
	files := pages(t)
	for name, of := range map[string]struct {
		page, scheme string
		width        int64
	}{
		"light": {"example", "light", desk}, "dark": {"example", "dark", desk}, "phone": {"example", "light", 360},
		"episode": {"episode", "light", desk}, "episode-phone": {"episode", "dark", 360},
	} {
		open(t, files[of.page], of.width, of.scheme).shot(name)
	}
}
