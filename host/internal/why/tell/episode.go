package tell

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/shared/eviction"
)

// Evictions lists decisions by their episodes.
func Evictions(heads []decision.Head) []byte {
	rows, former := [][]string{{"EPISODE", "TIME", "DECISION", "POD", "OWNER", "SIGNAL", "USED", "FREED", "WHAT FOLLOWED", "RECORD"}}, ""
	for i := range heads {
		h := &heads[i]
		episode := h.Episode
		if episode == former {
			episode = Same
		}
		former = h.Episode
		rows = append(rows, append([]string{episode}, evictionRow(h)...))
	}
	return Table(rows)
}

// evictionRow describes a decision: its time, kind, pod, owner and signal, what the pod used, what came back, what
// followed, and its record.
func evictionRow(h *decision.Head) []string {
	kind, used, released := h.Kind, "", ""
	if h.By != "" {
		kind = "by " + h.By
	}
	if h.DryRun {
		kind += " (dry run)"
	}
	if h.Used != nil {
		used = format.Amount(nil, eviction.Signal(h.Signal), *h.Used)
	}
	if h.Outcome != nil && h.Outcome.Released != nil {
		released = format.Amount(nil, eviction.Signal(h.Signal), *h.Outcome.Released)
	}
	return []string{h.Time.UTC().Format(time.DateTime), kind, h.Pod, h.Owner, h.Signal, used, released, followed(h), h.ID}
}

// followed is Followed, with which eviction in a short time this is of a controller's pods.
func followed(h *decision.Head) string {
	text := Followed(h)
	if h.Again < 2 {
		return text
	}
	text = strings.TrimPrefix(fmt.Sprintf("%s; %d%s of %s in %v", text, h.Again, ordinal(h.Again), h.Owner, decision.Quiet), "; ")
	if h.Again > 2 {
		text += ": it is made again and again"
	}
	return text
}

func ordinal(n int) string {
	if n/10%10 == 1 {
		return "th"
	}
	return cmp.Or(map[int]string{1: "st", 2: "nd", 3: "rd"}[n%10], "th")
}

// Episode describes decisions that belong together, the oldest first.
func Episode(all []*decision.Decision, now time.Time) []byte {
	w, heads := episodeHead(all, now)
	for i, d := range all {
		label := format.Clock(d.Time)
		w.r = d
		what := followed(&heads[i])
		switch {
		case d.Kernel != nil: // the title has it
			what = ""
		case what == "" && !d.DryRun:
			what = "nothing more is known"
		}
		w.line(label, "%s", strings.TrimSuffix(w.title()+"; "+what, "; "))
		if d.Ranker != nil && d.Ranker.Custom {
			w.line(label, "the order is that of %s", rankerOf(d))
		}
		for _, text := range []string{w.notEarlier(), needed(d)} {
			if text != "" {
				w.line(label, "%s", text)
			}
		}
		w.line(label, "record %s", d.ID)
	}
	return w.b.Bytes()
}

// episodeHead begins the text about decisions that belong together, and returns their heads.
func episodeHead(all []*decision.Decision, now time.Time) (*text, []decision.Head) {
	first, last := all[0], all[len(all)-1]
	heads := make([]decision.Head, len(all))
	for i, d := range all {
		heads[i] = d.Head()
		heads[i].Outcome = d.Outcome
	}
	decision.Episodes(heads)
	decided := slices.DeleteFunc(slices.Clone(all), func(d *decision.Decision) bool { return d.Acted() == nil })
	w := &text{r: first, heading: fmt.Sprintf("%s  %s, %s until %s on %s", format.Stamp(first.Time), format.Counted(len(all), "decision"), evictionsBy(heads), format.Stamp(last.Time), first.Node)}
	w.b.WriteString(printable.ClipText(w.heading) + "\n")
	if n := len(decided); n > 0 {
		w.line("over", "%s", over(decided[n-1], "the last decision", now))
		w.r = decided[0]
		w.took()
		w.changed()
		w.grew()
		w.r = decided[n-1]
		w.advice()
	}
	return w, heads
}

