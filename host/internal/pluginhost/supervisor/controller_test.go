package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
)

// A stage is a controller whose work is done when the test says so, without files,
// processes or time.
type stage struct {
	control *controller
	t       *testing.T
	work    []func() func()
}

func newStage(t *testing.T, files ...string) *stage {
	t.Helper()
	s := newSupervisor(Options{Log: slog.New(slog.DiscardHandler), Timeouts: client.Timeouts{}}, nil)
	st := &stage{control: s.control, t: t}
	st.control.launcher = InProcess{}
	st.control.run = func(work func(context.Context) func()) context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		st.work = append(st.work, func() func() { return work(ctx) })
		return cancel
	}
	st.control.after = func(d time.Duration, _ func()) *time.Timer { return time.NewTimer(d) }
	st.control.found(look(files...))
	st.control.settle()
	return st
}

func look(names ...string) map[string]plugindir.File {
	files := map[string]plugindir.File{}
	for _, name := range names {
		files[name] = plugindir.File{Fit: true}
	}
	return files
}

// next does what has been begun first.
func (s *stage) next() {
	s.t.Helper()
	if len(s.work) == 0 {
		s.t.Fatal("nothing is under way")
	}
	w := s.work[0]
	s.work = s.work[1:]
	w()()
	s.control.settle()
}

func (s *stage) states() string {
	var all []string
	for _, p := range s.control.sorted() {
		all = append(all, fmt.Sprintf("%s %s", p.Name, p.State))
	}
	return strings.Join(all, ", ")
}

// Nobody waits for a plugin that was removed before it could begin.
func TestRemovalBeforeTheStart(t *testing.T) {
	s := newStage(t, "a")
	if s.control.started || s.states() != "a starting" {
		t.Fatalf("started %v, %s, want it to wait for a", s.control.started, s.states())
	}
	s.control.found(look())
	s.control.settle()
	if s.states() != "a removed" {
		t.Errorf("%s, want it to leave", s.states())
	}
	s.next()
	if !s.control.started || s.states() != "" {
		t.Errorf("started %v, %q, want nobody waited for", s.control.started, s.states())
	}
}

// One that is put back while it leaves counts fresh.
func TestAPluginThatIsBackBeforeItIsGone(t *testing.T) {
	s := newStage(t, "a")
	former := s.control.plugins["a"]
	s.control.found(look())
	s.control.settle()
	s.control.found(look("a"))
	s.control.settle()
	if s.control.plugins["a"] != former {
		t.Fatal("another one before the former is gone")
	}
	s.next()
	if s.control.plugins["a"] == former || s.states() != "a starting" {
		t.Errorf("%s, want a fresh one", s.states())
	}
}

// What has changed while an attempt was under way is another chance at once; what has
// not is waited for.
func TestChangesDuringAnAttempt(t *testing.T) {
	for _, changedFile := range []bool{true, false} {
		s := newStage(t, "a")
		a := s.control.plugins["a"]
		s.control.settle()
		if changedFile {
			a.wake()
		}
		s.control.attemptFailed(a, a.starting, errors.New("exit status 3"))
		s.control.settle()
		if again := a.starting != nil; again != changedFile || (a.State == Backoff) == changedFile {
			t.Errorf("news %v: another attempt %v, %s", changedFile, again, a.State)
		}
	}
}

// A call of a process that was replaced says nothing of the one that serves.
func TestReportsOfAFormerProcess(t *testing.T) {
	s := newStage(t, "a")
	s.control.report = func(f func()) { f() }
	p := s.control.plugins["a"]
	p.serving = &process{Instance: registry.NewInstance("a", 2, 1, &eviction.Plugin{})}
	s.control.reports(p, 1)(client.Report{Failed: errors.New("the former")})
	if p.lastError != nil {
		t.Errorf("last error %v, want none", p.lastError)
	}
	s.control.reports(p, 2)(client.Report{Failed: errors.New("it")})
	if p.lastError == nil {
		t.Error("no last error of the process that serves")
	}
}
