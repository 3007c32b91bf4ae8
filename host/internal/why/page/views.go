package page

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/why/store"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/shared/eviction"
)

// The views by their paths, in the order of the links to them.
const (
	nowPath, evictionsPath, rankPath = "", "evictions", "rank"
	whyPath, filePath                = "why", "why.html"
)

var links = []tell.Link{{Name: "Now", Path: nowPath}, {Name: "Evictions", Path: evictionsPath}, {Name: "Rank", Path: rankPath}}

// views holds the function that writes each view.
var views = map[string]func(*Site, *http.Request) []byte{nowPath: (*Site).now, evictionsPath: (*Site).evictions, rankPath: (*Site).rank, whyPath: (*Site).why, filePath: (*Site).file}

// now shows the state of the node.
func (s *Site) now(r *http.Request) []byte {
	p := tell.Begin(s.root, "now", nowPath, links)
	if s.Status == nil {
		p.Main("Now", func() { p.Text("Not known: " + errNoEvictd.Error() + ". The evictions are those of the records.") })
		return p.End()
	}
	ctx := r.Context()
	status, err := s.Status(ctx)
	if err != nil {
		p.Main("Now", func() { p.Live(); p.Text("Not known: " + err.Error()) })
		return p.End()
	}
	now := time.Now()
	p.Main("Now on "+status.NodeName, func() {
		p.Live()
		status.Write(p, now)
		p.Section("Who would go next", func() {
			for _, signal := range status.Signaled() {
				if b, _ := eviction.Builtin(signal); !b.Condition.CheapToMeasure() {
					continue // Rank measures disks
				}
				ranking, err := s.rankings.of(ctx, signal, s.Ranking)
				if err != nil {
					p.Text(fmt.Sprintf("%s: not known: %v", signal, err))
					continue
				}
				p.Next(ranking)
			}
		})
	})
	return p.End()
}

// evictions lists records. Values in the table are links to those with the same value.
func (s *Site) evictions(r *http.Request) []byte {
	p := tell.Begin(s.root, "evictions", evictionsPath, links)
	query := r.URL.Query()
	f := store.Filter{
		What: query.Get("what"), Signal: query.Get("signal"), Namespace: query.Get("namespace"), Kind: query.Get("kind"), Plugin: query.Get("plugin"),
		All: query.Get("all") != "", Loose: true,
	}
	f.Since, _ = time.ParseDuration(query.Get("since")) // 0 means all
	heads, err := store.Heads(s.Records, f)
	slices.Reverse(heads)
	p.Main("Evictions", func() {
		p.Live()
		for _, k := range keys {
			if k.key == "plugin" {
				k.choices = s.plugins(r.Context(), k.choices)
			}
			if value := query.Get(k.key); k.choices == nil && value != "" {
				k.name, k.choices = k.key+" "+value, []string{"", "show all"}
			}
			if k.choices != nil {
				p.Choices(k.name, choices(query, k.key, k.choices...))
			}
		}
		if f.Since > 0 && len(heads) > 0 {
			p.Choices("Evictions of that time", []tell.Link{{Name: "explained on one page", Path: whyPath + "?since=" + f.Since.String()}})
		}
		if err != nil {
			p.Text("Part of the records cannot be read: " + err.Error())
		}
		if len(heads) == 0 {
			p.Text("None.")
		}
		p.Storms(heads, whyOf)
		p.Evictions(heads, func(key, value string) string { return with(query, key, value) }, whyOf)
	})
	return p.End()
}

// keys has the query of the evictions. The values of a key without choices are links in the table.
var keys = []struct {
	key, name string
	choices   []string // values and names
}{
	{"since", "Time", []string{"", "all", "1h", "the last hour", "12h", "12 hours", "168h", "a week"}},
	{"all", "Decisions", []string{"", "evictions", "1", "all decisions"}},
	{"plugin", "Plugin", []string{"", "any", "memory", "memory", "disk", "disk", "pid", "pid"}},
	{key: "kind"},
	{key: "what"},
	{key: "signal"},
	{key: "namespace"},
}

