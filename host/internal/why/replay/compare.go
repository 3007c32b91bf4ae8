package replay

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
)

// A Difference locates the first place where two decisions differ.
type Difference struct {
	// Step is the index of the step, -1 if the difference is outside of the steps.
	Step int
	// Field is the path in the step, Got and Want are the two values as JSON.
	Field, Got, Want string
}

// String describes the difference in one line.
func (d *Difference) String() string {
	at := ""
	if d.Step >= 0 {
		at = fmt.Sprintf("steps[%d].", d.Step)
	}
	return fmt.Sprintf("%s%s: got %s, recorded %s", at, d.Field, d.Got, d.Want)
}

// Compare returns the first relevant difference between the decisions got in s and the recorded
// ones, nil if there is none. Thresholds observed, met and actionable are ignored, and so are error
// texts; where the kubelet decides at random, any of the recorded outcomes is correct.
func Compare(s *Scenario, got, want *Decisions) *Difference {
	if got.ConfigError != "" || want.ConfigError != "" {
		return compareConfig(s, got, want)
	}
	for i := range min(len(got.Steps), len(want.Steps)) {
		if d := compareStep(&got.Steps[i], &want.Steps[i]); d != nil {
			d.Step = i
			return d
		}
	}
	var d differences
	d.field("steps", len(got.Steps), len(want.Steps))
	return d.first()
}

func compareStep(got, want *StepDecision) *Difference {
	var d differences
	if (got.Error == "") != (want.Error == "") {
		d.add("error", got.Error, want.Error)
	}
	d.field("memoryPressure", got.MemoryPressure, want.MemoryPressure)
	d.field("diskPressure", got.DiskPressure, want.DiskPressure)
	d.field("pidPressure", got.PIDPressure, want.PIDPressure)
	d = append(d, compareOutcomes(got, want)...)
	d.field("admit", sortedMessages(got.Admit), sortedMessages(want.Admit))
	return d.first()
}

// compareOutcomes returns nothing if our single outcome is among the recorded ones, else the
// differences from the closest.
func compareOutcomes(got, want *StepDecision) differences {
	if len(got.Outcomes) != 1 {
		var d differences
		d.add("outcomes", len(got.Outcomes), 1)
		return d
	}
	recorded := want.Outcomes
	if len(recorded) == 0 {
		recorded = []Outcome{{}}
	}
	var closest differences
	for i := range recorded {
		d := compareOutcome(&got.Outcomes[0], &recorded[i])
		if len(d) == 0 || tiedAlike(&got.Outcomes[0], &recorded[i]) {
			return nil
		}
		if closest == nil || len(d) < len(closest) {
			closest = d
		}
	}
	return closest
}

func compareOutcome(got, want *Outcome) differences {
	var d differences
	// The signals of several evictions are in no particular order.
	d.field("signals", slices.Sorted(slices.Values(got.Signals)), slices.Sorted(slices.Values(want.Signals)))
	d.field("reclaimCalls", got.ReclaimCalls, want.ReclaimCalls)
	compareAll(&d, "evictions", got.Evictions, want.Evictions, func(e Eviction) string { return e.Namespace + "/" + e.Name })
	compareAll(&d, "events", got.Events, want.Events, func(e Event) string { return e.Kind + " " + e.Name + " " + e.Reason })
	d.field("returned", got.Returned, want.Returned)
	if !sameSeconds(got.CleanupWaitSeconds, want.CleanupWaitSeconds) {
		d.add("cleanupWaitSeconds", got.CleanupWaitSeconds, want.CleanupWaitSeconds)
	}
	return d
}

func sameSeconds(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	const tiny = 1e-6
	return math.Abs(*a-*b) < tiny
}

// compareAll compares lists entry by entry, or as headlines if their lengths differ.
func compareAll[T any](d *differences, name string, got, want []T, headline func(T) string) {
	if len(got) != len(want) {
		d.add(name, headlines(got, headline), headlines(want, headline))
		return
	}
	for i := range got {
		g, w := reflect.ValueOf(got[i]), reflect.ValueOf(want[i])
		for n, key := range keysOf(g.Type()) {
			d.field(fmt.Sprintf("%s[%d].%s", name, i, key), g.Field(n).Interface(), w.Field(n).Interface())
		}
	}
}

