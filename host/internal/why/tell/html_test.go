package tell

import (
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/why/whatif"
	"github.com/evictd/evictd/shared/eviction"
)

// A parsed page: its elements with their attributes, and its text.
type parsed struct {
	tags  []string
	attrs []xml.Attr
	text  string
}

// parse reads a page as strictly as XML is read.
func parse(t *testing.T, page []byte) (p parsed) {
	t.Helper()
	d, text := xml.NewDecoder(strings.NewReader(string(page))), strings.Builder{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			p.text = text.String()
			return p
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, page)
		}
		switch token := token.(type) {
		case xml.StartElement:
			p.tags, p.attrs = append(p.tags, token.Name.Local), append(p.attrs, token.Attr...)
			for i, a := range token.Attr { // the decoder lets them pass
				if slices.ContainsFunc(token.Attr[:i], func(former xml.Attr) bool { return former.Name == a.Name }) {
					t.Errorf("%s has %s twice", token.Name.Local, a.Name.Local)
				}
			}
		case xml.CharData:
			text.Write(token)
		}
	}
}

func (p *parsed) attributes(name string) (values []string) {
	for _, a := range p.attrs {
		if a.Name.Local == name {
			values = append(values, a.Value)
		}
	}
	return values
}

// full returns a record that has each part of a page.
func full() *decision.Decision {
	d := example()
	d.Node, d.Evictd, d.Config = "node-1", "v1.2.3", "abc"
	d.Candidates[d.Order[0]].Parts = []decision.Part{{Name: "emptyDir scratch", Used: gibibyte}}
	d.Candidates = append(d.Candidates, decision.Candidate{Pod: "shop/spared", UID: "s"})
	d.Ranker = &decision.Ranker{Name: "memory", Version: "1"}
	d.Protected = []decision.Protected{{UID: "p", Pod: "kube-system/proxy", Rule: "critical or static"}}
	d.Inputs = []decision.Input{{Name: "pods of the runtime", AgeSeconds: 3, Reason: "it is slow"}}
	d.Reclaim = []decision.Reclaim{{Step: "image-gc", By: "disk", NotRun: "dry run", Err: "busy"}}
	return d
}

// A page has all that the text has, so that nobody asks for the text as well.
func TestThePageHasAllThatTheTextHas(t *testing.T) {
	d := full()
	p := parse(t, HTML([]*decision.Decision{d}, If("memory.available<2Gi", &whatif.Earlier{}), time.Now()))
	space := regexp.MustCompile(`\s+`)
	all := space.ReplaceAllString(p.text, " ")
	w := &text{r: d}
	for _, part := range []func(*text){(*text).headline, (*text).whyNow, (*text).late, (*text).changed, (*text).inputs, (*text).grew, (*text).tried, (*text).spared, (*text).followed, (*text).neededOrNot} {
		part(w)
	}
	if len(w.lines) < 15 {
		t.Fatalf("only %d lines", len(w.lines))
	}
	for _, l := range w.lines {
		if !strings.Contains(all, space.ReplaceAllString(strings.TrimSpace(l.text), " ")) {
			t.Errorf("%s: %q is not on the page", l.label, l.text)
		}
	}
	for _, want := range []string{
		"shop/report is before shop/web by: lower priority", "of 3 pods that could go, by memory, version 1", "emptyDir scratch", "kube-system/proxy", "critical or static",
		"left out by memory", "shop/spared", "nothing of the pod ran any more", "threshold met", "memory.available<2Gi: not met by then", d.ID, "v1.2.3", "evictctl explain " + d.ID,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	for _, tag := range []string{"svg", "h1", "main", "table", "dl", "time"} {
		if !slices.Contains(p.tags, tag) {
			t.Errorf("no %s", tag)
		}
	}
}

// Whoever gets the file needs nothing else, and nothing in it runs or loads.
func TestThePageIsOneFileThatLoadsNothing(t *testing.T) {
	d := full()
	page := HTML([]*decision.Decision{d, full()}, nil, time.Now())
	p := parse(t, page)
	for _, forbidden := range []string{"script", "link", "img", "iframe", "object", "form", "base"} {
		if slices.Contains(p.tags, forbidden) {
			t.Errorf("there is an element %s", forbidden)
		}
	}
	for _, a := range p.attrs {
		if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "src" || a.Name.Local == "style" {
			t.Errorf("attribute %s=%q", a.Name.Local, a.Value)
		}
	}
	if strings.Contains(string(page), "url(") || strings.Contains(string(page), "@import") {
		t.Error("the style sheet loads something")
	}
	ids := p.attributes("id")
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) || len(ids) != 5 {
		t.Errorf("ids %q, want each once", ids)
	}
	for _, label := range p.attributes("aria-labelledby") {
		if !slices.Contains(ids, label) {
			t.Errorf("no heading %s", label)
		}
	}
	links := p.attributes("href")
	if len(links) != 4 || links[0] != "#A" || links[1] != "#B" {
		t.Fatalf("links %q, want one to each decision and one to each record", links)
	}
	document, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(links[2], "data:application/json;base64,"))
	if err != nil {
		t.Fatal(err)
	}
	back, err := decision.Decode(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back); diff != "" {
		t.Errorf("the record in the file (-want +got):\n%s", diff)
	}
}

