package store

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
)

// A Filter selects records. Empty fields match all. What names a pod or a record, and with Loose a
// controller (kind/namespace/name) or the beginning of a name.
type Filter struct {
	What, Signal, Namespace string
	Loose                   bool
	// Kind selects decisions of a kind, Plugin those whose order the ranker of that name made.
	Kind, Plugin string
	Since        time.Duration
	// From and Until bound the time.
	From, Until time.Time
	// All includes decisions not to evict, and so does Kind.
	All bool
	// ids are those of the records, nil for any.
	ids map[string]bool
}

func (f *Filter) all() bool { return f.All || f.Kind != "" }

// takes reports whether the filter selects the record of h, but for its plugin.
func (f *Filter) takes(h *decision.Head, now time.Time) bool {
	return (f.all() || h.UID != "") &&
		(f.What == "" || h.Named(f.What) || f.Loose && (h.OwnedBy(f.What) || begins(h, f.What))) &&
		!h.Time.Before(f.From) && (f.Until.IsZero() || !h.Time.After(f.Until)) &&
		(f.Since == 0 || now.Sub(h.Time) <= f.Since) &&
		(f.Signal == "" || h.Signal == f.Signal) &&
		(f.Kind == "" || h.Kind == f.Kind) &&
		(f.ids == nil || f.ids[h.ID]) &&
		(f.Namespace == "" || strings.HasPrefix(h.Pod, f.Namespace+"/"))
}

// takesName is like takes, for a head from a file name. It may select records that takes does not.
func (f *Filter) takesName(h *decision.Head, now time.Time) bool {
	byName := Filter{Namespace: part(f.Namespace), Since: f.Since, All: f.all(), From: f.From, Until: f.Until}
	_, name, _ := strings.Cut(h.Pod, "/")
	if !byName.takes(h, now) {
		return false
	}
	return f.What == "" || slices.Contains([]string{h.ID, h.UID, name, part(h.Pod)}, part(f.What)) || f.Loose && (begins(h, f.What) || ownedPerhaps(h, f.What))
}

// begins reports whether the id of a record, or the name of its pod, begins with what.
func begins(h *decision.Head, what string) bool {
	_, name, _ := strings.Cut(h.Pod, "/")
	return slices.ContainsFunc([]string{h.ID, h.Pod, name}, func(s string) bool { return strings.HasPrefix(s, what) })
}

// ownedPerhaps reports whether the name of a pod may be one that a controller made: it begins with the controller's.
func ownedPerhaps(h *decision.Head, what string) bool {
	_, owner, ok := strings.Cut(what, "/")
	namespace, name, qualified := strings.Cut(owner, "/")
	if !qualified {
		namespace, name = h.Pod[:max(0, strings.IndexByte(h.Pod, '/'))], owner
	}
	return ok && strings.HasPrefix(h.Pod, part(namespace)+"/"+strings.TrimSuffix(part(name), changed))
}

// WhyNone explains why no record in dir is selected.
func (f *Filter) WhyNone(dir string, now time.Time) string {
	names, _ := fileNames(dir) // an error was reported
	names = slices.DeleteFunc(names, func(name string) bool { _, ok := parse(name); return !ok })
	if len(names) == 0 {
		return fmt.Sprintf("no decision is on record in %s", dir)
	}
	first, _ := parse(names[0])
	what, since, hint := "eviction", first.Time, "; --all lists decisions not to evict"
	if f.all() {
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
	return fmt.Sprintf("no %s since %s is on record in %s%s%s", what, since.UTC().Format(time.DateTime), dir, like(names, f.What), hint)
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
	heads, _ := Heads(dir, Filter{All: true}) // those that can be read
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
