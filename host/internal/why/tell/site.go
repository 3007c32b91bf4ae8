package tell

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/why/tell/picture"
)

// Style returns the style sheet of pages that Begin begins.
func Style() string {
	return style + strings.TrimSuffix(strings.TrimPrefix(picture.Dark, "<style>"), "</style>")
}

// A Link is the name of a view of a site and its path below the root.
type Link struct{ Name, Path string }

// Begin begins a page of a site with links to its views, of which one is current. It loads style.css and page.js
// below root.
func Begin(root, title, current string, views []Link) *Page {
	p := &Page{root: root}
	p.raw(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/><meta name="viewport" content="width=device-width, initial-scale=1"/>`)
	p.element("title", "", "evictd: "+title)
	fmt.Fprintf(&p.b, `<link rel="icon" href="data:,"/><link rel="stylesheet" href="%[1]sstyle.css"/><script type="module" src="%[1]spage.js"></script></head><body>`+"\n", escaped(root))
	p.raw(`<nav aria-label="views"><ul>`)
	for _, v := range views {
		here := ""
		if v.Path == current {
			here = ` aria-current="page"`
		}
		fmt.Fprintf(&p.b, `<li><a href="%s"%s>%s</a></li>`, escaped(root+v.Path), here, escaped(v.Name))
	}
	p.raw("</ul></nav>\n")
	return p
}

// End ends a page that Begin began, and returns it.
func (p *Page) End() []byte {
	p.raw("</body></html>\n")
	return p.b.Bytes()
}

// Main writes the main part of a page with its heading, unless write has one.
func (p *Page) Main(heading string, write func()) {
	p.raw("<main>\n")
	if heading != "" {
		p.element("h1", "", heading)
	}
	write()
	p.raw("</main>\n")
}

// Text writes a paragraph.
func (p *Page) Text(text string) { p.element("p", "", text) }

// Live marks a page that a script keeps current, and has the place where it says that it cannot.
func (p *Page) Live() { p.raw(`<p id="live" role="status"></p>` + "\n") }

// Choices writes links of which one is chosen, that without a path.
func (p *Page) Choices(name string, all []Link) {
	p.raw(`<p class="choices">` + escaped(name) + ": ")
	for i, c := range all {
		if i > 0 {
			p.raw(" · ")
		}
		if c.Path == "" {
			p.raw("<b>" + escaped(c.Name) + "</b>")
			continue
		}
		fmt.Fprintf(&p.b, `<a href="%s">%s</a>`, escaped(p.root+c.Path), escaped(c.Name))
	}
	p.raw("</p>\n")
}

// Evictions writes a table of decisions. Kinds, pods, owners and signals lead to those of the same, by filter, and
// records to why.
func (p *Page) Evictions(heads []decision.Head, filter func(key, value string) string, why func(id string) string) {
	rows := [][]string{{"time", "decision", "pod", "owner", "signal", "used", "came back", "what followed", "record", "episode"}}
	for i := range heads {
		rows = append(rows, append(evictionRow(&heads[i]), heads[i].Episode))
	}
	p.Table("Decisions, the newest first", rows, func(row, column int) string {
		switch h := &heads[row-1]; {
		case rows[row][column] == "":
			return ""
		case column == 1:
			return filter("kind", h.Kind)
		case column == 2:
			return filter("what", h.Pod)
		case column == 3:
			return filter("what", h.OwnerName())
		case column == 4:
			return filter("signal", h.Signal)
		case column == 8:
			return why(h.ID)
		case column == 9:
			return why(h.Episode)
		}
		return ""
	})
}

// storm is the number of an owner's pods evicted in one episode from which Storms shows the owner.
const storm = 3

// Storms writes a table of the owners of which many pods were evicted in one episode. The heads are the newest first.
func (p *Page) Storms(heads []decision.Head, why func(what string) string) {
	groups, seen, keys := map[string][]*decision.Head{}, map[string]bool{}, []string(nil)
	for i := range heads {
		h := &heads[i]
		key := h.Episode + " " + h.OwnerName()
		if h.OwnerName() == "" || h.UID == "" || h.DryRun || seen[key+" "+h.UID] { // one whose kill failed is evicted again
			continue
		}
		seen[key+" "+h.UID] = true
		if groups[key] = append(groups[key], h); len(groups[key]) == storm {
			keys = append(keys, key)
		}
	}
	rows := [][]string{{"owner", "evictions", "from", "until", "episode"}}
	for _, key := range keys {
		g := groups[key]
		rows = append(rows, []string{g[0].OwnerName(), strconv.Itoa(len(g)), g[len(g)-1].Time.UTC().Format(time.DateTime), g[0].Time.UTC().Format(time.DateTime), g[0].Episode})
	}
	if len(keys) > 0 {
		p.Section("Made again and again", func() {
			p.Table("Owners of which at least three pods were evicted in an episode", rows, func(row, column int) string {
				if column == 0 || column == 4 {
					return why(rows[row][column])
				}
				return ""
			})
		})
	}
}

// Next writes how far the thresholds of a ranking are from being acted on, who would go then, and the picture of
// the last minutes.
func (p *Page) Next(ranking *decision.Decision) {
	w := &text{r: ranking}
	w.now()
	w.line("would go", "%s", w.wouldGo())
	p.list(w.lines)
	if _, err := SVG(ranking); err == nil { // else just after the start, or the signal is absent
		p.picture(ranking)
	}
}

// Ranking writes a whole ranking.
func (p *Page) Ranking(ranking *decision.Decision) {
	w := &text{r: ranking}
	w.now()
	p.list(w.lines)
	p.ranking(ranking)
}

// Beside writes the order of a ranking with the places that another one has for the same pods.
func (p *Page) Beside(ranking, other *decision.Decision) {
	places := map[string]string{}
	for place, at := range other.Order {
		places[other.Candidates[at].UID] = strconv.Itoa(place + 1)
	}
	rows := [][]string{{"pod", "by " + rankerOf(ranking), "by " + rankerOf(other), "reason of the latter"}}
	reasons := map[string]string{}
	for i := range other.Candidates {
		reasons[other.Candidates[i].UID] = other.Candidates[i].Reason
	}
	for place, at := range ranking.Order {
		c := &ranking.Candidates[at]
		rows = append(rows, []string{c.Pod, strconv.Itoa(place + 1), cmp.Or(places[c.UID], "left out"), reasons[c.UID]})
	}
	p.Table("Places by another ranker", rows, nil)
}