// evictionsBy counts evictions by who evicted. Those of a dry run are none.
func evictionsBy(heads []decision.Head) string {
	own, dry, kernel, others := 0, 0, 0, map[string]int{}
	for i := range heads {
		switch h := &heads[i]; {
		case h.Kind == decision.KindKernel:
			kernel++
		case h.UID == "":
		case h.By != "":
			others[h.By]++
		case h.DryRun:
			dry++
		default:
			own++
		}
	}
	counts := []string{format.Counted(own, "eviction")}
	for _, by := range slices.Sorted(maps.Keys(others)) {
		counts = append(counts, fmt.Sprintf("%d by %s", others[by], by))
	}
	if kernel > 0 {
		counts = append(counts, format.Counted(kernel, "kernel kill"))
	}
	if dry > 0 {
		counts = append(counts, fmt.Sprintf("%d in a dry run", dry))
	}
	return strings.Join(counts, ", ")
}

// took says whether one pod, several, or none took most of what is missing.
func (w *text) took() {
	switch g := w.r.Growth; {
	case g == nil || g.Lost <= 0:
	case len(g.Most) > 0 && g.Most[0].By > g.Lost/2:
		w.line("cause", "one pod, %s: it took %s; %s less was available than before", g.Most[0].Pod, w.amount(w.signal(), g.Most[0].By), w.amount(w.signal(), g.Lost))
	case g.Pods > g.Lost/2:
		w.line("cause", "several pods: they took %s; %s less was available than before", w.amount(w.signal(), g.Pods), w.amount(w.signal(), g.Lost))
	default:
		w.line("cause", "the rest of the node, or pods that were not measured: they took %s; %s less was available than before", w.amount(w.signal(), g.Lost-max(0, g.Pods)), w.amount(w.signal(), g.Lost))
	}
}

// over says whether the shortage of a decision is over. what names the decision.
func over(d *decision.Decision, what string, now time.Time) string {
	t, o, soon := d.Acted(), d.Outcome, ""
	if ago := now.Sub(d.Time); ago < decision.Quiet {
		soon = fmt.Sprintf("not known yet: %s was %v ago, want %v without one", what, ago.Round(time.Second), decision.Quiet)
	}
	if t == nil || o == nil || o.After == nil || len(o.After.Available) == 0 {
		return cmp.Or(soon, "no later decision is on record")
	}
	amount, known := amountOf(d, t)
	if !known {
		return cmp.Or(soon, "not known: the record has no figure of "+string(t.Signal))
	}
	values, at := o.After.Values(), (time.Duration(o.After.UntilMS) * time.Millisecond).Round(time.Second)
	left, was := values[len(values)-1], ""
	if more := left - amount; more >= 0 {
		was = fmt.Sprintf("%s was available %v after %s, %s above the threshold", format.AmountIn(d, t.Signal, left), at, what, format.AmountIn(d, t.Signal, more))
	} else {
		was = fmt.Sprintf("%s was available %v after %s, %s below the threshold", format.AmountIn(d, t.Signal, left), at, what, format.AmountIn(d, t.Signal, -more))
	}
	switch {
	case soon != "":
		return soon + "; " + was
	case left < amount:
		return "no: " + was
	default:
		return "yes: " + was
	}
}

// amountOf returns the amount of a threshold of d in its signal's unit, if it is known.
func amountOf(d *decision.Decision, t *decision.Threshold) (amount int64, known bool) {
	p, err := t.Policy()
	o := d.Observation(t.Signal)
	if err != nil || o == nil || o.State != decision.StateObserved {
		return 0, false
	}
	q := p.Amount(o.Capacity)
	return q.Value(), true
}

