package loop

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/shared/eviction"
)

var errBroken = errors.New("broken")

// A diary notes what was done, with the time since start.
type diary struct {
	mu    sync.Mutex
	start time.Time
	done  []string
}

func (d *diary) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, fmt.Sprintf("%v ", time.Since(d.start))+fmt.Sprintf(format, args...))
}

// NodeEvent implements Recorder.
func (d *diary) NodeEvent(_, reason, _ string) { d.note("node event %s", reason) }

// PodEvent implements Recorder.
func (d *diary) PodEvent(p pods.Pod, _, reason, _ string, _ map[string]string) {
	d.note("event %s %s", reason, p.Row.Name)
}

// story returns what was done, less the observations.
func (d *diary) story() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(d.done), func(s string) bool { return strings.HasSuffix(s, " observe") })
}

func (d *diary) kills() []string {
	return slices.DeleteFunc(d.story(), func(s string) bool { return !strings.Contains(s, " kill ") })
}

func (d *diary) count(what string) (c int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.done {
		if strings.Contains(s, what) {
			c++
		}
	}
	return c
}

// A journal implements Journal in memory.
type journal struct {
	mu    sync.Mutex
	did   *diary
	kills map[string]victim.Kill
	owed  []policy.Owed
	err   error
}

func newJournal(did *diary) *journal { return &journal{did: did, kills: map[string]victim.Kill{}} }

func (j *journal) SaveKill(k victim.Kill) error {
	j.did.note("journal %s", k.Name)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.kills[k.UID] = k
	}
	return j.err
}

func (j *journal) RemoveKill(uid string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.kills, uid)
	return nil
}

func (j *journal) SaveOwed(all []policy.Owed) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.owed = all
	return j.err
}

func (j *journal) SaveConditions(map[eviction.Condition]time.Time) error { return nil }

// A lockedBuffer is read by a test while the loop writes.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// records holds the last conclusion that evicted a pod.
type records struct{ last Conclusion }

func (*records) Why(*decision.Decision) string { return "" }

func (r *records) Passed(c Conclusion) {
	if len(c.Evicted) > 0 {
		r.last = c
	}
}

// exposition returns the metrics of a loop.
func exposition(l *Loop) string {
	w := httptest.NewRecorder()
	l.options.Metrics.(*metrics.Metrics).Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}
