// Package tell presents a decision to people: as text and as a picture. It is pure.
package tell

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/host/internal/why/tell/picture"
	"github.com/evictd/evictd/host/internal/why/whatif"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
)

const (
	labelWidth = 13
	// protectedShown bounds the protected pods that are shown.
	protectedShown = 5
)

// Text describes a decision in words.
func Text(r *decision.Decision) []byte {
	w := &text{r: r}
	w.headline()
	w.whyNow()
	w.late()
	w.changed()
	w.inputs()
	w.grew()
	w.tried()
	w.whyIt()
	w.spared()
	w.followed()
	w.neededOrNot()
	w.line("record", "%s on %s, evictd %s, configuration %s", r.ID, r.Node, cmp.Or(r.Evictd, "unknown"), cmp.Or(r.Config, "unknown"))
	return w.b.Bytes()
}

type text struct {
	r     *decision.Decision
	b     bytes.Buffer
	label string // of the previous line
	// heading and lines are what b has.
	heading string
	lines   []labeled
}

// A labeled is a line of a text.
type labeled struct{ label, text string }

// line writes a line. Consecutive lines with the same label show it once.
func (w *text) line(label, format string, args ...any) {
	shown := label
	if label == w.label {
		shown = ""
	}
	w.label = label
	w.lines = append(w.lines, labeled{label, fmt.Sprintf(format, args...)})
	w.b.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s %s", labelWidth, shown, printable.ClipText(fmt.Sprintf(format, args...))), " ") + "\n")
}

// SVG draws a decision as picture.Decision.
func SVG(r *decision.Decision) ([]byte, error) { return drawn(r, "") }

// drawn is SVG with a description for a screen reader.
func drawn(r *decision.Decision, about string) ([]byte, error) {
	w := &text{r: r}
	w.headline()
	title, _, _ := strings.Cut(w.b.String(), "\n")
	return picture.Decision(r, title, about)
}

// title says what was decided.
func (w *text) title() string {
	r := w.r
	text := r.Reason
	switch {
	case r.Kind == decision.KindOther && r.Victim != nil:
		text = r.Victim.Pod + " was evicted by " + r.By
	case r.Kernel != nil && r.Victim != nil:
		text = r.Victim.Pod + ": " + r.Victim.Message
	case r.Kind == decision.KindPreemption && r.Victim != nil:
		text = r.Victim.Pod + " was killed, " + r.Reason
	case r.Victim != nil && r.DryRun:
		text = fmt.Sprintf("dry run: %s would have been evicted for %s", r.Victim.Pod, r.Victim.Signal+w.cause())
	case r.Victim != nil && failed(r.Outcome):
		text = fmt.Sprintf("the kill of %s failed: it was to be evicted for %s", r.Victim.Pod, r.Victim.Signal+w.cause())
	case r.Victim != nil:
		text = fmt.Sprintf("%s was evicted for %s", r.Victim.Pod, r.Victim.Signal+w.cause())
	case r.Kind == decision.KindNone:
		text = "no pod could be evicted: " + r.Reason
	case r.Kind == decision.KindReclaim:
		text = "no pod had to be evicted: " + r.Reason
	}
	return text
}

func (w *text) headline() {
	r := w.r
	w.b.WriteString(printable.ClipText(fmt.Sprintf("%s  %s", format.Stamp(r.Time), w.title())) + "\n")
	if r.Kernel != nil {
		for _, l := range killedByKernel(r) {
			w.line(l.label, "%s", l.text)
		}
		return
	}
	if r.Victim != nil {
		w.line("message", "%s", strings.TrimSpace(r.Victim.Message))
		if r.Kind == decision.KindOther {
			w.line("why now", "evictd made no decision about it")
			return
		}
		w.line("message", "grace period %ds", r.Victim.GraceSeconds)
		if r.Victim.Why != "" {
			w.line("why it", "%s", r.Victim.Why)
		}
	}
	if r.Kind == decision.KindResumed {
		w.line("why now", "a former evictd decided so, and this one has finished it: its own record is lost")
	}
}

