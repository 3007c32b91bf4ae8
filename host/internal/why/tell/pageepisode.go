package tell

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/host/internal/why/tell/picture"
	"github.com/evictd/evictd/shared/eviction"
)

// A pageEpisode has the values of the template episode: what several decisions have in common, with a row for each.
type pageEpisode struct {
	Heading shown
	Glance  []pageLine
	// Others has other thresholds at the first decision that acted on a threshold.
	Others      pageTable
	Storms      pageTable
	Courses     []pagePicture
	MoreCourses int // beyond coursesShown
	Decisions   pageTable
}

func newPageEpisode(all []*decision.Decision, now time.Time) *pageEpisode {
	w, heads := episodeHead(all, now)
	p := &pageEpisode{Heading: show(titleOf(all)), Glance: pageLines(append([]labeled{{"when", w.heading}}, w.lines...)), Storms: storms(heads), Decisions: decisionsTable(all, heads)}
	if at := slices.IndexFunc(all, func(d *decision.Decision) bool { return d.Acted() != nil }); at >= 0 {
		p.Others = othersTable(all[at])
	}
	p.Courses, p.MoreCourses = courses(all, heads)
	return p
}

// decisionsTable has a row for each decision, from which a link leads to the decision if the page has it in full.
func decisionsTable(all []*decision.Decision, heads []decision.Head) pageTable {
	rows := [][]string{{"letter", "time", "pod", "owner", "signal", "decision", "used", "requested", "came back", "before the next by", "what followed", "why not earlier, needed or not", "would have spared it", "record"}}
	for i, d := range all {
		w, h, asked, before := &text{r: d}, &heads[i], "", ""
		if order := rankingTable(d, 1); order != nil && d.Victim != nil {
			asked, before = order[1][4], order[1][5]
		}
		when := slices.DeleteFunc([]string{w.notEarlier(), needed(d)}, func(s string) bool { return s == "" })
		rows = append(rows, []string{
			letter(i), format.Clock(d.Time), h.Pod, h.OwnerName(), h.Signal, w.title(), amountOrNone(d, h.Used), asked, releasedText(d), before, followed(h), strings.Join(when, "; "), reason.Advise(d).Text, d.ID,
		})
	}
	t := newPageTable("Decisions, the oldest first", rows)
	t.Cards = true
	for i := max(0, len(all)-decisionsShown); i < len(t.Rows); i++ {
		t.Rows[i][0].Link = letter(i)
	}
	return t
}

// storm is the number of an owner's pods evicted in one episode from which storms shows the owner.
const storm = 3

// storms has the owners of which many pods were evicted in one episode. The heads are the oldest first.
func storms(heads []decision.Head) pageTable {
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
		rows = append(rows, []string{g[0].OwnerName(), strconv.Itoa(len(g)), g[0].Time.UTC().Format(time.DateTime), g[len(g)-1].Time.UTC().Format(time.DateTime), g[0].Episode})
	}
	return newPageTable("Owners of which at least three pods were evicted in an episode", rows)
}

// letter names the decision at a place in a list: A to Z, AA and so on.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return letter(i/26-1) + letter(i%26)
}

// together returns places of decisions, together if they are of one episode and signal, in the order of their
// first ones.
func together(heads []decision.Head) (all [][]int) {
	at := map[[2]string]int{}
	for i := range heads {
		key := [2]string{heads[i].Episode, heads[i].Signal}
		if _, known := at[key]; !known {
			at[key] = len(all)
			all = append(all, nil)
		}
		all[at[key]] = append(all[at[key]], i)
	}
	return all
}

// courses returns the courses of the first episodes, and how many more there are.
func courses(all []*decision.Decision, heads []decision.Head) (first []pagePicture, more int) {
	for _, places := range together(heads) {
		c := picture.NewCourse(all, places, letter)
		about := fmt.Sprintf("%s of %s, with thresholds and victims, and who held it. The figures are in the table below.", c.Signal, heads[places[0]].Episode)
		svg, err := c.SVG(about)
		if err != nil {
			continue // as of an eviction by another program
		}
		if len(first) == coursesShown {
			more++
			continue
		}
		first = append(first, newPagePicture(svg, fmt.Sprintf("Who held %s, at each decision", c.Signal), c.Table()))
	}
	return first, more
}

func amountOrNone(d *decision.Decision, n *int64) string {
	if n == nil {
		return ""
	}
	return format.AmountIn(d, eviction.Signal(d.Head().Signal), *n)
}

func releasedText(d *decision.Decision) string {
	if d.Outcome == nil {
		return ""
	}
	return amountOrNone(d, d.Outcome.Released)
}
