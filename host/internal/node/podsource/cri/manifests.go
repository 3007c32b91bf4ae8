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

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/node/podsource/pruned"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// lookTimeout bounds the wait of a listing for a filesystem that hangs.
	lookTimeout = 2 * time.Second
	// maxProblems bounds the problems reported.
	maxProblems = 100
	// maxManifests bounds the files in a directory: each is held in memory, and checked with each
	// listing. A node runs some hundred pods.
	maxManifests = 4096
)

// endings lists the extensions of manifests.
var endings = []string{".yaml", ".yml", ".json"}

// Manifests reads a directory of v1.Pod manifests, each in a file that ends with .yaml, .yml or
// .json. It ignores files whose names begin with a dot. A manifest stays in use until a better one
// can be read: while the directory is missing, a file is unreadable or invalid, or the file is gone
// and its pod runs. Static pods may have another directory. It is safe for concurrent use.
type Manifests struct {
	dir    string
	static place
	rules  pods.Rules
	left   hang.Left

	mu     sync.Mutex
	joined join
}

// A place locates manifests.
type place struct {
	// root is the node's, if path is a path of the node.
	root nodefs.FS
	// path is a directory, or for static pods possibly a single file.
	path string
	// node is the kubelet's node name if the manifests are static pods, otherwise empty.
	node string
}

// NewManifests returns the manifests in dir, which need not exist yet. rules determines what they
// request.
func NewManifests(dir string, rules pods.Rules) *Manifests {
	return &Manifests{dir: dir, rules: rules, joined: join{dir: dir, former: map[identity]goneManifest{}, static: staticJoin{pods: map[string]*manifest{}}}}
}

// WithStatic adds the static pods that the kubelet of a node of this name reads from a directory,
// or a single file, which need not exist yet. Every file of the directory counts unless its name
// begins with a dot.
func (m *Manifests) WithStatic(root nodefs.FS, path, node string) *Manifests {
	m.static, m.joined.static.path = place{root, path, node}, path
	return m
}

// Problems reads what changed since the last call and returns the problems of all files and of the
// directory. It does not call the container runtime.
func (m *Manifests) Problems() []pods.Problem {
	_, problems := m.list()
	return m.reported(problems)
}

// reported returns the problems to report, at most maxProblems and a count of the rest.
func (m *Manifests) reported(problems []pods.Problem) []pods.Problem {
	if len(problems) <= maxProblems {
		return problems
	}
	more := pods.Problem{File: m.dir, Err: fmt.Errorf("%d more problems with manifests", len(problems)-maxProblems), Used: allUsed(problems[maxProblems:])}
	return append(slices.Clip(problems[:maxProblems]), more)
}

// list reads the files and joins them with the pods of the last listing.
func (m *Manifests) list() (map[string]*manifest, []pods.Problem) {
	m.refresh()
	return m.last()
}

// last joins the files that were read last with the pods of the last listing.
func (m *Manifests) last() (map[string]*manifest, []pods.Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	manifests, problems, _ := m.joined.result()
	return manifests, problems
}

// refresh reads what changed since the last time.
func (m *Manifests) refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rules.Wanted.Grown() {
		m.joined.files, m.joined.static.files = unsettled(m.joined.files), unsettled(m.joined.static.files)
	}
	late := make(chan struct{})
	timer := time.AfterFunc(lookTimeout, func() { close(late) })
	defer timer.Stop()
	files, err := m.look(late, place{path: m.dir}, m.joined.files)
	m.joined.update(files, err, time.Now())
	if m.static.path != "" {
		files, err = m.look(late, m.static, m.joined.static.files)
		m.joined.static.update(files, err)
	}
}

// of returns the manifests of the pods of a listing that was asked for at asked, and of pods that only
// have a file, with all problems. all is that of join.result. named reports that the manifests are
// complete, with no static pod of unknown uid.
func (m *Manifests) of(listed map[string]listedPod, asked time.Time) (manifests map[string]*manifest, problems []pods.Problem, all, named bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joined.list(listed, asked)
	manifests, problems, all = m.joined.result()
	return manifests, problems, all, m.joined.static.absent == 0
}

// look returns the files as they are now, as far as that is known before late. It never modifies
// the known ones, because an abandoned call may still read them.
func (m *Manifests) look(late <-chan struct{}, p place, known map[string]*manifestFile) (map[string]*manifestFile, error) {
	entries, err := hang.DoAs(&m.left, p.path, late, func() (map[string]bool, error) { return p.entries(known) })
	if err != nil {
		return known, p.problem(err, len(known))
	}
	files, missed := make(map[string]*manifestFile, len(entries)), 0
	for name, unchanged := range entries {
		f := known[name]
		switch {
		case unchanged:
		case closed(late):
			missed++
		default:
			f = m.readSoon(late, p, name, f)
		}
		if f != nil {
			files[name] = f
		}
	}
	if missed > 0 {
		return files, fmt.Errorf("reading takes more than %v: %d files were not looked at, what was read of them before is still used", lookTimeout, missed)
	}
	return files, nil
}

