package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
)

// A journal is evictd's log as the test reads it.
type journal struct {
	mu      sync.Mutex
	records []evictd.Record
	// reported counts the records that were printed, from is where the chapter begins.
	reported, from int
}

func (j *journal) add(r evictd.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records = append(j.records, r)
}

func (j *journal) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.records, j.reported, j.from = nil, 0, 0
}

// since returns the records from index i on.
func (j *journal) since(i int) []evictd.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.records[i:])
}

// chapter begins a new part of the story: what is awaited and counted from here
// on has happened in it.
func (n *site) chapter(t *testing.T, title string) {
	t.Helper()
	n.tell(t)
	t.Log("  " + title)
	n.log.from = len(n.log.since(0))
}

// tell prints what evictd did since the last time.
func (n *site) tell(t *testing.T) {
	t.Helper()
	fresh := n.log.since(n.log.reported)
	for _, r := range fresh {
		if text := line(r); text != "" {
			t.Log("    " + text)
		}
	}
	n.log.reported += len(fresh)
}

// records are those with the message in this chapter.
func (n *site) records(msg string) []evictd.Record {
	return slices.DeleteFunc(n.log.since(n.log.from), func(r evictd.Record) bool { return r.Msg != msg })
}

// await waits for a record with the message in this chapter.
func (n *site) await(t *testing.T, msg string) evictd.Record {
	t.Helper()
	return n.awaitWithin(t, maxWait, msg)
}

func (n *site) awaitWithin(t *testing.T, maxWait time.Duration, msg string) evictd.Record {
	t.Helper()
	var found []evictd.Record
	eventuallyWithin(t, maxWait, fmt.Sprintf("evictd says %q", msg), func() (bool, error) {
		found = n.records(msg)
		return len(found) > 0, nil
	})
	return found[0]
}

// evicted are the pods that this chapter's evictions chose.
func (n *site) evicted() []string {
	var out []string
	for _, r := range n.records("evicting pod") {
		out = append(out, r.String("pod"))
	}
	return out
}

// line is a record in words, "" if it is not part of a story.
func line(r evictd.Record) string {
	switch r.Msg {
	case "threshold met":
		return fmt.Sprintf("%s is below %s: %s", r.String("signal"), r.String("threshold"), amount(r.String("signal"), r.String("available")))
	case "threshold satisfied":
		return fmt.Sprintf("%s is no longer below %s: %s", r.String("signal"), r.String("threshold"), amount(r.String("signal"), r.String("available")))
	case "reclaim step ended":
		out := fmt.Sprintf("%s: %s", r.String("step"), r.String("message"))
		if problem := r.String("error"); problem != "" {
			out += "; " + problem
		}
		return out
	case "reclaim was enough, no pod has to go":
		return fmt.Sprintf("reclaim was enough: %s from %s to %s", r.String("signal"), amount(r.String("signal"), r.String("before")), amount(r.String("signal"), r.String("available")))
	case "evicting pod":
		return fmt.Sprintf("evicting %s: %s", r.String("pod"), r.String("message"))
	case "pod finished":
		return fmt.Sprintf("%s is gone", r.String("pod"))
	case "condition changed":
		return fmt.Sprintf("%s: %s", r.String("condition"), r.String("status"))
	}
	if r.Level == "ERROR" || r.Level == "WARN" {
		return fmt.Sprintf("%s: %s %v", r.Level, r.Msg, r.Attrs)
	}
	return ""
}

// amount shows bytes in MiB and everything else as it is.
func amount(signal, digits string) string {
	value, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || isCount(signal) {
		return digits
	}
	return fmt.Sprintf("%.1f MiB", float64(value)/mib)
}

func isCount(signal string) bool {
	return signal == "inodes" || strings.HasSuffix(signal, ".inodesFree") || strings.HasPrefix(signal, "pid.")
}
