package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

func TestHalfAFileIsNotStarted(t *testing.T) {
	t.Parallel()
	dir := installed(t, "good")
	h := startHost(t, dir)
	before := h.plugin("good").PID
	content := testos.ReadFile(t, faultyProgram)
	// In place of the one that runs, and a new one.
	testos.Remove(t, filepath.Join(dir, "good"))
	var files []*os.File
	for _, name := range []string{"good", "fresh"} {
		f, err := os.OpenFile(filepath.Join(dir, name+".tmp"), os.O_CREATE|os.O_WRONLY, 0o700)
		if err != nil {
			t.Fatal(err)
		}
		testos.Rename(t, f.Name(), filepath.Join(dir, name))
		files = append(files, f)
	}
	// The removal may have been seen or not.
	waiting := func(says string) func() bool {
		return func() bool {
			fresh, good := h.plugin("fresh"), h.plugin("good")
			goodWaits := good.State == Waiting && strings.Contains(good.Reason, says)
			if r := good.Replacement; r != nil {
				goodWaits = r.State == Waiting && strings.Contains(r.Reason, says) && good.PID == before
			}
			return fresh.State == Waiting && strings.Contains(fresh.Reason, says) && goodWaits
		}
	}
	eventually(t, "empty files are waited for", waiting("still being written: it is empty"))
	for _, f := range files {
		if _, err := f.Write(content[:len(content)/2]); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "files that are open for writing are waited for", waiting("still being written: it is open for writing"))
	half := files[0]
	if err := half.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "half a program is waited for", func() bool {
		s := h.plugin("good")
		r := s.Reason
		if s.Replacement != nil {
			r = s.Replacement.Reason
		}
		return strings.Contains(r, "its headers speak of")
	})
	for _, f := range files {
		rest, err := os.OpenFile(f.Name()[:len(f.Name())-len(".tmp")], os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rest.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		_ = rest.Close()
	}
	eventually(t, "only fresh is waited for", func() bool {
		good := h.plugin("good")
		return h.plugin("fresh").State == Waiting && good.State == Running && good.PID != before
	})
	if err := files[1].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "fresh runs", func() bool { return h.plugin("fresh").State == Running })
	if s := h.plugin("fresh"); s.LastError != "" || s.Restarts != 0 {
		t.Errorf("%+v, want nothing wrong with it", s)
	}
}
