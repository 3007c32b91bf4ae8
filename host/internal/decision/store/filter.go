package store

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
)

// A Filter says which records are listed: those of the pod that What names, if it is not empty,
// and so on.
type Filter struct {
	What, Signal, Namespace string
	Since                   time.Duration
	// All is with decisions not to evict.
	All bool
}

// Takes reports whether the record of h is listed.
func (f *Filter) Takes(h *decision.Head, now time.Time) bool {
	return (f.All || h.UID != "") &&
		(f.What == "" || h.Named(f.What)) &&
		(f.Since == 0 || now.Sub(h.Time) <= f.Since) &&
		(f.Signal == "" || h.Signal == f.Signal) &&
		(f.Namespace == "" || strings.HasPrefix(h.Pod, f.Namespace+"/"))
}

// WhyNone says why none of heads, which are all that dir has, is listed.
func (f *Filter) WhyNone(dir string, heads []decision.Head, now time.Time) string {
	if len(heads) == 0 {
		return fmt.Sprintf("no decision is on record in %s", dir)
	}
	what, since, hint := "eviction", heads[0].Time, "; --all lists decisions not to evict"
	if f.All {
		what, hint = "decision", ""
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
	return fmt.Sprintf("no %s since %s is on record in %s%s", what, since.UTC().Format(time.DateTime), dir, hint)
}

// An Age is a flag's value: a duration, which may be given in days.
type Age time.Duration

// Set reads an age such as 36h or 7d.
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

// String returns "" for none, so that help shows no default.
func (a *Age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type names the value in help.
func (*Age) Type() string { return "duration" }