func (m *Manifests) readSoon(late <-chan struct{}, p place, name string, former *manifestFile) *manifestFile {
	path := filepath.Join(p.path, name)
	f, err := hang.DoAs(&m.left, path, late, func() (*manifestFile, error) { return m.read(p.root.Path(path), p.node, former), nil })
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

func (p place) problem(err error, known int) error {
	what, without := "manifest directory", "no pod can be evicted until it holds their v1.Pod manifests (podManifestDir)"
	if p.node != "" {
		what, without = "directory of static pods", "no static pod is known by its manifest (staticPodPath)"
	}
	switch {
	case known > 0:
		return fmt.Errorf("%s cannot be read: %w; the %d manifests that were read before are still used", what, err, known)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist: %s", what, without)
	default:
		return fmt.Errorf("read %s: %w", what, err)
	}
}

// entries returns the names of the manifests, "" for the place itself, and whether each is
// unchanged. It examines only files on the directory's own filesystem: a link may lead to one that
// hangs.
func (p place) entries(known map[string]*manifestFile) (unchanged map[string]bool, err error) {
	if p.node != "" {
		if info, err := os.Stat(p.root.Path(p.path)); err == nil && info.Mode().IsRegular() {
			return map[string]bool{"": known[""].isIn(p.root.Path(p.path))}, nil
		}
	}
	found, err := input.ReadDir(p.root.Path(p.path), maxManifests)
	if err != nil {
		return nil, err
	}
	unchanged = make(map[string]bool, len(found))
	for _, f := range found {
		if p.holds(f) {
			unchanged[f.Name()] = f.Type().IsRegular() && known[f.Name()].isIn(p.root.Path(filepath.Join(p.path, f.Name())))
		}
	}
	return unchanged, nil
}

// holds reports whether a file of the directory is a manifest. For static pods, every file that the
// kubelet reads is one, whatever its extension (config/file.go:extractFromDir).
func (p place) holds(f fs.DirEntry) bool {
	if strings.HasPrefix(f.Name(), ".") {
		return false
	}
	if p.node != "" {
		return !f.IsDir()
	}
	return slices.Contains(endings, filepath.Ext(f.Name()))
}

const (
	// maxManifestBytes bounds the size of a manifest. The largest object that a cluster can store
	// has 1.5 MiB, real pods have a few KiB.
	maxManifestBytes = 1 << 20
	// settleTime is the minimum age of a change for the file's times to distinguish it from a later
	// one: filesystem timestamps have a resolution of 4 to 10 ms.
	settleTime = 100 * time.Millisecond
)

// manifestFile caches the content of a file until the file changes.
type manifestFile struct {
	identity fileIdentity
	// settled: the last change was old enough when the file was read, so that a later change shows
	// in its identity.
	settled bool
	// manifest in force, from an earlier content if the present one is invalid.
	manifest *manifest
	problems []pods.Problem
}

// fileIdentity changes when the file's content does.
type fileIdentity struct {
	device, inode    uint64
	size             int64
	modified, status unix.Timespec
}

func identityOf(s *unix.Stat_t) fileIdentity {
	return fileIdentity{device: s.Dev, inode: s.Ino, size: s.Size, modified: s.Mtim, status: s.Ctim}
}

// unsettled returns copies of the files that will be read again even if unchanged.
func unsettled(files map[string]*manifestFile) map[string]*manifestFile {
	out := make(map[string]*manifestFile, len(files))
	for name, f := range files {
		again := *f
		again.settled = false
		out[name] = &again
	}
	return out
}

// isIn reports whether path still has the content of f. f is nil if it was not read.
func (f *manifestFile) isIn(path string) bool {
	var stat unix.Stat_t
	return f != nil && f.settled && unix.Stat(path, &stat) == nil && f.identity == identityOf(&stat)
}

// read returns former if the file is unchanged, its new content otherwise, and nil if it is gone.
// node is set for static pods.
func (m *Manifests) read(path, node string, former *manifestFile) *manifestFile {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return failed(path, former, err)
		}
		if unix.Lstat(path, &stat) != nil {
			return nil
		}
		return failed(path, former, errors.New("is a symbolic link to nothing"))
	}
	now := identityOf(&stat)
	if former != nil && former.settled && former.identity == now {
		return former
	}
	started := time.Now()
	data, err := input.ReadFile(path, maxManifestBytes)
	if err != nil {
		return failed(path, former, err)
	}
	f := m.parse(path, node, data, former)
	f.identity = now
	modified, status := time.Unix(stat.Mtim.Unix()), time.Unix(stat.Ctim.Unix())
	f.settled = started.Sub(modified) > settleTime && started.Sub(status) > settleTime
	return f
}

func (m *Manifests) parse(path, node string, data []byte, former *manifestFile) *manifestFile {
	pod, warning, err := decode(data, filepath.Ext(path) == ".json", node != "")
	if err != nil {
		return failed(path, former, err)
	}
	if pod, err = bounded(pod, m.rules); err != nil {
		return failed(path, former, err)
	}
	if node != "" {
		asStatic(pod, node)
	}
	f := &manifestFile{manifest: &manifest{file: path, api: pod, row: m.rules.Row(pod, nil)}}
	if warning != nil {
		f.problems = []pods.Problem{{File: path, Err: warning, Used: true}}
	}
	if cut, is := pod.Annotations[pruned.AnnotationCut]; is {
		f.problems = append(f.problems, pods.Problem{File: path, Err: errors.New(cut), Used: true})
	}
	return f
}

// bounded returns what is kept of a pod from a manifest, which has no state. The class is that of all
// containers.
func bounded(pod *v1.Pod, rules pods.Rules) (*v1.Pod, error) {
	pod.Status.Phase, pod.Status.QOSClass = "", v1.PodQOSClass(rules.QoSClass(pod))
	raw, err := pod.Marshal()
	if err != nil {
		return nil, err
	}
	kept := &v1.Pod{}
	_, err = pruned.Unmarshal(rules.Wanted, kept, raw, nil)
	return kept, err
}

// failed returns the entry for a file that could not be read or decoded. The next call reads it
// again.
func failed(path string, former *manifestFile, err error) *manifestFile {
	f := &manifestFile{}
	if former != nil && former.manifest != nil {
		f.manifest = former.manifest
		err = fmt.Errorf("%w; what was read of it before is still used", printable.Clip(err))
	}
	f.problems = []pods.Problem{{File: path, Err: err}}
	return f
}
