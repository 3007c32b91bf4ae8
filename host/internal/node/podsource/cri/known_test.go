package cri

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// wantKnown lists the manifests and wants these uids, and a problem with each of
// the texts.
func wantKnown(t *testing.T, when string, m *Manifests, want []string, texts ...string) {
	t.Helper()
	got, problems := m.list()
	if !slices.Equal(uids(got), want) {
		t.Errorf("%s: %v is known, want %v", when, uids(got), want)
	}
	if len(problems) != len(texts) {
		t.Errorf("%s: problems %v, want %q", when, problems, texts)
		return
	}
	for i, text := range texts {
		if !strings.Contains(problems[i].Error(), text) {
			t.Errorf("%s: problem %v, want %q in it", when, problems[i], text)
		}
	}
}

// A manifest directory that was away for seconds left no candidates, although all
// of them were known.
func TestADirectoryThatIsAwayForAWhileCostsNoCandidate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	testos.Mkdir(t, dir, 0o700)
	put(t, dir, "a.yaml", podYAML("a", "a"))
	put(t, dir, "b.yaml", podYAML("b", "b"))
	m := NewManifests(dir, defaultRules)
	all := []string{"a", "b"}
	wantKnown(t, "there", m, all)
	testos.Rename(t, dir, dir+".away")
	const away = "manifest directory cannot be read: no such file or directory; the 2 manifests that were read before are still used"
	for range 2 {
		wantKnown(t, "away", m, all, away)
	}
	put(t, filepath.Dir(dir), "manifests", "a file in its place")
	wantKnown(t, "a file", m, all, "not a directory; the 2 manifests")
	if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir), os.Remove(filepath.Join(dir, "a.yaml"))); err != nil {
		t.Fatal(err)
	}
	wantKnown(t, "back, without one of them", m, []string{"b"})
}

// A missing directory says nothing about any pod: no leftovers are removed.
func TestADirectoryThatIsAwayDeletesNoPod(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	testos.Mkdir(t, dir, 0o700)
	s := fakecri.New()
	s.Add(fakecri.Pod{UID: "p", Namespace: "default", Name: "p", Containers: []fakecri.Container{{Name: "c"}}})
	s.Add(fakecri.Pod{UID: "q", Namespace: "default", Name: "q", NotReady: true})
	put(t, dir, "p.yaml", podYAML("p", "p"))
	put(t, dir, "q.yaml", podYAML("q", "q"))
	source := New(criclient.NewLister(s.Client(), nil), NewManifests(dir, defaultRules))
	for _, away := range []bool{false, true} {
		if away {
			testos.Rename(t, dir, dir+".away")
		}
		got, err := source.Active(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Pods) != 1 || !got.Pods[0].HasManifest {
			t.Errorf("away %v: pods %+v, want p with its manifest", away, got.Pods)
		}
		if want := []pods.Ended{{UID: "q", State: eviction.PodActive}}; !slices.Equal(got.Ended, want) || got.Complete == away {
			t.Errorf("away %v: ended %v, complete %v, want %v and %v", away, got.Ended, got.Complete, want, !away)
		}
	}
}

// Idle connections took all descriptors, and with them all candidates, also after
// they had gone: that a file could not be opened was remembered until it changed.
func TestWithoutDescriptorsWhatWasKnownStays(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.yaml", podYAML("a", "a"))
	m := NewManifests(dir, defaultRules)
	for wantKnown(t, "before", m, []string{"a"}); !m.joined.files["a.yaml"].settled; {
		m.list()
	}
	put(t, dir, "a.yaml", podYAML("a", "changed"))
	put(t, dir, "b.yaml", podYAML("b", "b"))
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 3, Max: limit.Max}
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer restore()
	wantKnown(t, "no descriptors", m, []string{"a"}, "too many open files; the 1 manifests")
	f := m.read(filepath.Join(dir, "a.yaml"), "", m.joined.files["a.yaml"])
	if f.manifest == nil || f.settled || len(f.problems) != 1 || !strings.Contains(f.problems[0].Error(), "too many open files; what was read of it before is still used") {
		t.Errorf("a file that cannot be opened: %+v", f)
	}
	m.joined.files["a.yaml"] = f
	restore()
	wantKnown(t, "descriptors again", m, []string{"a", "b"})
	if got, _ := m.list(); got["a"].row.Name != "changed" {
		t.Errorf("a is %q, want what the file says now", got["a"].row.Name)
	}
}

