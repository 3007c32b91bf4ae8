package tell

import (
	"bytes"
	"embed"
	"html/template"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
)

// Bounds of a page: pods of a table, decisions told in full, and pictures of episodes.
const rowsShown, decisionsShown, coursesShown = 200, 50, 8

// templates has the templates of a page, and its style sheet.
//
//go:embed templates
var templates embed.FS

// A page has the values of the template page.html.
type page struct {
	Title shown
	// Episode has what several decisions have in common, nil for one decision.
	Episode   *pageEpisode
	Decisions []pageDecision
}

// HTML describes decisions as one page without scripts and without anything to load: of one all that Text has,
// with its picture, of several also what Episode has. said is the output of If, which may be empty.
func HTML(all []*decision.Decision, said []byte, now time.Time) []byte {
	p := page{Title: show("evictd: " + titleOf(all))}
	if len(all) > 1 {
		p.Episode = newPageEpisode(all, now)
	}
	for i := max(0, len(all)-decisionsShown); i < len(all); i++ {
		d := newPageDecision(all[i], letter(i), len(all) == 1, now)
		if i == 0 {
			d.Said = saidLines(said)
		}
		p.Decisions = append(p.Decisions, d)
	}
	return render("page.html", p)
}

// titleOf names decisions.
func titleOf(all []*decision.Decision) string {
	if len(all) > 1 {
		return format.Counted(len(all), "decision") + " on " + all[0].Node
	}
	return shortTitle(all[0])
}

// render executes a template, which escapes all text. Only a page needs the templates, so they are parsed here and
// not when the program starts.
func render(name string, values any) []byte {
	var b bytes.Buffer
	if err := template.Must(template.ParseFS(templates, "templates/*")).ExecuteTemplate(&b, name, values); err != nil {
		panic(err) // the template names a field that its values lack
	}
	return b.Bytes()
}

// shown is text of a page: one line of bounded length, without characters that affect a terminal or the direction of
// writing. Markup in it is for the template to escape.
type shown string

func show(text string) shown { return shown(printable.ClipText(text)) }

// A pageLine is a line of a text. Label is empty if it is that of the line before.
type pageLine struct {
	Label, Text shown
	// Code: the line has YAML.
	Code bool
}

func pageLines(lines []labeled) (all []pageLine) {
	former := ""
	for _, l := range lines {
		line := pageLine{Text: show(l.text), Code: strings.Contains(l.text, "resources: {")}
		if l.label != former {
			line.Label = show(l.label)
		}
		former = l.label
		all = append(all, line)
	}
	return all
}

// lines returns what parts of a text say of a decision.
func lines(d *decision.Decision, parts ...func(*text)) []pageLine {
	w := &text{r: d}
	for _, part := range parts {
		part(w)
	}
	return pageLines(w.lines)
}

// saidLines returns the output of If.
func saidLines(said []byte) []pageLine {
	var all []labeled
	for line := range strings.Lines(string(said)) {
		all = append(all, labeled{"what if", strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "what if"))})
	}
	return pageLines(all)
}
