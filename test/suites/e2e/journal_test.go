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
	"github.com/evictd/evictd/test/harness/stack"
)

// stepEnded is logged for each step of reclaim.
const stepEnded = "reclaim step ended"

// A journal is evictd's log as the test reads it.
type journal struct {
	mu  sync.Mutex
	all []evictd.Record
	// printed counts the records that were, from is where the chapter begins.
	printed, from int
}

func (j *journal) add(r evictd.Record) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, r)
}

func (j *journal) clear() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all, j.printed, j.from = nil, 0, 0
}

// since returns the records from index i on.
func (j *journal) since(i int) []evictd.Record {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.all[i:])
}

// chapter begins a new part of the story: what is awaited and counted from here
// on has happened in it.
func (j *journal) chapter(t *testing.T, title string) {
	t.Helper()
	j.print(t)
	t.Log("  " + title)
	j.from = len(j.since(0))
}

// print prints what evictd did since the last time.
func (j *journal) print(t *testing.T) {
	t.Helper()
	fresh := j.since(j.printed)
	for _, r := range fresh {
		if text := line(r); text != "" {
			t.Log("    " + text)
		}
	}
	j.printed += len(fresh)
}

// records are those with the message in this chapter.
func (j *journal) records(msg string) []evictd.Record {
	return slices.DeleteFunc(j.since(j.from), func(r evictd.Record) bool { return r.Msg != msg })
}

// await waits for a record with the message in this chapter.
func (j *journal) await(t *testing.T, msg string) evictd.Record {
	t.Helper()
	return j.awaitWithin(t, maxWait, msg)
}

func (j *journal) awaitWithin(t *testing.T, maxWait time.Duration, msg string) evictd.Record {
	t.Helper()
	var found []evictd.Record
	eventuallyWithin(t, maxWait, fmt.Sprintf("evictd says %q", msg), func() (bool, error) {
		found = j.records(msg)
		return len(found) > 0, nil
	})
	return found[0]
}

// awaitPasses gives evictd the time to see what there is.
func (j *journal) awaitPasses(t *testing.T) {
	t.Helper()
	eventually(t, "evictd has made two passes", func() (bool, error) { return len(j.records("pass")) >= 2, nil })
}

// awaitCalm waits until no condition is in force, and looks on for a while.
func (j *journal) awaitCalm(t *testing.T) {
	t.Helper()
	eventually(t, "all conditions have cleared", func() (bool, error) {
		changes := j.records("condition changed")
		return len(changes) > 0 && changes[len(changes)-1].String("status") == "false", nil
	})
	time.Sleep(time.Second)
	j.print(t)
}

// awaitVictim waits until pressure is over and checks that one of the pods had to go.
func (j *journal) awaitVictim(t *testing.T, signal, want string, pods map[string]*stack.Pod) {
	t.Helper()
	said := j.await(t, "evicting pod")
	j.await(t, "pod finished")
	j.awaitCalm(t)
	j.wantEvicted(t, pods[want].Key())
	// The threshold for writable layers is derived from the one of their filesystem.
	_, what, _ := strings.Cut(signal, ".")
	if got := said.String("signal"); got != signal && got != "containerfs."+what {
		t.Errorf("evicted for %s, want %s", got, signal)
	}
	t.Logf("    by the ranking %s", said.String("ranking"))
	for name, p := range pods {
		if name != want {
			wantRunning(t, p)
		}
	}
}

// wantEvicted wants this chapter's evictions to be those of the pods, one of each.
func (j *journal) wantEvicted(t *testing.T, pods ...string) {
	t.Helper()
	if got := j.evicted(); !slices.Equal(got, pods) {
		t.Errorf("evicted %q, want only %q", got, pods)
	}
}

// evicted are the pods that this chapter's evictions chose.
func (j *journal) evicted() []string {
	var out []string
	for _, r := range j.records("evicting pod") {
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
	case stepEnded:
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