// cause names the pod that took most of what is missing, if that is at least half; or the reload
// that put a threshold above what was available.
func (w *text) cause() string {
	if w.r.Kind == decision.KindLimit { // its own use
		return ""
	}
	if put := w.putInForce(); put != "" {
		return "; " + put
	}
	if others := w.mostOf(); others != "" {
		return others
	}
	g := w.r.Growth
	if g == nil {
		return w.justStarted()
	}
	by, took := g.Lost-g.Pods, "; the rest of the node took it"
	if !g.Protected {
		took += ", or a pod that may not go"
	}
	if len(g.Most) > 0 && g.Most[0].By >= by {
		by, took = g.Most[0].By, ", which "+g.Most[0].Pod+" took"
		if g.Most[0].UID == w.r.Victim.UID {
			took = ", which it took itself"
		}
	}
	if by < g.Lost/2 {
		return ""
	}
	return took
}

// putInForce says which reload or restart put the threshold above what was available, empty if none did.
func (w *text) putInForce() string {
	t := w.r.Acted()
	if t == nil || t.InForce == nil || t.Since == nil || w.metFrom(t).After(*t.InForce) {
		return ""
	}
	by, before := "a reload", ""
	for _, m := range w.r.Marks {
		if at := w.at(m.MS).Sub(*t.InForce); at.Abs() >= time.Second {
			continue
		}
		if m.What == decision.MarkStart {
			by = "a restart of evictd"
		}
		if i := slices.IndexFunc(m.Former, func(f decision.Threshold) bool { return f.Signal == t.Signal }); i >= 0 {
			before = ", before: " + m.Former[i].String()
		}
	}
	return fmt.Sprintf("%s put %s in force at %s%s", by, t, format.Clock(*t.InForce), before)
}

// justStarted says that the samples of an evictd that has just started show no cause.
func (w *text) justStarted() string {
	for _, m := range slices.Backward(w.r.Marks) {
		if m.What == decision.MarkStart && m.MS > -float64(decision.CauseAfter.Milliseconds()) {
			return fmt.Sprintf("; the cause is not known: evictd had started %v before", shortly(-m.MS))
		}
	}
	return ""
}

func (w *text) grew() {
	g := w.r.Growth
	if g == nil {
		return
	}
	signal := w.signal()
	w.line("what grew", "%s less available than %v before:", w.amount(signal, g.Lost), time.Duration(-g.SinceMS*1e6).Round(time.Second))
	others := g.Pods
	for _, pod := range g.Most {
		w.line("what grew", "%s by %s", pod.Pod, w.amount(signal, pod.By))
		others -= pod.By
	}
	if others > g.Lost/20 {
		w.line("what grew", "other pods by %s", w.amount(signal, others))
	}
	if rest := g.Lost - g.Pods; rest > 0 {
		of := "the rest of the node"
		if !g.Protected {
			of += ", or pods that may not go,"
		}
		w.line("what grew", "%s by %s", of, w.amount(signal, rest))
	}
}

// killedByKernel describes a kernel kill.
func killedByKernel(r *decision.Decision) []labeled {
	k, use := r.Kernel, "not known"
	if k.UsedBytes != nil {
		use = format.Bytes(*k.UsedBytes) + " at the last sample of pods"
	}
	if k.RequestBytes != nil {
		use += ", its request is " + format.Bytes(*k.RequestBytes)
	}
	late := "no threshold of memory was met"
	for i := range r.Thresholds {
		b, _ := eviction.Builtin(r.Thresholds[i].Signal)
		if t := &r.Thresholds[i]; b.Condition == eviction.MemoryPressure && t.Since != nil {
			late = fmt.Sprintf("%s had been met for %v, and no pod was evicted in time", t, r.Time.Sub(*t.Since).Round(100*time.Millisecond))
		}
	}
	all := []labeled{
		{"when", "after " + r.Time.Add(time.Duration(k.SinceMS*float64(time.Millisecond))).UTC().Format("15:04:05.000") + ", when evictd looked before"},
		{"its memory", use},
		{"evictd", late},
	}
	if o := r.Observation(eviction.MemoryAvailable); o != nil && o.State == decision.StateObserved {
		available := format.AmountIn(r, o.Signal, o.Available) + " of " + format.AmountIn(r, o.Signal, o.Capacity)
		all = append(all, labeled{"evictd", fmt.Sprintf("%s available at its last pass, %.1fs before", available, r.Time.Sub(r.Now).Seconds())})
	}
	return all
}

// failed reports whether a kill failed and the pod was not seen to end.
func failed(o *decision.Outcome) bool { return o != nil && o.Err != "" && o.GoneMS == 0 }