// Who breaks the manifest of a pod that runs does not make the pod immune.
func TestAFileThatBreaksCountsAsItWas(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	put(t, dir, "a.yaml", podYAML("a", "a"))
	m := NewManifests(dir, defaultRules)
	wantKnown(t, "whole", m, []string{"a"})
	replace := func(with func() error) {
		t.Helper()
		if err := errors.Join(os.Remove(file), with()); err != nil {
			t.Fatal(err)
		}
	}
	const still = "; what was read of it before is still used"
	put(t, dir, "a.yaml", "a: [")
	wantKnown(t, "not YAML", m, []string{"a"}, "did not find expected node content"+still)
	replace(func() error { return unix.Mkfifo(file, 0o600) })
	wantKnown(t, "a pipe", m, []string{"a"}, "is a pipe, want a regular file"+still)
	replace(func() error { return os.Symlink("/proc/kmsg", file) })
	wantKnown(t, "the kernel's log", m, []string{"a"}, "is a file of the kernel's, want a regular file"+still)
	replace(func() error { return os.Symlink("nowhere", file) })
	wantKnown(t, "a link to nothing", m, []string{"a"}, "is a symbolic link to nothing"+still)
	put(t, dir, "elsewhere", podYAML("a", "again"))
	replace(func() error { return os.Symlink("elsewhere", file) })
	wantKnown(t, "a link to a manifest", m, []string{"a"})
	replace(func() error { return nil })
	wantKnown(t, "gone", m, nil)
}

// A manifest that cannot be read to its end, such as a link to the kernel's log,
// held up the loop for good.
func TestAFileThatHangsDelaysNoPass(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a.yaml", podYAML("a", "a"))
	put(t, dir, "b.yaml", podYAML("b", "b"))
	m := NewManifests(dir, defaultRules)
	wantKnown(t, "before", m, []string{"a", "b"})
	hang := func(name string) (answer func()) {
		hangs, begun, late, over := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() {
			<-begun
			close(late)
		}()
		hung := func() (struct{}, error) {
			defer close(over)
			close(begun)
			<-hangs
			return struct{}{}, nil
		}
		if _, err := hang.DoAs(&m.left, name, late, hung); err == nil {
			t.Fatal("does not hang")
		}
		return func() { close(hangs); <-over }
	}
	answer := hang(filepath.Join(dir, "a.yaml"))
	put(t, dir, "b.yaml", podYAML("b", "b", "spec: {priority: 9}"))
	wantKnown(t, "a hangs", m, []string{"a", "b"}, "a.yaml: the filesystem does not answer; what was read of it before is still used")
	if got, _ := m.list(); got["b"].row.Priority != 9 {
		t.Error("the other file is not read while one hangs")
	}
	answer()
	for {
		if _, problems := m.list(); len(problems) == 0 {
			break
		}
	}
	answer = hang(dir)
	wantKnown(t, "the directory hangs", m, []string{"a", "b"}, "manifest directory cannot be read: the filesystem does not answer; the 2 manifests")
	answer()
}

// 720 kB of keys that are given twice made a log line of 3.5 MB.
func TestWhatIsSaidOfRubbishIsShort(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "keys.yaml", podYAML("a", "a", "spec:\n"+strings.Repeat("  x: 1\n", 20_000)))
	put(t, dir, "key.yaml", podYAML("b", "b", "spec: {? "+strings.Repeat("x", 20_000)+" : 1}"))
	put(t, dir, "fields.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"c","name":"c"}`+strings.Repeat(`,"x":1`, 20_000)+`}`)
	put(t, dir, "value.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"d","name":"d"},"spec":{"overhead":{"cpu":"`+strings.Repeat("x", 20_000)+`"}}}`)
	put(t, dir, "kind.yaml", "kind: "+strings.Repeat("x", 20_000))
	for i := range 2 * maxProblems {
		put(t, dir, "n\x1b"+strings.Repeat("n", 200)+string(rune('a'+i%26))+strings.Repeat("o", i)[:i%40]+".yaml", "x")
	}
	m := NewManifests(dir, defaultRules)
	problems := m.Problems()
	for strings.Contains(fmt.Sprint(problems), lookTimeout.String()) { // a busy machine
		problems = m.Problems()
	}
	if len(problems) != maxProblems+1 {
		t.Errorf("%d problems, want %d and how many more", len(problems), maxProblems)
	}
	for _, p := range problems {
		if text := p.Error(); len(text) > 2500 || strings.Contains(text, "\x1b") {
			t.Errorf("%d bytes: %.100q", len(text), text)
		}
	}
	if last := problems[len(problems)-1].Error(); !strings.Contains(last, "more problems with manifests") {
		t.Errorf("the last is %s", last)
	}
}