func headlines[T any](all []T, headline func(T) string) []string {
	out := []string{}
	for _, one := range all {
		out = append(out, headline(one))
	}
	return out
}

// sortedMessages sorts the conditions in messages, which the kubelet prints in random order.
func sortedMessages(answers []Admit) []Admit {
	out := slices.Clone(answers)
	for i := range out {
		head, rest, ok := strings.Cut(out[i].Message, "[")
		list, tail, closed := strings.Cut(rest, "]")
		if ok && closed {
			out[i].Message = head + "[" + strings.Join(slices.Sorted(slices.Values(strings.Fields(list))), " ") + "]" + tail
		}
	}
	return out
}

// differences collects differences in the order of comparison.
type differences []Difference

// field compares two values; nil and empty are equal.
func (d *differences) field(path string, got, want any) {
	if !equality.Semantic.DeepEqual(got, want) {
		d.add(path, got, want)
	}
}

func (d *differences) add(path string, got, want any) {
	*d = append(*d, Difference{Step: -1, Field: path, Got: asJSON(got), Want: asJSON(want)})
}

func (d differences) first() *Difference {
	if len(d) == 0 {
		return nil
	}
	return &d[0]
}

func asJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}

// tiedAlike reports whether got is one of the outcomes that want represents: many pods rank equal,
// and not all outcomes were recorded. The victim must be one of these pods, and everything that
// does not depend on its identity must be equal.
func tiedAlike(got, want *Outcome) bool {
	if !want.TieTruncated || len(got.Evictions) != 1 || len(want.Evictions) != 1 {
		return false
	}
	victim := got.Evictions[0].UID
	if victim == want.Evictions[0].UID || !slices.Contains(want.TiedPods, victim) || !slices.Equal(got.Returned, []string{victim}) {
		return false
	}
	for _, e := range got.Events {
		if e.Kind == kindPod && e.UID != victim {
			return false
		}
	}
	return len(compareOutcome(anonymous(got), anonymous(want))) == 0
}

// anonymous returns o without the parts that depend on the identity of victims.
func anonymous(o *Outcome) *Outcome {
	out := *o
	out.Returned = nil
	out.Evictions = slices.Clone(o.Evictions)
	for i, e := range out.Evictions {
		out.Evictions[i] = Eviction{IsEvicted: e.IsEvicted, Phase: e.Phase, Reason: e.Reason}
	}
	out.Events = slices.Clone(o.Events)
	for i, e := range out.Events {
		if e.Kind == kindPod {
			out.Events[i] = Event{Kind: e.Kind, Type: e.Type, Reason: e.Reason}
		}
	}
	return &out
}

// compareConfig compares refusals of the configuration. Their texts may differ: of several problems
// the recorded manager reports one, and we report all.
func compareConfig(s *Scenario, got, want *Decisions) *Difference {
	recorded := want.ConfigErrors
	if want.ConfigError != "" {
		recorded = append(slices.Clone(recorded), want.ConfigError)
	}
	same := func(text string) bool { return s.Config.saysSame(got.ConfigError, text) }
	if (got.ConfigError == "") == (want.ConfigError == "") && slices.ContainsFunc(recorded, same) {
		return nil
	}
	return &Difference{Step: -1, Field: "configError", Got: asJSON(got.ConfigError), Want: asJSON(want.ConfigError)}
}

// saysSame reports whether a line of ours contains the whole recorded text, or names the same
// fields and values of the configuration.
func (c *Config) saysSame(ours, recorded string) bool {
	if ours == "" {
		return false
	}
	own := c.words()
	named := slices.DeleteFunc(words(recorded), func(w string) bool { return !own[w] })
	for line := range strings.Lines(ours) {
		if strings.Contains(line, recorded) {
			return true
		}
		said := words(line)
		if len(named) > 0 && !slices.ContainsFunc(named, func(w string) bool { return !slices.Contains(said, w) }) {
			return true
		}
	}
	return false
}

// words returns the fields and values of the thresholds.
func (c *Config) words() map[string]bool {
	own := map[string]bool{}
	for _, m := range []map[string]string{c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim} {
		for field, value := range m {
			own[field], own[value] = true, true
		}
	}
	return own
}

// words splits a text at blanks and at punctuation that does not occur in signals and amounts.
func words(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`:;,[](){}", r) })
}