func (w *text) whyNow() {
	r := w.r
	if r.Kernel != nil { // its thresholds are in the headline
		return
	}
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		if t.Since == nil && !t.Acted {
			continue
		}
		text, ok := w.stands(t)
		if !ok {
			continue
		}
		if t.Acted && !slices.Contains([]string{decision.KindGrace, decision.KindWaiting, decision.KindRanking}, r.Kind) {
			text += ": acted on"
		}
		w.line("why now", "%s", text)
		if o := r.Observation(t.Signal); t.Custom != nil && o != nil && len(o.Components) > 0 {
			w.line("computed from", "%s", components(o.Components))
		}
	}
	if r.Trigger == "" {
		return
	}
	looked := "looked because of the " + r.Trigger
	if r.Causes != "" {
		looked += " (" + r.Causes + ")"
	}
	if ms := -r.Timeline.BeganMS; ms > 0 {
		looked += fmt.Sprintf(", decided %.3gms later", ms)
	}
	w.line("why now", "%s", looked)
}

// stands describes the state of a threshold. It fails if t is damaged.
func (w *text) stands(t *decision.Threshold) (text string, ok bool) {
	p, err := t.Policy()
	if err != nil {
		return "", false
	}
	text, hard := p.String(), ", below it since "
	if o := w.r.Observation(t.Signal); o != nil {
		available := fmt.Sprintf(": %s of %s available", w.amount(o.Signal, o.Available), w.amount(o.Signal, o.Capacity)) + format.Figure(o)
		for name, v := range o.Components {
			if strings.HasPrefix(name, figures.LimitOf) && v == o.Capacity {
				available += ", the " + name
			}
		}
		amount := p.Amount(o.Capacity)
		switch more := o.Available - amount.Value(); {
		case o.State != decision.StateObserved:
			available, hard = ": the signal was "+o.State, ", met since "
		case amount.CmpInt64(o.Available) > 0:
		case t.Since == nil:
			available += ", " + w.amount(o.Signal, more) + " more than that"
		default:
			hard = ", held until its minimum reclaim is reached, met since "
		}
		text += available
	}
	switch {
	case t.Since == nil:
	case p.Hard():
		text += hard + format.Clock(*t.Since)
	case t.GraceOver:
		text += fmt.Sprintf(", met since %s, longer than its grace period", format.Clock(*t.Since))
	default:
		text += fmt.Sprintf(", met since %s, %v of its grace period is left", format.Clock(*t.Since), (p.GracePeriod - w.r.Now.Sub(*t.Since)).Round(time.Second))
	}
	return text, true
}

// components lists the figures that a plugin computed its signal from, as it names them.
func components(of map[string]int64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(all, ", ")
}

func (w *text) inputs() {
	for _, i := range w.r.Inputs {
		w.line("not new", "%s", i)
	}
}

func (w *text) tried() {
	for _, s := range w.r.Reclaim {
		released := "reported nothing reclaimed"
		if s.BytesFreed != 0 || s.InodesFreed != 0 {
			released = fmt.Sprintf("reclaimed %s and %d inodes", w.amount(eviction.NodeFsAvailable, s.BytesFreed), s.InodesFreed)
		}
		text := fmt.Sprintf("%s by %s %s in %.3gs", s.Step, s.By, released, s.TookSeconds)
		if s.NotRun != "" {
			text = fmt.Sprintf("%s by %s was not run: %s", s.Step, s.By, s.NotRun)
		}
		if s.Err != "" {
			text += ", with an error: " + s.Err
		}
		w.line("tried first", "%s", text)
	}
}

// whyFirst says why the first pod was first.
func (w *text) whyFirst() {
	if why := first(w.r); why != "" {
		w.line("why it", "%s", why)
		w.line("order", "of %s that could go, by %s", format.Counted(len(w.r.Candidates), "pod"), rankerOf(w.r))
	}
}