// eachText changes each text in a value, but for fields to keep.
func eachText(v reflect.Value, keep []string, change func(string) string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachText(v.Elem(), keep, change)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() && !slices.Contains(keep, v.Type().Field(i).Name) {
				eachText(v.Field(i), keep, change)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), keep, change)
		}
	case reflect.String:
		v.SetString(change(v.String()))
	default: // has no text
	}
}

// Names, reasons, messages and paths are those of whoever owns a pod or wrote a plugin. Markup in them is text: the
// elements of the page are those without it.
func TestMarkupInARecordIsText(t *testing.T) {
	amounts := []string{"What", "Value", "GracePeriod", "MinReclaim", "State", "QoSClass", "Format", "Unit"}
	for name, keep := range map[string][]string{"with a meaning": append([]string{"Signal", "Kind"}, amounts...), "of unknown kinds and signals": amounts} {
		page := func(text string) parsed {
			d, other := full(), full()
			for _, d := range []*decision.Decision{d, other} {
				eachText(reflect.ValueOf(d), keep, func(s string) string { return strings.Repeat(s+text, min(len(s), 1)) })
			}
			p := parse(t, HTML([]*decision.Decision{d, other}, []byte("  what if       "+text+"\n"), time.Now()))
			if i := slices.Index(p.tags, "svg"); i >= 0 {
				p.tags = p.tags[:i] // pictures break and drop labels by their length; svg_test.go has them
			}
			return p
		}
		plain := page("xxxxxxxxxxxxxxxxxxxxxxxxxxxx")
		for _, markup := range []string{`</td><script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'onmouseover='alert(1)' x='yy`, `</style><style>*{color:red}`, `<!-- ]]> & &lt; &#60;script&#62;`, "\x00\x1b[31m\u202e\u2028<svg/onload=1>"} {
			got := page(markup)
			if diff := cmp.Diff(plain.tags, got.tags); diff != "" {
				t.Errorf("%s: %q changes elements (-want +got):\n%s", name, markup, diff)
			}
			if slices.ContainsFunc(got.attrs, func(a xml.Attr) bool { return strings.HasPrefix(a.Name.Local, "on") }) {
				t.Errorf("%s: %q becomes an attribute", name, markup)
			}
			if strings.Contains(got.text, "\u202e") {
				t.Errorf("%s: %q changes the direction of writing", name, markup)
			}
			if markup[0] > ' ' && !strings.Contains(got.text, "shop/report"+markup) {
				t.Errorf("%s: %q is not shown as it is", name, markup)
			}
		}
	}
}

// The tables of a page have the order, the protected pods and the times of the record, row by row.
func TestTablesAreOfTheRecord(t *testing.T) {
	d := full()
	page := string(HTML([]*decision.Decision{d}, nil, time.Now()))
	rows := func(caption string) (rows [][]string) {
		_, table, found := strings.Cut(page, "<caption>"+caption+"</caption>")
		table, _, ends := strings.Cut(table, "</table>")
		if !found || !ends {
			t.Fatalf("no table %q", caption)
		}
		for _, row := range regexp.MustCompile(`(?s)<tr>(<td.*?)</tr>`).FindAllStringSubmatch(table, -1) {
			var cells []string
			for _, cell := range regexp.MustCompile(`<td[^>]*>([^<]*)</td>`).FindAllStringSubmatch(row[1], -1) {
				cells = append(cells, cell[1])
			}
			rows = append(rows, cells)
		}
		return rows
	}
	amount := func(text string) int64 {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatal(err)
		}
		return q.Value()
	}
	near := func(text string, bytes int64) bool { return max(amount(text)-bytes, bytes-amount(text)) <= bytes/100 }
	order := rows("Order, the first to go first")
	if len(order) != len(d.Order) {
		t.Fatalf("%d rows of %d candidates", len(order), len(d.Order))
	}
	for i, row := range order {
		c := d.Candidates[d.Order[i]]
		if row[0] != strconv.Itoa(i+1) || row[1] != c.Pod || row[2] != strconv.Itoa(int(c.Priority)) || !near(row[3], c.Usage) || !near(row[4], c.MemoryRequest) {
			t.Errorf("row %d %q, want %+v", i, row, c)
		}
	}
	if diff := cmp.Diff([][]string{{"kube-system/proxy", "critical or static"}}, rows("Pods that could not go")); diff != "" {
		t.Errorf("protected (-want +got):\n%s", diff)
	}
	times := map[string]string{}
	former := -1e300
	for _, row := range rows("Timeline, in milliseconds from the decision") {
		ms, err := strconv.ParseFloat(row[0], 64)
		if err != nil || ms < former {
			t.Errorf("%q is after %.1f", row, former)
		}
		former, times[row[1]] = ms, row[0]
	}
	for step, ms := range map[string]float64{"decided": 0, "pass began": d.Timeline.BeganMS, "kill returned": d.Outcome.KilledMS, "nothing of the pod ran any more": d.Outcome.GoneMS} {
		if got, err := strconv.ParseFloat(times[step], 64); err != nil || got != ms {
			t.Errorf("%s at %q, want %.1f", step, times[step], ms)
		}
	}
}