// changed lists what happened before the decision that its signals do not show.
func (w *text) changed() {
	marks := slices.DeleteFunc(format.Marks(w.r.Marks), func(m decision.Mark) bool { return m.What == decision.MarkWait })
	for _, m := range marks[max(0, len(marks)-marksShown):] {
		text := m.Text
		if m.What == decision.MarkReload {
			text = "reload: " + text
		}
		w.line("what changed", "%s %s", format.Clock(w.at(m.MS)), text)
	}
}

// marksShown bounds the marks that are shown, the newest.
const marksShown = 8

func (w *text) at(ms float64) time.Time {
	return w.r.Time.Add(time.Duration(ms * float64(time.Millisecond)))
}

// notEarlier says why the decision was not made when the samples first had its threshold met.
func (w *text) notEarlier() string {
	t := w.r.Acted()
	if t == nil || t.Since == nil {
		return ""
	}
	begun := w.metFrom(t)
	var why []string
	if put := w.putInForce(); put != "" {
		why, begun = append(why, put), *t.InForce
	}
	if late := t.Since.Sub(begun); late >= 2*time.Second {
		why = append(why, fmt.Sprintf("evictd looked %v after it was met (%s)", late.Round(time.Second), cmp.Or(w.r.Trigger, "unknown")))
	}
	if !t.Hard() {
		why = append(why, "its grace period is "+t.GracePeriod)
	}
	all, longest, waits, of := 0.0, 0.0, 0, ""
	for _, m := range w.r.Marks {
		if ms := m.UntilMS - max(m.MS, decision.MS(begun, w.r.Time)); m.What == decision.MarkWait && ms > 0 {
			all, waits = all+ms, waits+1
			if ms > longest {
				longest, of = ms, strings.TrimPrefix(m.Text, "waits ")
			}
		}
	}
	switch {
	case waits == 1:
		why = append(why, fmt.Sprintf("waited %v %s", shortly(longest), of))
	case waits > 1:
		why = append(why, fmt.Sprintf("waited %v, %v of it %s", shortly(all), shortly(longest), of))
	}
	if len(why) == 0 {
		return ""
	}
	return "not earlier: " + strings.Join(why, "; ")
}

// metFrom returns the time from which on the samples have a threshold met without a break.
func (w *text) metFrom(t *decision.Threshold) time.Time {
	from := *t.Since
	amount, known := amountOf(w.r, t)
	for i := range w.r.Signals {
		s := &w.r.Signals[i]
		if s.Signal != t.Signal || !known {
			continue
		}
		values := s.Values()
		for n := len(values) - 1; n >= 0 && values[n]+s.Unit <= amount; n-- {
			if at := w.at(s.UntilMS - 1000*float64(len(values)-1-n)); at.Before(from) {
				from = at
			}
		}
	}
	return from
}

// needed estimates by what followed whether the signal would have recovered without the eviction.
func needed(d *decision.Decision) string {
	t, o := d.Acted(), d.Outcome
	if t == nil || o == nil || o.Released == nil || o.GoneMS <= 0 || o.After == nil {
		return ""
	}
	p, err := t.Policy()
	amount, observed := amountOf(d, t)
	if err != nil || !observed {
		return ""
	}
	values, least, known := o.After.Values(), int64(0), false
	for i, v := range values {
		if at := o.After.UntilMS - 1000*float64(len(values)-1-i); at >= max(o.GoneMS, o.ReliefMS)+1000 && (!known || v < least) {
			least, known = v, true
		}
	}
	if p.MinReclaim != nil {
		more := p.MinReclaim.Of(d.Observation(t.Signal).Capacity)
		amount += more.Value()
	}
	switch without := least - *o.Released; {
	case !known:
		return ""
	case without < amount:
		return fmt.Sprintf("needed: without it %s would have fallen to %s (estimated)", t.Signal, format.AmountIn(d, t.Signal, max(0, without)))
	default:
		return fmt.Sprintf("not needed, as it turned out: without it %s would have stayed at %s or more (estimated)", t.Signal, format.AmountIn(d, t.Signal, without))
	}
}
