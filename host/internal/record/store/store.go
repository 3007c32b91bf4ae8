// Package store stores records of decisions, bounded by size and age: a file for each decision, with
// its outcome, which is found by its name and read with zcat. A file is complete or absent,
// whenever the writer crashes.
//
// One process writes; others may read at the same time. Package decision defines the records.
package store

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/input"
)

const (
	lockName = "lock"
	// asideName is the name of the file being written.
	asideName = ".new"
	// maxFile and maxDocument bound a record in bytes, in the file and unpacked.
	maxFile     = 4 << 20
	maxDocument = 64 << 20
	// maxOwner bounds the name of an owner in bytes.
	maxOwner = 8 << 10
	// headSize is the usual size of a head in bytes, which a reader can unpack without the rest.
	headSize = 2 << 10
	// block is the usual unit of disk space in bytes.
	block = 4096
)

// ErrNone is wrapped by the error for a name without a record.
var ErrNone = errors.New("no record")

// Options configures a Store.
type Options struct {
	// Dir is created if missing.
	Dir string
	// MaxBytes bounds the disk space of the records, MaxAge their age.
	MaxBytes int64
	MaxAge   time.Duration
	// Owner is returned by Holder while the store is open.
	Owner string
}

// A Store writes records. It belongs to one goroutine.
type Store struct {
	Options

	lock *os.File
	// used is the disk space of all records, at most.
	used int64
	// Ages count from when the store was opened, or from the latest record before that, so that a
	// clock that jumps does not make records old.
	opened, latest time.Time
	// now is time.Now, except in tests.
	now func() time.Time
	// write is (*os.File).Write and rename is os.Rename, except in tests of full disks and crashes.
	write  func(f *os.File, data []byte) (int, error)
	rename func(from, to string) error
}

// New returns a store that is not open yet: opening it may hang on a disk.
func New(o Options) *Store {
	return &Store{Options: o, now: time.Now, write: (*os.File).Write, rename: os.Rename}
}

// Open opens the store for writing, if it is not open, and removes an incomplete file. The writer
// calls it; a failure may be temporary. It returns an error if another process has the store open.
func (s *Store) Open() error {
	if s.lock != nil {
		return nil
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(s.Dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("%s: in use by another evictd: %w", lock.Name(), err), lock.Close())
	}
	if lock.Truncate(0) == nil { // for Holder alone: a full disk must not prevent records
		_, _ = lock.WriteAt([]byte(s.Owner), 0)
	}
	_ = os.Remove(filepath.Join(s.Dir, asideName)) // else the next write fails
	files, err := s.stored()
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	s.lock, s.opened, s.latest = lock, time.Now(), s.now()
	if len(files) > 0 {
		s.latest = slices.MaxFunc(files, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) }).ModTime()
	}
	return nil
}

// Holder returns the owner of the store below a state directory, empty if it is not open or not known.
func Holder(stateDir string) string {
	file := filepath.Join(config.RecordsDir(stateDir), lockName)
	if !input.Locked(file) {
		return ""
	}
	lock, err := os.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer lock.Close() //nolint:errcheck // only read
	text := make([]byte, maxOwner)
	n, _ := lock.ReadAt(text, 0) // it is shorter
	return string(text[:n])
}

// Append writes a record and returns when it is on disk. A failed write leaves nothing behind. A
// record that exists stays: r may be the stub of a resumed kill.
func (s *Store) Append(r *decision.Decision) error {
	if err := s.Open(); err != nil {
		return err
	}
	name := fileName(r)
	if _, err := os.Lstat(filepath.Join(s.Dir, name)); err == nil {
		return nil
	}
	return s.put(name, r)
}

// Missing returns the evictions by other programs to record: those that are not too old, and of which
// no record exists, neither an equal one nor evictd's own with the same message. It modifies all.
func (s *Store) Missing(all []*decision.Decision) ([]*decision.Decision, error) {
	if err := s.Open(); err != nil {
		return nil, err
	}
	names, err := fileNames(s.Dir)
	files := map[string][]string{} // by uid
	for _, name := range names {
		if h, ok := parse(name); ok {
			files[h.UID] = append(files[h.UID], name)
		}
	}
	return slices.DeleteFunc(all, func(r *decision.Decision) bool {
		return s.now().Sub(r.Time) > s.MaxAge || slices.ContainsFunc(files[part(r.Victim.UID)], func(name string) bool {
			d, err := readHead(filepath.Join(s.Dir, name))
			return err == nil && d.Victim != nil && d.Victim.UID == r.Victim.UID &&
				(d.Kind == decision.KindOther || !d.DryRun && strings.HasPrefix(d.Victim.Message, r.Victim.Message))
		})
	}), err
}

