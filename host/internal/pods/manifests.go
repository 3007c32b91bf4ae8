package pods

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// maxManifestBytes is the most that is read of one manifest. The largest
	// object that a cluster can store has 1.5 MiB, real pods a few KiB.
	maxManifestBytes = 1 << 20
	// settleTime is how old a change must be for the file's times to tell it from
	// a later one: filesystem timestamps tick every 4 to 10 ms.
	settleTime = 100 * time.Millisecond
)

// Manifests is a directory of v1.Pod manifests, each in a file that ends with
// .yaml, .yml or .json. Files whose names begin with a dot are ignored. It is
// safe for concurrent use.
type Manifests struct {
	// Rules say what a manifest requests. They must not change after the first use.
	Rules Rules

	dir string

	mu    sync.Mutex
	files map[string]*manifestFile
}

// NewManifests returns the manifests in dir, which need not exist yet, with the
// kubelet's default gates as rules.
func NewManifests(dir string) *Manifests {
	return &Manifests{Rules: defaultRules, dir: dir, files: map[string]*manifestFile{}}
}

// A manifest is a pod that a file describes and the row made of it once.
type manifest struct {
	file string
	api  *v1.Pod
	row  eviction.Pod
}

// manifestFile is what was read of a file, kept until the file changes.
type manifestFile struct {
	identity fileIdentity
	// settled: the file changed long enough before it was read, so a later change
	// shows in its identity.
	settled  bool
	manifest *manifest
	problems []Problem
}

// fileIdentity changes when the file's content does.
type fileIdentity struct {
	device, inode    uint64
	size             int64
	modified, status unix.Timespec
}

// Problems reads what changed since the last time and returns what is wrong with
// any of the files, or with the directory. It asks no container runtime.
func (m *Manifests) Problems() []Problem {
	_, problems := m.list()
	return problems
}

// list returns the manifests by uid and all problems, in the order of file
// names. It parses only what changed since the last time.
func (m *Manifests) list() (map[string]*manifest, []Problem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		m.files = map[string]*manifestFile{}
		return nil, []Problem{{File: m.dir, Err: directoryProblem(err)}}
	}
	byUID := make(map[string]*manifest, len(entries))
	kept := make(map[string]*manifestFile, len(entries))
	var problems []Problem
	for _, entry := range entries {
		name := entry.Name()
		if !isManifestName(name) {
			continue
		}
		f := m.read(filepath.Join(m.dir, name), m.files[name])
		if f == nil {
			continue
		}
		kept[name] = f
		problems = append(problems, f.problems...)
		if f.manifest == nil {
			continue
		}
		uid := f.manifest.row.UID
		if first, ok := byUID[uid]; ok {
			problems = append(problems, Problem{
				File: f.manifest.file,
				Err:  fmt.Errorf("metadata.uid %q is also in %s, which is used; want one file for each pod", uid, first.file),
			})
			continue
		}
		byUID[uid] = f.manifest
	}
	m.files = kept
	return byUID, problems
}

func directoryProblem(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("manifest directory does not exist: no pod can be evicted until it holds their v1.Pod manifests (podManifestDir)")
	}
	return fmt.Errorf("read manifest directory: %w", err)
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

// read returns former if the file is unchanged, what is in it now otherwise, and
// nil if it is gone.
func (m *Manifests) read(path string, former *manifestFile) *manifestFile {
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return failed(path, fileIdentity{}, fmt.Errorf("stat: %w", err))
	}
	now := identityOf(&stat)
	if former != nil && former.settled && former.identity == now {
		return former
	}
	started := time.Now()
	f := m.parse(path, now)
	modified, status := time.Unix(stat.Mtim.Unix()), time.Unix(stat.Ctim.Unix())
	f.settled = started.Sub(modified) > settleTime && started.Sub(status) > settleTime
	return f
}

func identityOf(s *unix.Stat_t) fileIdentity {
	return fileIdentity{device: s.Dev, inode: s.Ino, size: s.Size, modified: s.Mtim, status: s.Ctim}
}

func failed(path string, identity fileIdentity, err error) *manifestFile {
	return &manifestFile{identity: identity, problems: []Problem{{File: path, Err: err}}}
}

func (m *Manifests) parse(path string, identity fileIdentity) *manifestFile {
	data, err := readManifest(path)
	if err != nil {
		return failed(path, identity, err)
	}
	pod, warning, err := decode(data, filepath.Ext(path) == ".json")
	if err != nil {
		return failed(path, identity, err)
	}
	f := &manifestFile{identity: identity, manifest: &manifest{file: path, api: pod, row: m.Rules.Row(pod, nil)}}
	if warning != nil {
		f.problems = []Problem{{File: path, Err: warning, Used: true}}
	}
	return f
}

// readManifest reads a regular file and nothing else: a fifo in the directory
// must not stop the daemon.
func readManifest(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		// The path is in the problem already.
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		return nil, fmt.Errorf("open: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read.
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is a %s, want a regular file", info.Mode().Type())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxManifestBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxManifestBytes {
		return nil, fmt.Errorf("has more than %d bytes, want a single v1.Pod", maxManifestBytes)
	}
	return data, nil
}
