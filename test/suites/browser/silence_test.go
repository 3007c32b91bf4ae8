package browser

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wide names what reaches over the right edge of the screen, but for what scrolls by itself.
const wide = `document.documentElement.scrollWidth <= innerWidth ? [] : ["the page: " + document.documentElement.scrollWidth].concat(
	[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.parentElement.closest(".table"))
	.map(e => e.localName + " " + e.textContent.slice(0, 40)))`

func TestAPageDoesNothingButShowItself(t *testing.T) {
	for name, file := range pages(t) {
		p := open(t, file, 360, "light")
		p.unfold()
		if got := p.events(); !slices.Equal(got, []string{"request file://" + file}) {
			t.Errorf("%s: %q, want the page alone", name, got)
		}
		if name != "example" { // in the others a record is hostile
			if n := evaluate[int](p, `document.querySelectorAll("script, img, iframe, a:not([href^=data], [href^='#']), [onfocus], [onerror], style:not(head style, svg style)").length`); n != 0 {
				t.Errorf("%s: %d elements are of a record", name, n)
			}
		}
	}
}

// markupIn puts markup into a page as it is, before the end.
func markupIn(t *testing.T, page string) string {
	t.Helper()
	const end = "</main>"
	if !strings.Contains(page, end) {
		t.Fatal("the page has no end")
	}
	name := filepath.Join(t.TempDir(), "why.html")
	if err := os.WriteFile(name, []byte(strings.Replace(page, end, strings.TrimPrefix(markup, `">`)+end, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Without the escapes the policy of the page still stops all of it, which the console says, and without the policy all of it happens.
func TestMarkupIsStoppedTwice(t *testing.T) {
	page := string(explain(t, example, "--html"))
	const policy = "default-src 'none'; style-src 'unsafe-inline'"
	if !strings.Contains(page, policy) {
		t.Fatal("the page has no policy")
	}
	got := strings.Join(open(t, markupIn(t, page), desk, "light").events(), "\n")
	for _, want := range []string{"inline script violates", "inline event handler violates", "Loading the image", "Loading the stylesheet"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among\n%s", want, got)
		}
	}
	if strings.Contains(got, "dialog") {
		t.Errorf("a script ran:\n%s", got)
	}
	got = strings.Join(open(t, markupIn(t, strings.Replace(page, policy, "", 1)), desk, "light").events(), "\n")
	for _, want := range []string{"dialog 1", "dialog 2", "request http://evil.example/x", "request http://evil.example/y"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not among\n%s", want, got)
		}
	}
}

func TestAPageIsAsNarrowAsAPhone(t *testing.T) {
	for name, file := range pages(t) {
		p := open(t, file, phone, "light")
		for range 2 {
			for _, width := range []int64{phone, 360, 640, desk} {
				p.screen(width, "light")
				p.settle()
				if got := evaluate[[]string](p, wide); len(got) > 0 {
					t.Errorf("%s at %d: %.50q", name, width, got)
				}
				if width == desk {
					continue
				}
				if got := evaluate[[]string](p, broken); len(got) > 0 {
					t.Errorf("%s at %d: a word is broken in %.50q", name, width, got)
				}
			}
			p.unfold()
		}
		p.screen(phone, "light")
		evaluate[any](p, spaced)
		if got := evaluate[[]string](p, wide); len(got) > 0 {
			t.Errorf("%s with more space between letters: %.50q", name, got)
		}
	}
	p := open(t, written(t, example), 360, "light")
	evaluate[any](p, `document.querySelector("h1").style.width = "500px"`)
	if got := evaluate[[]string](p, wide); len(got) < 2 {
		t.Errorf("a heading of 500 pixels is not noticed: %q", got)
	}
	evaluate[any](p, `document.querySelectorAll(".table, table").forEach(e => { e.style.overflowWrap = "anywhere"; e.style.width = "150px" })`)
	if got := evaluate[[]string](p, broken); len(got) < 2 {
		t.Errorf("words in tables of 150 pixels are not noticed: %q", got)
	}
}

// spaced sets what some readers need between letters, words and lines (WCAG 1.4.12).
const spaced = `(e => { e.textContent = "* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important }"; document.head.append(e) })(document.createElement("style"))`

// broken names cells of tables that have several lines for one short word. A link and its text are two rectangles of one line.
const broken = `[...document.querySelectorAll("th, td")].filter(e => e.checkVisibility() && /^\S{1,20}$/.test(e.textContent) &&
	(r => (r.selectNodeContents(e), new Set([...r.getClientRects()].map(line => line.top)).size > 1 && !/-/.test(e.textContent)))(document.createRange())).map(e => e.textContent)`