func (w *text) whyIt() {
	r := w.r
	w.whyFirst()
	for _, line := range Ranking(r) {
		w.line("order", "%s", line)
	}
	if len(r.Order) > 0 && len(r.Candidates[r.Order[0]].Parts) > 0 {
		w.line("it had", "%s", format.Parts(r, w.signal(), r.Candidates[r.Order[0]].Parts))
	}
	w.inUse()
	if left := len(r.Candidates) - len(r.Order); left > 0 && r.Ranker != nil {
		w.line("left out", "%d by %s", left, mayLeaveOut(r))
		names := leftOut(r)
		w.line("left out", "%s", strings.Join(names[:min(len(names), protectedShown)], ", "))
	}
	for i, p := range r.Protected {
		if i == protectedShown {
			w.line("could not go", "and %d more", len(r.Protected)-i)
			break
		}
		w.line("could not go", "%s: %s", p.Pod, p.Rule)
	}
}

// mayLeaveOut names the ranker of a decision, and why a pod that it leaves out may not go.
func mayLeaveOut(r *decision.Decision) string {
	if t := r.Acted(); t != nil && t.Custom != nil && t.Custom.RankedOnly {
		return r.Ranker.Name + ", which names the only pods that may go for " + string(t.Signal)
	}
	return r.Ranker.Name + ", which may spare pods (rankVeto: " + r.RankVeto + ")"
}

// rankerOf names who made the order.
func rankerOf(r *decision.Decision) string {
	if r.Ranker == nil {
		return "evictd"
	}
	return strings.TrimSuffix(r.Ranker.Name+", version "+r.Ranker.Version, ", version ")
}

// leftOut returns the candidates that are not in the order.
func leftOut(r *decision.Decision) (names []string) {
	ranked := make([]bool, len(r.Candidates))
	for _, i := range r.Order {
		ranked[i] = true
	}
	for i := range r.Candidates {
		if !ranked[i] {
			names = append(names, r.Candidates[i].Pod)
		}
	}
	return names
}

// books returns how much of what is in use on a filesystem pods that could go and images have. The rest
// is at least the difference: the runtime may count writable layers with the images.
func (w *text) books() (used, pods, images int64, ok bool) {
	o := w.r.Observation(w.signal())
	if o == nil || o.Components[figures.Used] == 0 || len(w.r.Candidates) == 0 {
		return 0, 0, 0, false
	}
	for i := range w.r.Candidates {
		pods += w.r.Candidates[i].Usage
	}
	return o.Components[figures.Used], pods, o.Components[figures.Images], true
}

// mostOf says that more than half of what is in use on a filesystem belongs neither to pods nor to images,
// as far as pods are known.
func (w *text) mostOf() string {
	used, pods, images, ok := w.books()
	for i := range w.r.Candidates {
		c := &w.r.Candidates[i]
		pods, ok = pods+max(0, c.AtMost-c.Usage), ok && c.State == ""
	}
	switch {
	case !ok || used-pods-images <= used/2:
		return ""
	case len(w.r.Protected) > 0:
		return "; most of it is in files outside of images and of pods that could go"
	default:
		return "; most of it is in files outside of images and pods"
	}
}

func (w *text) inUse() {
	if used, pods, images, ok := w.books(); ok {
		signal := w.signal()
		w.line("in use", "%s: %s by pods that could go, %s by images, %s outside of both", w.amount(signal, used), w.amount(signal, pods), w.amount(signal, images), w.amount(signal, max(0, used-pods-images)))
	}
}

// signal returns the signal of the threshold acted on, empty if there is none.
func (w *text) signal() eviction.Signal {
	if t := w.r.Acted(); t != nil {
		return t.Signal
	}
	return ""
}

func (w *text) amount(s eviction.Signal, n int64) string { return format.AmountIn(w.r, s, n) }

func (w *text) spared() {
	if w.r.Victim == nil || w.r.Acted() == nil {
		return
	}
	found, err := whatif.Changes(w.r)
	a := reason.Advice{}
	if !errors.Is(err, whatif.ErrAnotherVictim) {
		a = w.advice()
	}
	if err != nil {
		w.line("spared by", "cannot be told: %v", err)
		return
	}
	for _, f := range found {
		other := "no pod would have gone"
		if f.NextVictim != "" {
			other = f.NextVictim + " would have gone"
		}
		switch f.What {
		case whatif.Priority:
			w.line("spared by", "a priority of at least %d: then %s", f.Value, other)
		case whatif.MinReclaim:
			w.line("spared by", "a minimum reclaim for %s of at most %s: then %s", f.Of, w.amount(eviction.Signal(f.Of), f.Value), other)
		}
	}
	switch custom := w.r.Ranker != nil && w.r.Ranker.Custom; {
	case custom:
		w.line("spared by", "a request or priority: not known, the order is that of %s", rankerOf(w.r))
	case a.Text == "" && len(found) == 0:
		w.line("spared by", "no request or priority alone")
	}
}

