package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/shared/eviction"
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
// is away, or a file of it cannot be read or makes no sense. It is safe for
// concurrent use.
type Manifests struct {
	dir        string
	rules      pods.Rules
	operations input.Operations

	mu    sync.Mutex
	files map[string]*manifestFile
}

// NewManifests returns the manifests in dir, which need not exist yet. The rules say
// what they request.
func NewManifests(dir string, rules pods.Rules) *Manifests {
	return &Manifests{dir: dir, rules: rules, files: map[string]*manifestFile{}}
}

// A manifest is a pod that a file describes and the row made of it once.
type manifest struct {
	file string
	api  *v1.Pod
	row  eviction.Pod
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

// list returns the manifests by uid and all problems, in the order of file
// names. It parses only what changed since the last time.
func (m *Manifests) list() (map[string]*manifest, []pods.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	late := make(chan struct{})
	timer := time.AfterFunc(lookTimeout, func() { close(late) })
	defer timer.Stop()
	var problems []pods.Problem
	if err := m.look(late); err != nil {
		problems = append(problems, pods.Problem{File: m.dir, Err: input.Clip(err)})
	}
	byUID := make(map[string]*manifest, len(m.files))
	for _, name := range slices.Sorted(maps.Keys(m.files)) {
		f := m.files[name]
		problems = append(problems, f.problems...)
		if f.manifest == nil {
			continue
		}
		uid := f.manifest.row.UID
		if first, ok := byUID[uid]; ok {
			problems = append(problems, pods.Problem{
				File: f.manifest.file,
				Err:  fmt.Errorf("metadata.uid %q is also in %s, which is used; want one file for each pod", uid, first.file),
			})
			continue
		}
		byUID[uid] = f.manifest
	}
	return byUID, problems
}

// look brings the files up to date, as far as that is possible until late.
func (m *Manifests) look(late <-chan struct{}) error {
	known := m.files // never changed, so that one who is late may still look at it
	entries, err := input.Wait(late, &m.operations, m.dir, func() ([]entry, error) { return entriesOf(m.dir, known) })
	if err != nil {
		return m.directoryProblem(err)
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
	m.files = files
	if missed > 0 {
		return fmt.Errorf("reading takes more than %v: %d files were not looked at, what was read of them before is still used", lookTimeout, missed)
	}
	return nil
}

func (m *Manifests) readSoon(late <-chan struct{}, path string, former *manifestFile) *manifestFile {
	f, err := input.Wait(late, &m.operations, path, func() (*manifestFile, error) { return m.read(path, former), nil })
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

func (m *Manifests) directoryProblem(err error) error {
	switch known := len(m.files); {
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
