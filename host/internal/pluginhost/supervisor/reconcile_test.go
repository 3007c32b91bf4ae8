package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/testos"
)

func TestRemoveAndPutBack(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good", "memory")
	h := startHost(t, dir, plain("good", "memory"))
	bystander := h.plugin("memory").PID
	pass, old := h.pinned("good")
	testos.Remove(t, filepath.Join(dir, "good"))
	eventually(t, "it is gone from status and passes", func() bool {
		p := h.Pin()
		defer p.Release()
		return h.plugin("good").Name == "" && len(p.Instances()) == 1
	})
	want(t, h.log.String(), `"msg":"plugin stopped, its signals are not observed","plugin":"good","because":"removed","signals":["faulty.example/good"]`)
	if _, err := observe(t.Context(), old); err != nil {
		t.Errorf("it is pinned and fails: %v", err)
	}
	put(t, dir, "good", "good")
	eventually(t, "it runs again although the former process is pinned", func() bool { return h.plugin("good").State == Running })
	if s := h.plugin("good"); s.Restarts != 0 || s.LastError != "" {
		t.Errorf("%+v, want it to count fresh", s)
	}
	pass.Release()
	eventually(t, "the former process has ended", func() bool { return !alive(old.PID) })
	if s := h.plugin("memory"); s.PID != bystander {
		t.Errorf("memory has pid %d, want it left alone with %d", s.PID, bystander)
	}
}

// A plugin that was removed before or during its start is not waited for.
func TestRemovalAtTheStart(t *testing.T) {
	t.Parallel()
	dir := installed(t, "silent", "good")
	time.AfterFunc(300*time.Millisecond, func() { _ = os.Remove(filepath.Join(dir, "silent")) })
	began := time.Now()
	h := startHost(t, dir)
	if took := time.Since(began); took > h.control.Timeouts.Handshake/2 {
		t.Errorf("the start took %s, want it to end with the removal", took)
	}
	eventually(t, "it is gone", func() bool { return len(h.Status()) == 1 && len(processesOf(h.sockets)) == 1 })
}

func TestRemovalDuringASwap(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	h := startHost(t, dir)
	put(t, dir, "good", "silent")
	eventually(t, "the new process is starting", func() bool { r := h.plugin("good").Replacement; return r != nil && len(processesOf(h.sockets)) == 2 })
	testos.Remove(t, filepath.Join(dir, "good"))
	eventually(t, "nothing is left", func() bool { return h.plugin("good").Name == "" && len(processesOf(h.sockets)) == 0 })
}

func TestLinks(t *testing.T) {
	t.Parallel()
	programs := installed(t, "first", "second")
	dir := privateDir(t)
	link := func(to string) {
		t.Helper()
		beside := filepath.Join(dir, ".link")
		testos.Symlink(t, filepath.Join(programs, to), beside)
		testos.Rename(t, beside, filepath.Join(dir, "good"))
	}
	link("first")
	h := startHost(t, dir, plain("good"))
	before := h.plugin("good").PID
	link("second")
	eventually(t, "the other target is taken over", func() bool { s := h.plugin("good"); return s.PID != before && s.State == Running })
	before = h.plugin("good").PID
	put(t, programs, "second", "good")
	h.look() // as after a while
	eventually(t, "a new target is taken over", func() bool { s := h.plugin("good"); return s.PID != before && s.State == Running })
	testos.Remove(t, filepath.Join(programs, "second"))
	h.look()
	eventually(t, "a link to nothing is a plugin that was removed", func() bool {
		s := h.plugin("good")
		return s.State == Refused && strings.Contains(s.Reason, "no such file")
	})
	link("first")
	eventually(t, "it is back", func() bool { return h.plugin("good").State == Running })
}

func TestAnotherDirectoryInItsPlace(t *testing.T) {
	t.Parallel()
	above := privateDir(t)
	dir, other := filepath.Join(above, "plugins"), filepath.Join(above, "other")
	for _, d := range []string{dir, other} {
		testos.Mkdir(t, d, 0o700)
	}
	put(t, dir, "a", "a")
	put(t, dir, "b", "b")
	h := startHost(t, dir, plain("a", "b", "c", "d"))
	put(t, other, "b", "b")
	put(t, other, "c", "c")
	before := h.plugin("b").PID
	testos.Rename(t, dir, dir+".old")
	eventually(t, "its absence is told", func() bool {
		return strings.Contains(h.log.String(), "plugin directory cannot be used, plugins stay as they are")
	})
	testos.Rename(t, other, dir)
	eventually(t, "the new directory counts", func() bool {
		return h.plugin("a").Name == "" && h.plugin("b").PID != before && h.plugin("b").State == Running && h.plugin("c").State == Running
	})
	put(t, dir, "d", "d")
	eventually(t, "it is watched", func() bool { return h.plugin("d").State == Running })
	testos.Chmod(t, dir, 0o777)
	put(t, dir, "e", "e")
	eventually(t, "nothing is taken from a directory that others may write to", func() bool { return strings.Contains(h.log.String(), "mode 0777 is writable by others") })
	if s := h.plugin("e"); s.Name != "" {
		t.Errorf("%+v was taken", s)
	}
}
