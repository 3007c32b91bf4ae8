package cri

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/host/internal/pods"
)

const (
	// maxManifestBytes is the most that is read of one manifest. The largest
	// object that a cluster can store has 1.5 MiB, real pods a few KiB.
	maxManifestBytes = 1 << 20
	// settleTime is how old a change must be for the file's times to tell it from
	// a later one: filesystem timestamps tick every 4 to 10 ms.
	settleTime = 100 * time.Millisecond
)

// manifestFile is what was read of a file, kept until the file changes.
type manifestFile struct {
	identity fileIdentity
	// settled: the file was read, and had changed long enough before, so that a
	// later change shows in its identity.
	settled bool
	// manifest is what counts, also of a former content if the present one cannot.
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

// isIn reports whether path has what was read. A nil file is one that was not.
func (f *manifestFile) isIn(path string) bool {
	var stat unix.Stat_t
	return f != nil && f.settled && unix.Stat(path, &stat) == nil && f.identity == identityOf(&stat)
}

// read returns former if the file is unchanged, what is in it now otherwise, and
// nil if it is gone.
func (m *Manifests) read(path string, former *manifestFile) *manifestFile {
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
	f := m.parse(path, data, former)
	f.identity = now
	modified, status := time.Unix(stat.Mtim.Unix()), time.Unix(stat.Ctim.Unix())
	f.settled = started.Sub(modified) > settleTime && started.Sub(status) > settleTime
	return f
}

func (m *Manifests) parse(path string, data []byte, former *manifestFile) *manifestFile {
	pod, warning, err := decode(data, filepath.Ext(path) == ".json")
	if err != nil {
		return failed(path, former, err)
	}
	f := &manifestFile{manifest: &manifest{file: path, api: pod, row: m.rules.Row(pod, nil)}}
	if warning != nil {
		f.problems = []pods.Problem{{File: path, Err: input.Clip(warning), Used: true}}
	}
	return f
}

// failed is a file that could not be read, or not be understood. It is read again
// the next time.
func failed(path string, former *manifestFile, err error) *manifestFile {
	f := &manifestFile{}
	if former != nil && former.manifest != nil {
		f.manifest = former.manifest
		err = fmt.Errorf("%w; what was read of it before is still used", input.Clip(err))
	}
	f.problems = []pods.Problem{{File: path, Err: input.Clip(err)}}
	return f
}
