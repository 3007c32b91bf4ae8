package page

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/why/store"
	"github.com/evictd/evictd/host/internal/why/tell/nodeview"
	"github.com/evictd/evictd/shared/eviction"
)

const address = "127.0.0.1:4711"

func example(t *testing.T) *decision.Decision {
	t.Helper()
	data, err := os.ReadFile("../tell/testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := decision.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// recorded returns a directory with records of three evictions, one by the order of another plugin and one for a limit,
// and of one decision not to evict.
func recorded(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := store.New(store.Options{Dir: dir, MaxBytes: 16 << 20, MaxAge: time.Hour * 1e5})
	for i := range 4 {
		d := example(t)
		d.Time = d.Time.Add(time.Duration(i) * time.Second)
		d.ID = decision.NewID(d.Time)
		d.Victim.Owner, d.Victim.Pod, d.Victim.UID = "Deployment/report", fmt.Sprintf("shop/report-%d", i), fmt.Sprintf("uid-%d", i)
		switch i {
		case 1:
			d.Ranker = &decision.Ranker{Name: "cost-aware"}
		case 2:
			d.Kind = decision.KindLimit
		case 3:
			d.Victim, d.Kind, d.Reason = nil, decision.KindNone, "all pods are <critical>"
		}
		if err := s.Append(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func get(s *Site, path string, change ...func(*http.Request)) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	r.Host = address
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

// read returns the text of a page and where it leads. A page is as strict as XML.
func read(t *testing.T, answer *http.Response) (text string, links []string) {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	d, out := xml.NewDecoder(strings.NewReader(string(body))), strings.Builder{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return out.String(), links
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, body)
		}
		switch token := token.(type) {
		case xml.CharData:
			out.Write(token)
		case xml.StartElement:
			for _, a := range token.Attr {
				switch {
				case a.Name.Local == "href" && !strings.HasPrefix(a.Value, "data:") || a.Name.Local == "src":
					links = append(links, a.Value)
				case a.Name.Local == "style", strings.HasPrefix(a.Name.Local, "on"):
					t.Errorf("%s=%q, which the policy forbids", a.Name.Local, a.Value)
				}
			}
			if token.Name.Local == "style" {
				t.Error("a style sheet in the page, which the policy forbids")
			}
		}
	}
}

// running is an evictd that is asked.
func running(t *testing.T) Options {
	return Options{
		Records: recorded(t),
		Status: func(context.Context) (*nodeview.View, error) {
			return &nodeview.View{NodeName: "node-<1>", Version: "v1", DryRun: true, Thresholds: example(t).Thresholds, Plugins: []nodeview.Plugin{{Name: "cost-aware"}, {Name: "memory"}}}, nil
		},
		Ranking: func(_ context.Context, s eviction.Signal) (*decision.Decision, error) {
			if s != eviction.MemoryAvailable {
				return nil, fmt.Errorf("no threshold of %s", s)
			}
			return example(t), nil
		},
	}
}

// Each link of each page leads to a page, from the first one on.
func TestEachPageLeadsToPages(t *testing.T) {
	for name, o := range map[string]Options{"beside an evictd": running(t), "with records alone": {Records: recorded(t)}, "without a record": {Records: filepath.Join(t.TempDir(), "none")}} {
		s := New(address, o)
		seen, next := map[string]string{}, []string{s.root}
		for len(next) > 0 && len(seen) < 500 {
			path := next[0]
			next = next[1:]
			if _, known := seen[path]; known || strings.Count(path, "&") > 1 { // more filters are as two
				continue
			}
			answer := get(s, path)
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s: %s", name, path, answer.Status)
			}
			seen[path] = "an asset"
			if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") && answer.Header.Get("Content-Disposition") == "" {
				text, links := read(t, answer)
				seen[path], next = text, append(next, links...)
			}
		}
		if len(seen) >= 500 {
			t.Errorf("%s: not all pages were seen", name)
		}
		if len(seen) < 10 {
			t.Errorf("%s: only %d pages", name, len(seen))
		}
		for path, with := range map[string]bool{
			"evictions?kind=limit": name != "without a record", "why?what=Deployment%2Fshop%2Freport": name != "without a record",
			"evictions?plugin=memory": true, "evictions?plugin=cost-aware": o.Status != nil, "evictions?kind=none&plugin=memory": name != "without a record",
		} {
			if _, is := seen[s.root+path]; is != with {
				t.Errorf("%s: leads to %s: %t", name, path, is)
			}
		}
		all := fmt.Sprint(seen)
		if has := strings.Contains(all, "See also: the decision before · the decision after · its episode · all of Deployment/shop/report"); has != (name != "without a record") {
			t.Errorf("%s: leads to siblings: %t", name, has)
		}
		if has := strings.Contains(all, "shop/report-2 was evicted"); has != (name != "without a record") {
			t.Errorf("%s: shows the eviction: %t", name, has)
		}
		if has := strings.Contains(all, "Now on node-<1>") && strings.Contains(all, "dry run: no pod goes"); has != (o.Status != nil) {
			t.Errorf("%s: shows the state of now: %t", name, has)
		}
	}
}

func TestEvictionsAreFiltered(t *testing.T) {
	s := New(address, Options{Records: recorded(t)})
	for query, want := range map[string]int{
		"": 3, "?all=1": 4, "?what=shop/report-1": 1, "?what=Deployment/shop/report": 3, "?signal=memory.available": 3, "?signal=pid.available": 0,
		"?namespace=shop": 3, "?namespace=other": 0, "?since=1h": 0, "?since=nonsense": 3, "?what=%3Cscript%3E": 0,
		"?kind=eviction": 2, "?kind=limit": 1, "?kind=none": 1, "?kind=none&all=1": 1, "?kind=none&namespace=shop": 0, "?kind=grace": 0, "?kind=%3Cscript%3E": 0,
		"?plugin=cost-aware": 1, "?plugin=memory": 2, "?plugin=memory&all=1": 3, "?plugin=disk": 0, "?plugin=%22%3E%3Cscript%3E": 0, "?plugin=cost": 0,
		"?plugin=memory&kind=none": 1, "?plugin=cost-aware&kind=limit": 0, "?plugin=cost-aware&kind=eviction&what=Deployment/shop/report&namespace=shop&signal=memory.available": 1,
	} {
		text, _ := read(t, get(s, s.root+"evictions"+query))
		if got := strings.Count(text, "gone after") + strings.Count(text, "all pods are <critical>"); got != want || strings.Contains(text, "None.") != (want == 0) {
			t.Errorf("%q: %d decisions, want %d", query, got, want)
		}
	}
	for since, want := range map[string]bool{"999999h": true, "1h": false} {
		listed, _ := read(t, get(s, s.root+"evictions?since="+since))
		explained, _ := read(t, get(s, s.root+"why?since="+since))
		if strings.Contains(listed, "explained on one page") != want || strings.Contains(explained, "shop/report-1") != want || strings.Contains(explained, "no record of an eviction") == want {
			t.Errorf("since %s: %s\n%s", since, listed, explained)
		}
	}
}

// A controller that makes each pod again is one row, if the filter leaves enough of its pods.
func TestStormsOfAnOwnerAreOneRow(t *testing.T) {
	s := New(address, Options{Records: recorded(t)})
	for query, want := range map[string]bool{
		"": true, "?all=1": true, "?what=Deployment/shop/report": true, "?namespace=shop&signal=memory.available": true,
		"?what=shop/report-1": false, "?kind=eviction": false, "?plugin=memory": false, "?since=1h": false, "?kind=none": false,
	} {
		text, links := read(t, get(s, s.root+"evictions"+query))
		if got := strings.Contains(text, "Made again and again") && slices.Contains(links, s.root+"why?what=Deployment%2Fshop%2Freport"); got != want {
			t.Errorf("%q: shows the owner: %t", query, got)
		}
	}
	first := example(t).Time.UTC()
	text, _ := read(t, get(s, s.root+"evictions"))
	if want := "Deployment/shop/report3" + first.Format(time.DateTime) + first.Add(2*time.Second).Format(time.DateTime) + first.Format("e20060102T150405"); !strings.Contains(strings.ReplaceAll(text, "\n", ""), want) {
		t.Errorf("no row %q in %s", want, text)
	}
	if text, _ := read(t, get(s, s.root+"why?what=Deployment%2Fshop%2Freport")); !strings.Contains(text, "3 evictions") {
		t.Errorf("explains not all of the owner: %s", text)
	}
}

// Of a decision the page leads to the rest of its episode, and to no decision for another condition of that time.
func TestADecisionLeadsToItsSiblings(t *testing.T) {
	dir := t.TempDir()
	s := store.New(store.Options{Dir: dir, MaxBytes: 16 << 20, MaxAge: time.Hour * 1e5})
	ids := map[string]string{}
	for _, c := range []struct {
		name, signal string
		after        time.Duration
	}{
		{"first", "memory.available", 0},
		{"disk", "nodefs.available", time.Millisecond},
		{"second", "memory.available", 9 * time.Minute},
		{"inodes", "nodefs.inodesFree", 9*time.Minute + 1500*time.Microsecond},
		{"third", "allocatableMemory.available", 18 * time.Minute},
		{"alone", "memory.available", time.Hour},
	} {
		d := example(t)
		d.Time = d.Time.Add(c.after)
		d.ID = decision.NewID(d.Time)
		ids[c.name] = d.ID
		d.Victim.Pod, d.Victim.UID, d.Victim.Signal, d.Victim.Owner = "shop/"+c.name, c.name, c.signal, "Job/"+c.name
		if c.name == "alone" {
			d.Victim.Owner = ""
		}
		if err := s.Append(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	site := New(address, Options{Records: dir})
	episode := example(t).Time.UTC().Format("e20060102T150405")
	for name, want := range map[string][]string{
		"first": {ids["second"], episode, "Job/shop/first"}, "second": {ids["first"], ids["third"], episode, "Job/shop/second"},
		"third": {ids["second"], episode, "Job/shop/third"}, "disk": {ids["inodes"], episode, "Job/shop/disk"}, "alone": nil,
	} {
		for _, what := range []string{ids[name], "shop/" + name} {
			text, links := read(t, get(site, site.root+"why?what="+url.QueryEscape(what)))
			links = slices.DeleteFunc(links, func(to string) bool { return !strings.Contains(to, "why?") })
			for i := range links {
				to, err := url.QueryUnescape(strings.TrimPrefix(links[i], site.root+"why?what="))
				if err != nil {
					t.Error(err)
				}
				links[i] = to
			}
			if !slices.Equal(links, want) || strings.Contains(text, "See also") != (want != nil) {
				t.Errorf("%s leads to %q, want %q", name, links, want)
			}
		}
	}
	if _, links := read(t, get(site, site.root+"why?what="+episode)); slices.ContainsFunc(links, func(to string) bool { return strings.Contains(to, "why?") }) {
		t.Errorf("an episode leads to %q", links)
	}
}

// A link of a filtered list keeps the other filters, and a value of any key is text.
func TestFiltersAreKept(t *testing.T) {
	s := New(address, running(t))
	_, links := read(t, get(s, s.root+"evictions?all=1&since=999999h&plugin=cost-aware"))
	for _, want := range []string{
		"all=1&kind=eviction&plugin=cost-aware&since=999999h", "all=1&plugin=cost-aware&since=999999h&what=shop%2Freport-1",
		"all=1&plugin=memory&since=999999h", "all=1&since=999999h", "plugin=cost-aware&since=999999h",
	} {
		if !slices.Contains(links, s.root+"evictions?"+want) {
			t.Errorf("no link to %s in %q", want, links)
		}
	}
	if again := slices.DeleteFunc(links, func(to string) bool { return !strings.HasSuffix(to, "?all=1&plugin=memory&since=999999h") }); len(again) != 1 {
		t.Errorf("%d links of the plugin memory, want one", len(again))
	}
	for _, k := range keys {
		for _, value := range []string{`"><script>alert(1)</script>`, "../../etc/passwd", "\x00\xff\u202e", strings.Repeat("9", 5000), "%", "e20260101T000000", "-1h", "*"} {
			for _, other := range []string{"", "&all=1", "&kind=eviction&plugin=memory"} {
				answer := get(s, s.root+"evictions?"+k.key+"="+url.QueryEscape(value)+other)
				_, links := read(t, answer)
				for _, to := range links {
					if !strings.HasPrefix(to, s.root) {
						t.Errorf("%s=%q leads to %s", k.key, value, to)
					}
				}
			}
		}
	}
	o := running(t)
	o.Status = func(ctx context.Context) (*nodeview.View, error) { <-ctx.Done(); return nil, ctx.Err() }
	s = New(address, o)
	if text, _ := read(t, get(s, s.root+"evictions")); strings.Count(text, "gone after") != 3 || !strings.Contains(text, "Plugin: any · memory · disk · pid") {
		t.Errorf("beside an evictd that hangs: %s", text)
	}
}

func TestAPageIsForItsOwnViewerAlone(t *testing.T) {
	s := New(address, Options{Records: recorded(t)})
	if other := New(address, Options{}); other.root == s.root || len(s.root) < 32 {
		t.Errorf("root %s, want one that cannot be guessed", s.root)
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for name, c := range map[string]struct {
		path   string
		change func(*http.Request)
		want   int
	}{
		"its address":                   {s.root, host(address), http.StatusOK},
		"localhost":                     {s.root, host("localhost:4711"), http.StatusOK},
		"a name that leads here":        {s.root, host("attacker.example:4711"), http.StatusMisdirectedRequest},
		"its address at another port":   {s.root, host("127.0.0.1:80"), http.StatusMisdirectedRequest},
		"no name":                       {s.root, host(""), http.StatusMisdirectedRequest},
		"without the secret":            {"/", host(address), http.StatusNotFound},
		"a wrong secret":                {strings.Repeat("/0", 20), host(address), http.StatusNotFound},
		"the secret of half its length": {s.root[:17], host(address), http.StatusNotFound},
		"an unknown view":               {s.root + "etc/passwd", host(address), http.StatusNotFound},
		"out of the site":               {s.root + "../../etc/passwd", host(address), http.StatusNotFound},
		"a write":                       {s.root, func(r *http.Request) { r.Method = http.MethodPost }, http.StatusMethodNotAllowed},
		"a deletion":                    {s.root + "evictions", func(r *http.Request) { r.Method = http.MethodDelete }, http.StatusMethodNotAllowed},
	} {
		answer := get(s, c.path, c.change)
		if answer.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.want)
		}
		for header, want := range map[string]string{"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if got := answer.Header.Get(header); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s: %q, want %q", name, header, got, want)
			}
		}
		if answer.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: a cookie", name)
		}
	}
}

