package browser

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// stops names what a keyboard has to reach, in the order of the page: links, what folds, and what scrolls by itself.
const stops = `[...document.querySelectorAll("*")].filter(e => e.checkVisibility() && (e.matches("summary, a[href], [tabindex]") ||
	e.scrollWidth > e.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(e).overflowX) && e != document.documentElement))
	.map((e, i) => (e.dataset.stop = i, i + " " + e.localName + " " + (e.ariaLabel || e.textContent).slice(0, 40)))`

// A focus describes the element that has it, as a person sees it.
type focus struct {
	Stop            int
	Ring, InSight   bool
	Tag, Tabindex   string
	Scrolls, Opened bool
}

// focused describes the element with the focus, -1 outside of the page. Its ring of 4 pixels is in sight, unless it is higher
// than the screen.
const focused = `(e => { const r = e.getBoundingClientRect(), s = getComputedStyle(e); return {
	Stop: Number(e.dataset.stop ?? -1), Ring: s.outlineStyle != "none" && parseFloat(s.outlineWidth) >= 2,
	InSight: r.width > 0 && r.left >= 4 && r.right <= innerWidth - 4 && (r.height > innerHeight - 8 ? r.top < innerHeight && r.bottom > 0 : r.top >= 4 && r.bottom <= innerHeight - 4),
	Tag: e.localName, Tabindex: e.getAttribute("tabindex") ?? "", Scrolls: e.scrollWidth > e.clientWidth + 1, Opened: !!e.parentElement?.open }})(document.activeElement)`

// press presses a key, and waits until the page has followed.
func press(p *tab, key string) focus {
	p.Helper()
	p.must(chromedp.Do(p.Context, chromedp.KeyEvent(key)))
	p.settle()
	return evaluate[focus](p, focused)
}

// tabbed presses Tab through the page, which ends outside of it, and returns what got the focus.
func tabbed(p *tab, most int) (all []focus) {
	p.Helper()
	for range most + 1 {
		f := press(p, kb.Tab)
		if f.Stop < 0 {
			break
		}
		all = append(all, f)
	}
	return all
}

func TestAllOfAPageIsInReachOfTheKeyboard(t *testing.T) {
	for name, file := range pages(t) {
		t.Run(name, func(t *testing.T) {
			p := open(t, file, 360, "light")
			want := evaluate[[]string](p, stops)
			folded := 0
			for i := 0; i < len(want); i++ { // what unfolds adds to it
				f := press(p, kb.Tab)
				if f.Tag != "summary" {
					continue
				}
				folded++
				if f := press(p, kb.Enter); !f.Opened {
					t.Fatalf("Enter does not open %q", want[i])
				}
				want = evaluate[[]string](p, stops)
			}
			if inPage := evaluate[int](p, `document.querySelectorAll("details").length`); folded != inPage {
				t.Errorf("%d of %d parts were unfolded", folded, inPage)
			}
			if f := press(p, kb.Tab); f.Stop >= 0 {
				t.Fatalf("%+v is in reach, but not in %q", f, want)
			}
			got := tabbed(p, len(want))
			if len(got) != len(want) {
				t.Fatalf("%d stops, want %q", len(got), want)
			}
			for i, f := range got {
				if f.Stop != i || !f.Ring || !f.InSight || f.Scrolls && f.Tabindex != "0" {
					t.Errorf("stop %q: %+v", want[i], f)
				}
			}
		})
	}
}

func TestKeysFoldAndScroll(t *testing.T) {
	p := open(t, written(t, file(t, disk(t))), phone, "dark")
	p.must(chromedp.Do(p.Context, chromedp.Focus(chromedp.CSS("summary"))))
	if press(p, kb.Enter); !evaluate[bool](p, `document.querySelector("details").open`) {
		t.Error("Enter does not unfold")
	}
	if press(p, kb.Enter); evaluate[bool](p, `document.querySelector("details").open`) {
		t.Error("Enter does not fold")
	}
	p.must(chromedp.Do(p.Context, chromedp.Focus(chromedp.CSS(`[aria-label^="Order"]`)), chromedp.KeyEvent(kb.ArrowRight)))
	if _, err := chromedp.Run(p.Context, chromedp.Poll[bool](`document.activeElement.scrollLeft > 0`)); err != nil {
		t.Errorf("the table does not scroll by the arrow: %v", err)
	}
}

// Without a ring, and with a part that takes no focus, the same look finds it.
func TestALostFocusIsNoticed(t *testing.T) {
	p := open(t, written(t, example), 360, "light")
	evaluate[any](p, `(e => { e.textContent = "summary { outline: none !important }"; document.head.append(e) })(document.createElement("style"))`)
	evaluate[any](p, `document.querySelector("a").tabIndex = -1`)
	want := evaluate[[]string](p, stops)
	got := tabbed(p, len(want))
	if len(got) != len(want)-1 || !slices.ContainsFunc(got, func(f focus) bool { return f.Tag == "summary" && !f.Ring }) {
		t.Errorf("%+v of %q", got, want)
	}
}
