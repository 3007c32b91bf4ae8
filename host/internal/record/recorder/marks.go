package recorder

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/shared/eviction"
)

// maxMarks bounds the marks in a record. The oldest go first.
const maxMarks = 32

// marks holds what happened on the node, and in evictd, in the time of the samples. It is safe for
// concurrent use.
type marks struct {
	mu  sync.Mutex
	all []mark
	// former has the configuration and thresholds of the last pass, or those saved before the start, nil if neither is
	// known. begun: there was a pass. inForce has the times by threshold. They belong to one goroutine.
	former  *decision.Decision
	begun   bool
	inForce map[string]time.Time
}

// A mark is a decision.Mark with its times. A wait is for a signal, and has no end while it lasts.
type mark struct {
	decision.Mark

	signal    eviction.Signal
	at, until time.Time
}

func (m *marks) add(of mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := max(0, len(m.all)-maxMarks+1)
	for old < len(m.all) && of.at.Sub(m.all[old].at) > samples*time.Second {
		old++
	}
	m.all = append(slices.Delete(m.all, 0, old), of)
}

// waits begins and ends the marks of waits.
func (m *marks) waits(p *loop.Conclusion) {
	type wait struct {
		signal eviction.Signal
		text   string
	}
	now := map[wait]bool{}
	for _, w := range p.Waiting {
		now[wait{w.Signal, decision.Waits(w)}] = true
	}
	m.mu.Lock()
	for i := range m.all {
		of := &m.all[i]
		if of.What != decision.MarkWait || !of.until.IsZero() {
			continue
		}
		if known := (wait{of.signal, of.Text}); now[known] {
			delete(now, known)
		} else {
			of.until = p.Decision.Time
		}
	}
	m.mu.Unlock()
	for w := range now {
		m.add(mark{Mark: decision.Mark{What: decision.MarkWait, Text: w.text}, signal: w.signal, at: p.Decision.Time})
	}
}

// before returns the marks of the time of the samples before at. Of waits it has those for a signal.
func (m *marks) before(at time.Time, s eviction.Signal) (out []decision.Mark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.all {
		if at.Sub(of.at) > samples*time.Second || of.signal != "" && of.signal != s {
			continue
		}
		of.MS, of.UntilMS = decision.MS(of.at, at), decision.MS(of.at, at)
		switch {
		case of.What != decision.MarkWait:
		case of.until.IsZero():
			of.UntilMS = 0
		default:
			of.UntilMS = decision.MS(of.until, at)
		}
		out = append(out, of.Mark)
	}
	return out
}

// configured marks another configuration, by a reload or at the start, and from when on its thresholds are in
// force. It reports whether the configuration is new.
func (m *marks) configured(d *decision.Decision) (isNew bool) {
	was, starts := m.former, !m.begun
	if m.begun = true; was != nil && was.Config == d.Config {
		return false
	}
	if m.former = (&decision.Decision{Config: d.Config, Thresholds: d.Thresholds}); was == nil {
		return true
	}
	came, went := without(d.Thresholds, was.Thresholds), without(was.Thresholds, d.Thresholds)
	of := decision.Mark{What: decision.MarkReload, Text: "another configuration", Former: went}
	switch {
	case len(came) > 0 && len(went) > 0:
		of.Text = names(came) + ", before: " + names(went)
	case len(came) > 0:
		of.Text = names(came) + ", before: none"
	case len(went) > 0:
		of.Text = "no " + names(went) + " any more"
	}
	if starts {
		of.What, of.Text = decision.MarkStart, "restart: "+of.Text
	}
	m.add(mark{Mark: of, at: d.Time})
	for i := range came {
		m.inForce[key(&came[i])] = d.Time.Round(0)
	}
	for i := range went {
		delete(m.inForce, key(&went[i]))
	}
	return true
}

// dated returns thresholds with the times from which they are in force, if that was after the first sample.
func (m *marks) dated(all []decision.Threshold, at time.Time) []decision.Threshold {
	all = slices.Clone(all)
	for i := range all {
		if from, ok := m.inForce[key(&all[i])]; ok && at.Sub(from) < samples*time.Second {
			all[i].InForce = &from
		}
	}
	return all
}

// without returns the settings of those of all that others lacks.
func without(all, others []decision.Threshold) (out []decision.Threshold) {
	for i := range all {
		t := &all[i]
		if !slices.ContainsFunc(others, func(o decision.Threshold) bool { return key(&o) == key(t) }) {
			out = append(out, decision.Threshold{Signal: t.Signal, Value: t.Value, GracePeriod: t.GracePeriod, MinReclaim: t.MinReclaim, Custom: t.Custom})
		}
	}
	return out
}

func key(t *decision.Threshold) string { return t.String() + " " + t.MinReclaim }

func names(all []decision.Threshold) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].String()
	}
	return strings.Join(texts, ", ")
}