// A view takes names of records, and never opens a file that a viewer names.
func TestAViewerReadsNoOtherFile(t *testing.T) {
	dir := recorded(t)
	secret := filepath.Join(t.TempDir(), "secret.json")
	data, err := os.ReadFile("../tell/testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(secret, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := New(address, Options{Records: dir})
	for _, what := range []string{secret, secret + ".gz", "../" + filepath.Base(secret), "", "/etc/passwd"} {
		text, _ := read(t, get(s, s.root+"why?what="+what))
		if strings.Contains(text, "was evicted") || strings.Contains(text, "root:") {
			t.Errorf("%q: %s", what, text)
		}
	}
}

func TestWhatHasNotChangedIsNotSentAgain(t *testing.T) {
	s := New(address, Options{Records: recorded(t)})
	for _, path := range []string{"evictions", "page.js", "style.css"} {
		first := get(s, s.root+path)
		again := get(s, s.root+path, func(r *http.Request) { r.Header.Set("If-None-Match", first.Header.Get("ETag")) })
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %s", path, again.Status)
		}
	}
}

// Ten viewers that look each second cost evictd a ranking in ten seconds for each signal.
func TestViewersShareARanking(t *testing.T) {
	o, asked := running(t), 0
	ranking := o.Ranking
	o.Ranking = func(ctx context.Context, s eviction.Signal) (*decision.Decision, error) {
		asked++
		return ranking(ctx, s)
	}
	s := New(address, o)
	for range 20 {
		read(t, get(s, s.root))
		read(t, get(s, s.root+"rank"))
	}
	if signals := len((&nodeview.View{Thresholds: example(t).Thresholds}).Signaled()); asked > signals {
		t.Errorf("%d rankings for %d signals", asked, signals)
	}
	for i := range 200 {
		read(t, get(s, s.root+fmt.Sprintf("rank?signal=acme.example/x%d", i)))
	}
	if n := len(s.rankings.last); n > 65 {
		t.Errorf("%d rankings are kept", n)
	}
}