// configuredName is the name of the file that SaveConfigured writes. It is no record.
const configuredName = "configured"

// Configured returns what SaveConfigured saved last, nil if it has saved nothing.
func (s *Store) Configured() (*decision.Decision, error) {
	d, err := read(filepath.Join(s.Dir, configuredName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return d, err
}

// SaveConfigured saves the configuration in force, with its thresholds, for the next start.
func (s *Store) SaveConfigured(d *decision.Decision) error {
	if err := s.Open(); err != nil {
		return err
	}
	return s.put(configuredName, d)
}

// AppendOutcome adds the outcome of a decision to its record.
func (s *Store) AppendOutcome(o *decision.Outcome) error {
	if err := s.Open(); err != nil {
		return err
	}
	names, err := fileNames(s.Dir)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, part(o.ID)+"_") })
	if at < 0 {
		return fmt.Errorf("outcome of %s: %w", o.ID, ErrNone)
	}
	r, err := read(filepath.Join(s.Dir, names[at]))
	if err != nil {
		return fmt.Errorf("record %s: %w", o.ID, err)
	}
	r.Outcome = o.With(r.Outcome)
	return s.put(names[at], r)
}

// put writes a file aside and renames it, so that readers see the former content or the new one.
func (s *Store) put(name string, r *decision.Decision) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record %s: %w", r.ID, err)
	}
	var data bytes.Buffer // whose writes do not fail
	z := gzip.NewWriter(&data)
	begin := min(headSize, len(text))
	_, _ = z.Write(text[:begin])
	_ = z.Flush()
	_, _ = z.Write(append(text[begin:], '\n'))
	_ = z.Close()
	if data.Len() > maxFile {
		return fmt.Errorf("record %s: has %d bytes, want at most %d", r.ID, data.Len(), maxFile)
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil { // it may have been removed
		return err
	}
	size := (int64(data.Len()) + block - 1) / block * block
	if s.used+size > s.MaxBytes {
		if err := s.prune(size); err != nil {
			return err
		}
	}
	aside := filepath.Join(s.Dir, asideName)
	err = s.create(aside, data.Bytes())
	if err == nil {
		err = s.rename(aside, filepath.Join(s.Dir, name))
	}
	if err != nil {
		_ = os.Remove(aside)
		return err
	}
	s.used += size
	dir, err := os.Open(s.Dir)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (s *Store) create(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = s.write(f, data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Prune removes old records. Call it periodically.
func (s *Store) Prune() error {
	if err := s.Open(); err != nil {
		return err
	}
	return s.prune(0)
}

// prune removes records that are too old, and the oldest ones until size more bytes fit. It then
// leaves some space, so that it does not examine all files for each record.
func (s *Store) prune(size int64) error {
	files, err := s.stored()
	if err != nil {
		return err
	}
	now := s.now()
	if steady := s.latest.Add(time.Since(s.opened)); steady.Before(now) {
		now = steady
	}
	limit := s.MaxBytes - size
	if s.used > limit {
		limit -= s.MaxBytes / 16
	}
	for _, f := range files {
		if s.used <= limit && now.Sub(f.ModTime()) <= s.MaxAge {
			continue
		}
		if err := os.Remove(filepath.Join(s.Dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		s.used -= space(f)
	}
	return nil
}

// Close closes the store. It may be called twice.
func (s *Store) Close() error {
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}

// stored returns all files, the oldest first, also those that are no records, and sets used.
func (s *Store) stored() ([]fs.FileInfo, error) {
	names, err := fileNames(s.Dir)
	s.used = 0
	var files []fs.FileInfo
	for _, name := range names {
		if f, err := os.Lstat(filepath.Join(s.Dir, name)); err == nil { // else it was removed meanwhile
			files = append(files, f)
			s.used += space(f)
		}
	}
	return files, err
}

// space returns the disk space of a file: its size may be a terabyte, if it is sparse.
func space(f fs.FileInfo) int64 { return f.Sys().(*syscall.Stat_t).Blocks * 512 }
