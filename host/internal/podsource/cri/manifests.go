package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/hang"
)

const (
	// lookTimeout is how long a listing waits for a filesystem that hangs.
	lookTimeout = 2 * time.Second
	// maxProblems is how many problems are told.
	maxProblems = 100
)

// Manifests is a directory of v1.Pod manifests, each in a file that ends with
// .yaml, .yml or .json. Files whose names begin with a dot are ignored. What was
// read once stays in use as long as nothing better can be read: while the directory
// is away, or a file of it cannot be read or makes no sense, or is gone and its pod
// runs. It is safe for concurrent use.
type Manifests struct {
	dir   string
	rules pods.Rules
	left  hang.Left

	mu     sync.Mutex
	joined join
}

// NewManifests returns the manifests in dir, which need not exist yet. The rules say
// what they request.
func NewManifests(dir string, rules pods.Rules) *Manifests {
	return &Manifests{dir: dir, rules: rules, joined: newJoin(dir)}
}

// Problems reads what changed since the last time and returns what is wrong with
// any of the files, or with the directory. It asks no container runtime.
func (m *Manifests) Problems() []pods.Problem {
	_, problems := m.list()
	return m.told(problems)
}

// told is as many of the problems as somebody reads.
func (m *Manifests) told(problems []pods.Problem) []pods.Problem {
	if len(problems) <= maxProblems {
		return problems
	}
	more := pods.Problem{File: m.dir, Err: fmt.Errorf("%d more problems with manifests", len(problems)-maxProblems), Used: allUsed(problems[maxProblems:])}
	return append(slices.Clip(problems[:maxProblems]), more)
}

// list brings the files up to date and joins them with the pods of the last listing.
func (m *Manifests) list() (map[string]*manifest, []pods.Problem) {
	m.refresh()
	return m.last()
}

// refresh reads what changed since the last time.
func (m *Manifests) refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	late := make(chan struct{})
	timer := time.AfterFunc(lookTimeout, func() { close(late) })
	defer timer.Stop()
	files, err := m.look(late, m.joined.files)
	m.joined.update(files, err)
}

// of returns the manifests of these pods, and of those that only have a file, with
// all problems.
func (m *Manifests) of(listed map[string]listedPod) (map[string]*manifest, []pods.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined.list(listed)
	return m.joined.result()
}

// last returns what the files of the last refresh and the pods of the last listing
// say.
func (m *Manifests) last() (map[string]*manifest, []pods.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.joined.result()
}

// look returns the files as they are now, as far as that is known before late. The
// known ones are never changed, so that one who is late may still look at them.
func (m *Manifests) look(late <-chan struct{}, known map[string]*manifestFile) (map[string]*manifestFile, error) {
	entries, err := hang.DoAs(&m.left, m.dir, late, func() ([]entry, error) { return entriesOf(m.dir, known) })
	if err != nil {
		return known, directoryProblem(err, len(known))
	}
	files, missed := make(map[string]*manifestFile, len(entries)), 0
	for _, e := range entries {
		f := known[e.name]
		switch {
		case e.unchanged:
		case closed(late):
			missed++
		default:
			f = m.readSoon(late, filepath.Join(m.dir, e.name), f)
		}
		if f != nil {
			files[e.name] = f
		}
	}
	if missed > 0 {
		return files, fmt.Errorf("reading takes more than %v: %d files were not looked at, what was read of them before is still used", lookTimeout, missed)
	}
	return files, nil
}

func (m *Manifests) readSoon(late <-chan struct{}, path string, former *manifestFile) *manifestFile {
	f, err := hang.DoAs(&m.left, path, late, func() (*manifestFile, error) { return m.read(path, former), nil })
	if err != nil {
		return failed(path, former, err)
	}
	return f
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func directoryProblem(err error, known int) error {
	switch {
	case known > 0:
		return fmt.Errorf("manifest directory cannot be read: %w; the %d manifests that were read before are still used", err, known)
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("manifest directory does not exist: no pod can be evicted until it holds their v1.Pod manifests (podManifestDir)")
	default:
		return fmt.Errorf("read manifest directory: %w", err)
	}
}

// An entry is a file in the directory that is taken for a manifest.
type entry struct {
	name string
	// unchanged: there is nothing to be read.
	unchanged bool
}

// entriesOf returns the manifests in dir. It looks at files of the directory's own
// filesystem alone: a link may lead to one that hangs.
func entriesOf(dir string, known map[string]*manifestFile) ([]entry, error) {
	found, err := os.ReadDir(dir)
	if err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err // The path is in the problem already.
		}
		return nil, err
	}
	entries := make([]entry, 0, len(found))
	for _, f := range found {
		if name := f.Name(); isManifestName(name) {
			entries = append(entries, entry{name, f.Type().IsRegular() && known[name].isIn(filepath.Join(dir, name))})
		}
	}
	return entries, nil
}

func isManifestName(name string) bool {
	if strings.HasPrefix(name, ".") {
		return false
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}