// Names that begin with a digit stood on the right, and did not break.
func TestOnlyColumnsOfAmountsStandOnTheRight(t *testing.T) {
	got := amountColumns([][]string{
		{"place", "pod", "usage", "of a custom signal", "time", "unknown"},
		{"1", "3scale/web", "-12.5Mi", "7 licences", "12:00:50", "-"},
		{"2", "7", "", "-", "2026-01-01", "no stats"},
	})
	if diff := cmp.Diff([]bool{true, false, true, true, false, false}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPageOfFiveThousandPodsHasTwoHundredRows(t *testing.T) {
	d := full()
	d.Candidates, d.Order = nil, nil
	for i := range 5000 {
		d.Candidates, d.Order = append(d.Candidates, decision.Candidate{Pod: fmt.Sprintf("shop/pod-%d", i), UID: fmt.Sprint(i)}), append(d.Order, i)
	}
	p := parse(t, HTML([]*decision.Decision{d}, nil, time.Now()))
	rows := 0
	for _, tag := range p.tags {
		if tag == "tr" {
			rows++
		}
	}
	if rows < 200 || rows > 400 || !strings.Contains(p.text, "and 4800 more") {
		t.Errorf("%d rows, want 200 of 5000 pods and a line about the others", rows)
	}
}

func TestThePageOfAnEpisodeHasARowForEachVictim(t *testing.T) {
	var all []*decision.Decision
	for i := range 60 {
		d := full()
		d.ID, d.Time = fmt.Sprintf("r%d", i), d.Time.Add(time.Duration(i)*time.Second)
		d.Victim.Pod = fmt.Sprintf("shop/report-%d", i)
		all = append(all, d)
	}
	p := parse(t, HTML(all, nil, all[59].Time.Add(time.Hour)))
	for _, want := range []string{"60 decisions, 60 evictions until", "over", "shop/report-0", "shop/report-59", "Who went"} {
		if !strings.Contains(p.text, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if n := len(p.attributes("href")); n != 2*decisionsShown {
		t.Errorf("%d links, want those to the %d decisions in full and to their records", n, decisionsShown)
	}
	if strings.Count(strings.Join(p.tags, " ")+" ", "main ") != 1 || strings.Count(strings.Join(p.tags, " ")+" ", "h1 ") != 1 {
		t.Error("want one main part and one first heading")
	}
}

// A record without a picture, an order or an outcome, and one of nonsense, have a page.
func TestEachRecordHasAPage(t *testing.T) {
	other := &decision.Decision{Version: 1, ID: "r1", Kind: decision.KindOther, ByOthers: decision.ByOthers{By: "the kubelet"}, Victim: &decision.Victim{Pod: "shop/report", UID: "u", Message: "over its limit"}}
	p := parse(t, HTML([]*decision.Decision{other}, nil, time.Now()))
	if !strings.Contains(p.text, "No picture: no samples") || !strings.Contains(p.text, "evicted by the kubelet") {
		t.Errorf("%s", p.text)
	}
	d := full()
	d.Signals[0].Unit, d.Signals[0].UntilMS, d.Outcome.After = -1<<62, -1e300, &decision.Series{Signal: eviction.MemoryAvailable, Available: make([]int64, 3600)}
	d.Usage = []decision.UsageSample{{MS: 1e300, Used: []int64{-5, 1 << 62, 3, 4}}}
	parse(t, HTML([]*decision.Decision{d, other}, nil, time.Time{}))
	text, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"outcome", "thresholds", "observations", "candidates", "order", "timeline", "signals", "usage", "victim", "marks", "growth", "ranker"} {
		var raw map[string]json.RawMessage
		if err := json.Unmarshal(text, &raw); err != nil {
			t.Fatal(err)
		}
		delete(raw, key)
		if key == "candidates" {
			delete(raw, "order")
		}
		without, err := json.Marshal(raw)
		if err != nil {
			t.Fatal(err)
		}
		d, err := decision.Decode(without)
		if err != nil {
			t.Fatal(err)
		}
		parse(t, HTML([]*decision.Decision{d}, nil, time.Now()))
	}
}