func (w *text) advice() reason.Advice {
	a := reason.Advise(w.r)
	switch {
	case a.Request > 0:
		w.line("advice", "%s: then %s would have gone", a.Text, a.NextVictim)
		w.line("advice", "%s", a.YAML)
	case a.Text != "":
		w.line("advice", "%s", a.Text)
	}
	return a
}

// If returns a line about another threshold than those of a decision.
func If(threshold string, e *whatif.Earlier) []byte {
	w, said := &text{}, WhatIf(e)
	if e.Threshold == "" {
		said = threshold + ": " + said
	}
	w.line("what if", "%s", said)
	return w.b.Bytes()
}

// WhatIf says when other thresholds would have asked for an eviction.
func WhatIf(e *whatif.Earlier) string {
	certain := " (exact to the second)"
	if !e.Exact {
		certain = " (estimated: " + e.Doubt + ")"
	}
	text := "not met by then" + certain
	switch {
	case e.Threshold != "" && e.Seconds == 0:
		text = e.Threshold + " would have been met in the same second" + certain
	case e.Threshold != "":
		text = fmt.Sprintf("%s would have been met %s%v earlier%s", e.Threshold, map[bool]string{true: "at least "}[e.AtLeast], seconds(e.Seconds), certain)
	case e.Running:
		text = fmt.Sprintf("met, with %v of its grace period left%s", seconds(int64(math.Ceil(e.LaterSeconds))), certain)
	case e.LaterSeconds >= 0:
		text += fmt.Sprintf("; at the rate of the last ten seconds %v later (estimated)", seconds(int64(math.Ceil(e.LaterSeconds))))
	default:
		text += ", and at the rate of the last ten seconds never (estimated)"
	}
	first := e.First
	if e.SameVictim {
		first = "the same pod"
	}
	switch {
	case e.Threshold == "":
	case e.FirstExact:
		text += ", when " + first + " was first"
	case e.First == "":
		text += "; which pod was first then is not recorded"
	case e.FirstSeconds == 0:
		text += fmt.Sprintf("; %s was first then (estimated)", first)
	default:
		text += fmt.Sprintf("; %v %s that %s was first (estimated)", seconds(max(e.FirstSeconds, -e.FirstSeconds)), map[bool]string{true: "after", false: "before"}[e.FirstSeconds > 0], first)
	}
	for _, s := range e.Unknown {
		text += "; the record has no samples of " + string(s)
	}
	return text
}

func seconds(n int64) time.Duration { return time.Duration(min(n, 1e9)) * time.Second }

// late says why it was not decided earlier.
func (w *text) late() {
	if why := w.notEarlier(); why != "" {
		w.line("why now", "%s", why)
	}
}

func (w *text) neededOrNot() {
	if text := needed(w.r); text != "" {
		w.line("what followed", "%s", text)
	}
}

func (w *text) followed() {
	o := w.r.Outcome
	if o == nil || o.State == "" {
		return
	}
	killed := "killed after"
	if o.Err != "" {
		w.line("what followed", "the kill returned an error: %s", o.Err)
		killed = "it was given up after"
	}
	var parts []string
	for _, p := range []struct {
		what string
		ms   float64
	}{{killed, o.KilledMS}, {"gone after", o.GoneMS}, {"the expected amount was back after", o.ReliefMS}} {
		if p.ms > 0 {
			parts = append(parts, fmt.Sprintf("%s %v", p.what, time.Duration(p.ms*float64(time.Millisecond)).Round(time.Millisecond)))
		}
	}
	if o.Released != nil {
		released := w.amount(eviction.Signal(w.r.Head().Signal), *o.Released) + " came back"
		if v := w.r.Victim; v != nil && v.Promised != nil {
			released += " of the " + w.amount(eviction.Signal(v.Signal), *v.Promised) + " that it used"
			if b, _ := eviction.Builtin(eviction.Signal(v.Signal)); b.Condition == eviction.DiskPressure && *o.Released < *v.Promised/2 {
				released += ": other files may share its blocks, or a process holds its files"
			}
		}
		parts = append(parts, released)
	}
	w.line("what followed", "%s", cmp.Or(strings.Join(parts, ", "), o.State))
}