func TestAnEvictdThatDoesNotAnswerIsSaid(t *testing.T) {
	o := running(t)
	o.Status = func(context.Context) (*nodeview.View, error) { return nil, errors.New("no <evictd> has locked it") }
	o.Ranking = func(context.Context, eviction.Signal) (*decision.Decision, error) {
		return nil, errors.New("it is away")
	}
	s := New(address, o)
	for path, want := range map[string]string{"": "Not known: no <evictd> has locked it", "rank": "Not known: it is away"} {
		if text, _ := read(t, get(s, s.root+path)); !strings.Contains(text, want) {
			t.Errorf("%q: %s, want %q", path, text, want)
		}
	}
}

func TestATornRecordIsASentence(t *testing.T) {
	dir := recorded(t)
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(files, func(f os.DirEntry) bool { return strings.Contains(f.Name(), "report-2") })
	if err := os.Truncate(filepath.Join(dir, files[at].Name()), 100); err != nil {
		t.Fatal(err)
	}
	s := New(address, Options{Records: dir})
	text, _ := read(t, get(s, s.root+"evictions"))
	if !strings.Contains(text, "Part of the records cannot be read: ") || strings.Count(text, "gone after") != 2 {
		t.Errorf("%s", text)
	}
	for _, of := range []string{"since=999999h", "what=Deployment/shop/report", "what=shop/", "what=" + regexp.MustCompile(`e\d{8}T\d{6}`).FindString(text)} {
		if text, _ := read(t, get(s, s.root+"why?"+of)); !strings.Contains(text, "unexpected EOF") || !strings.Contains(text, "shop/report-1") {
			t.Errorf("%s does not say that a record is missing: %s", of, text)
		}
	}
	id, _, _ := strings.Cut(files[at].Name(), "_")
	if text, _ := read(t, get(s, s.root+"why?what="+id)); !strings.Contains(text, "no record of it") && !strings.Contains(text, "unexpected EOF") {
		t.Errorf("%s", text)
	}
}