// plugins adds those of the running evictd to choices, if it answers at once.
func (s *Site) plugins(ctx context.Context, choices []string) []string {
	if s.Status == nil {
		return choices
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	status, err := s.Status(ctx)
	if err != nil {
		return choices
	}
	choices = slices.Clip(choices)
	for _, plugin := range status.Plugins {
		if !slices.Contains(choices, plugin.Name) {
			choices = append(choices, plugin.Name, plugin.Name)
		}
	}
	return choices
}

// choices returns links that set key to each value, with their names.
func choices(query url.Values, key string, valuesAndNames ...string) (all []tell.Link) {
	for i := 0; i+1 < len(valuesAndNames); i += 2 {
		to := with(query, key, valuesAndNames[i])
		if query.Get(key) == valuesAndNames[i] {
			to = ""
		}
		all = append(all, tell.Link{Name: valuesAndNames[i+1], Path: to})
	}
	return all
}

// with returns the path of the evictions with another value of a key.
func with(query url.Values, key, value string) string {
	next := url.Values{}
	for _, k := range keys {
		if v := query.Get(k.key); v != "" && k.key != key {
			next.Set(k.key, v)
		}
	}
	if value != "" {
		next.Set(key, value)
	}
	return strings.TrimSuffix(evictionsPath+"?"+next.Encode(), "?")
}

// whyOf returns the path of the page why of a pod, a record, an episode or an owner.
func whyOf(what string) string { return whyPath + "?what=" + url.QueryEscape(what) }

// found returns the decisions of a pod, a record, an episode or an owner, or of a time, and what was said of them.
func (s *Site) found(r *http.Request) (all []*decision.Decision, said []string, err error) {
	what := r.URL.Query().Get("what")
	since, _ := time.ParseDuration(r.URL.Query().Get("since"))
	if since <= 0 && (what == "" || strings.HasSuffix(what, ".json") || strings.HasSuffix(what, ".json.gz")) { // the name of a file
		return nil, nil, fmt.Errorf("%.100q: want a pod, a record or an episode", what)
	}
	in := store.Resolver{Dir: func() (string, error) { return s.Records, nil }, Say: func(text string) { said = append(said, text) }}
	all, err = in.FindAll(what, since)
	return all, said, err
}

// why shows decisions, as the file of evictd explain --html has them.
func (s *Site) why(r *http.Request) []byte {
	all, said, err := s.found(r)
	p := tell.Begin(s.root, cmp.Or(r.URL.Query().Get("what"), "why"), whyPath, links)
	if err != nil {
		p.Main("Why", func() { p.Text(err.Error()) })
		return p.End()
	}
	p.Main("", func() {
		for _, text := range said {
			p.Text(text)
		}
		if also := s.siblings(all); len(also) > 0 {
			p.Choices("See also", also)
		}
		p.Choices("As a file", files(r.URL.Query(), all))
		p.Decisions(all, nil, time.Now())
	})
	return p.End()
}

// files returns links to the decisions as a file, for all readers and for those of the namespace of each victim.
func files(query url.Values, all []*decision.Decision) (to []tell.Link) {
	namespaces := map[string]string{"": "with the names of all pods"}
	for _, d := range all {
		if d.Victim != nil {
			namespace, _, _ := strings.Cut(d.Victim.Pod, "/")
			namespaces[namespace] = "for readers of " + namespace
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		next := maps.Clone(query)
		next.Set("for", namespace)
		to = append(to, tell.Link{Name: namespaces[namespace], Path: filePath + "?" + next.Encode()})
	}
	return to
}

// file returns the decisions as the file of evictd explain --html.
func (s *Site) file(r *http.Request) []byte {
	all, _, err := s.found(r)
	if namespace := r.URL.Query().Get("for"); err == nil && namespace != "" {
		all, err = decision.ForNamespace(all, namespace)
	}
	if err != nil {
		return []byte("<!DOCTYPE html><title>evictd</title><p>" + html.EscapeString(err.Error()) + "</p>")
	}
	return tell.HTML(all, nil, time.Now())
}

// siblings returns links from one decision to those before and after it in its episode, to the episode and to all of the owner.
func (s *Site) siblings(all []*decision.Decision) (to []tell.Link) {
	if len(all) > 1 {
		return nil
	}
	d := all[0]
	begin := d.Time.Add(-decision.Quiet - time.Second) // names of files have milliseconds
	near := store.Filter{All: true, Since: time.Since(begin), Until: d.Time.Add(decision.Quiet)}
	heads, _ := store.Heads(s.Records, near) // those that can be read
	is := func(h decision.Head) bool { return h.ID == d.ID }
	if at := slices.IndexFunc(heads, is); at >= 0 {
		own := heads[at] // an episode for another condition may have begun in the same second
		heads = slices.DeleteFunc(heads, func(h decision.Head) bool { return h.Episode != own.Episode || h.Condition() != own.Condition() })
		at = slices.IndexFunc(heads, is)
		if at > 0 {
			to = append(to, tell.Link{Name: "the decision before", Path: whyOf(heads[at-1].ID)})
		}
		if at+1 < len(heads) {
			to = append(to, tell.Link{Name: "the decision after", Path: whyOf(heads[at+1].ID)})
		}
		if len(heads) > 1 {
			to = append(to, tell.Link{Name: "its episode", Path: whyOf(own.Episode)})
		}
	}
	if owner := new(d.Head()).OwnerName(); owner != "" {
		to = append(to, tell.Link{Name: "all of " + owner, Path: whyOf(owner)})
	}
	return to
}

// rank shows the order by a signal, which the running evictd measures for it.
func (s *Site) rank(r *http.Request) []byte {
	signal := eviction.Signal(cmp.Or(r.URL.Query().Get("signal"), string(eviction.MemoryAvailable)))
	p := tell.Begin(s.root, "rank", rankPath, links)
	p.Main("Who would go first for "+string(signal), func() {
		if s.Ranking == nil {
			p.Text("Not known: " + errNoEvictd.Error() + ".")
			return
		}
		if status, err := s.Status(r.Context()); err == nil {
			var signals []tell.Link
			for _, other := range status.Signaled() {
				to := rankPath + "?signal=" + url.QueryEscape(string(other))
				if other == signal {
					to = ""
				}
				signals = append(signals, tell.Link{Name: string(other), Path: to})
			}
			p.Choices("Signal", signals)
		}
		ranking, err := s.rankings.of(r.Context(), signal, s.Ranking)
		if err != nil {
			p.Text("Not known: " + err.Error())
			return
		}
		if s.Other != nil {
			other, err := s.others.of(r.Context(), signal, func(ctx context.Context, _ eviction.Signal) (*decision.Decision, error) {
				return s.Other(ctx, ranking)
			})
			if err == nil {
				p.Beside(ranking, other)
			} else {
				p.Text("The order beside is not known: " + err.Error())
			}
		}
		p.Ranking(ranking)
	})
	return p.End()
}

// rankingStands bounds how long a ranking is shown before evictd is asked again: it measures pods for it, and viewers
// may be many.
const rankingStands = 10 * time.Second

// rankings keeps the last ranking of each signal. One request at a time asks evictd.
type rankings struct {
	mu   sync.Mutex
	last map[eviction.Signal]ranked
}

func newRankings() rankings { return rankings{last: map[eviction.Signal]ranked{}} }

type ranked struct {
	at       time.Time
	decision *decision.Decision
	err      error
}

func (k *rankings) of(ctx context.Context, s eviction.Signal, ask func(context.Context, eviction.Signal) (*decision.Decision, error)) (*decision.Decision, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	last, known := k.last[s]
	if !known || time.Since(last.at) > rankingStands {
		if len(k.last) > 64 {
			clear(k.last) // a viewer may ask for any name
		}
		d, err := ask(ctx, s)
		last = ranked{time.Now(), d, err}
		if ctx.Err() == nil {
			k.last[s] = last
		}
	}
	return last.decision, last.err
}
