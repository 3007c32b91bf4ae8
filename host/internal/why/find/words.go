package find

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/store"
)

// WhyNone explains why f selects no record in dir.
func WhyNone(f *store.Filter, dir string, now time.Time) string {
	known, _ := store.Known(dir) // an error was reported
	if len(known) == 0 {
		return fmt.Sprintf("no decision is on record in %s", dir)
	}
	what, since, hint := "eviction", known[0].Time, "; --all lists decisions not to evict"
	if f.Whole() {
		what, hint = strings.TrimSpace(f.Kind+" decision"), ""
	}
	if f.Since > 0 && now.Add(-f.Since).After(since) {
		since = now.Add(-f.Since)
	}
	if named := cmp.Or(f.What, f.Namespace); named != "" {
		what += " of " + named
	}
	if f.Signal != "" {
		what += " for " + f.Signal
	}
	if f.Plugin != "" {
		what += " ranked by " + f.Plugin
	}
	return fmt.Sprintf("no %s since %s is on record in %s%s%s", what, since.UTC().Format(time.DateTime), dir, like(known, f.What), hint)
}

// An Age is a flag value: a duration that may be given in days.
type Age time.Duration

// Set parses an age such as 36h or 7d.
func (a *Age) Set(text string) error {
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return errors.New("want a duration such as 36h or 7d")
	}
	*a = Age(d)
	return nil
}

// String returns "" for zero, so that help shows no default.
func (a *Age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type is the type of the value in help texts.
func (*Age) Type() string { return "duration" }

// Words returns completions: words, followed by those that of returns for each record, the newest
// first; only those that begin with typed, without duplicates.
func Words(dir, typed string, of func(*decision.Head) []string, words ...string) []string {
	heads, _ := store.Heads(dir, store.Filter{All: true}) // those that can be read
	words = slices.Clone(words)
	for i := range slices.Backward(heads) {
		words = append(words, of(&heads[i])...)
	}
	seen := map[string]bool{"": true}
	return slices.DeleteFunc(words, func(word string) bool {
		again := seen[word]
		seen[word] = true
		return again || !strings.HasPrefix(word, typed) || word != printable.Text(word)
	})
}

// Names returns the pod, its uid and the id of the record.
func Names(h *decision.Head) []string { return []string{h.Pod, h.UID, h.ID} }

// Pods returns the pod.
func Pods(h *decision.Head) []string { return []string{h.Pod} }

// Signals returns the signal of the decision.
func Signals(h *decision.Head) []string { return []string{h.Signal} }

// Kinds returns the kind of the decision.
func Kinds(h *decision.Head) []string { return []string{h.Kind} }

// Namespaces returns the namespace of the pod.
func Namespaces(h *decision.Head) []string {
	namespace, _, _ := strings.Cut(h.Pod, "/")
	return []string{namespace}
}