// The assets of a page are small, and the script is short enough to be read.
func TestAssetsAreSmall(t *testing.T) {
	s := New(address, Options{})
	for path, most := range map[string]int{"style.css": 8 << 10, "page.js": 6 << 10} {
		text, err := io.ReadAll(get(s, s.root+path).Body)
		if err != nil || len(text) > most || len(text) < 500 {
			t.Errorf("%s has %d bytes, want %d at most: %v", path, len(text), most, err)
		}
	}
	if lines := strings.Count(script, "\n"); lines > 200 {
		t.Errorf("page.js has %d lines", lines)
	}
}

// The owner of a pod gets a file, which names no pod of others.
func TestWhyIsAFileForReadersOfANamespace(t *testing.T) {
	s := New(address, Options{Records: recorded(t)})
	for query, own := range map[string]bool{"what=shop/report-1": true, "what=shop/report-1&for=shop": true, "what=shop/report-1&for=other": false, "since=999999h&for=other": false} {
		answer := get(s, s.root+"why.html?"+query)
		body, err := io.ReadAll(answer.Body)
		if err != nil || answer.Header.Get("Content-Disposition") != `attachment; filename="why.html"` {
			t.Errorf("%s: %v, %v", query, answer.Header, err)
		}
		if named := strings.Contains(string(body), "shop/"); named != own || !own && !regexp.MustCompile(`another pod \d+ was evicted`).Match(body) {
			t.Errorf("%s: names pods of shop: %t", query, named)
		}
		if data := regexp.MustCompile(`base64,([^"]+)`).FindStringSubmatch(string(body)); data == nil {
			t.Errorf("%s: no record", query)
		} else if record, err := base64.StdEncoding.DecodeString(data[1]); err != nil || strings.Contains(string(record), "shop/") != own {
			t.Errorf("%s: the record in it is not like the page: %v", query, err)
		}
	}
	for _, query := range []string{"", "what=../../etc/passwd", "what=%3Cscript%3E", "what=x.json"} {
		body, _ := io.ReadAll(get(s, s.root+"why.html?"+query).Body)
		if strings.Contains(string(body), "<script") || strings.Contains(string(body), "root:") || !strings.Contains(string(body), "want") {
			t.Errorf("%q: %s", query, body)
		}
	}
}
