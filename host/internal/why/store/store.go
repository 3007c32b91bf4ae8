// Package store stores records of decisions in files, bounded by size and age. A file is a segment
// of gzip members, one for each decision and one for each outcome. A complete member survives any
// crash of the writer: an incomplete end is cut.
//
// One process writes; others may read at the same time. Package decision defines the records.
package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/core/decision"
)

const (
	// segments share the size limit: the oldest one is removed as a whole.
	segments = 16
	// segmentAge bounds the time for which a segment is written to, so that records are removed not
	// much later than their age demands.
	segmentAge = 24 * time.Hour
	// maxSegment is the largest segment in bytes, from the largest limit that can be configured.
	maxSegment = 16 << 30 / segments
	suffix     = ".json.gz"
	lockName   = "lock"
)

// Options configures a Store.
type Options struct {
	// Dir is created if missing.
	Dir string
	// MaxBytes bounds the size of the store, MaxAge the age of its records.
	MaxBytes int64
	MaxAge   time.Duration
}

// A Store writes records. It belongs to one goroutine.
type Store struct {
	Options

	lock *os.File
	// file is the segment being written, nil before the first record.
	file  *os.File
	size  int64
	began time.Time
	// Ages count from when the store was opened, or from the latest record before that, so that a
	// clock that jumps does not make records old.
	opened, latest time.Time
	// now is time.Now, except in tests.
	now func() time.Time
	// write is (*os.File).Write, except in tests of a full disk.
	write func(f *os.File, data []byte) (int, error)
}

// New returns a store that is not open yet: opening it may hang on a disk.
func New(o Options) *Store {
	return &Store{Options: o, now: time.Now, write: (*os.File).Write}
}

// Open opens the store for writing, if it is not open, and cuts an incomplete end. The writer calls
// it; a failure may be temporary. It returns an error if another process has the store open.
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
	s.opened, s.latest = time.Now(), s.lastWrite()
	if err := s.cutLast(); err != nil {
		return errors.Join(err, lock.Close())
	}
	s.lock = lock
	return nil
}

// lastWrite returns the time of the last record, now if there is none.
func (s *Store) lastWrite() (last time.Time) {
	names, _, _ := segmentNames(s.Dir) // an error is cutLast's
	for _, name := range names {
		if at, err := os.Stat(name); err == nil && at.ModTime().After(last) {
			last = at.ModTime()
		}
	}
	if last.IsZero() {
		return s.now()
	}
	return last
}

// cutLast cuts an incomplete end of the last segment. The earlier ones were completed. Other damage
// stays for inspection: nothing is written there.
func (s *Store) cutLast() error {
	names, _, err := segmentNames(s.Dir)
	if err != nil || len(names) == 0 {
		return err
	}
	f, err := os.OpenFile(names[len(names)-1], os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // its content was synced
	at, err := f.Stat()
	if err != nil {
		return err
	}
	end, wrong := members(f, at.Size(), all, func(m member) error {
		if m.at+m.length < at.Size() {
			return nil
		}
		if _, err := document(f, m); err != nil { // its length may be complete, but not its content
			return errTorn
		}
		return nil
	})
	// After a power failure the end of a record may be zeros.
	if errors.Is(wrong, errTorn) || wrong != nil && at.Size()-end <= maxMember && zeros(f, end+lengthAt+4, at.Size()) {
		return errors.Join(f.Truncate(end), f.Sync())
	}
	return nil
}

// zeros reports whether all bytes between from and size are zero.
func zeros(f io.ReaderAt, from, size int64) bool {
	buf := make([]byte, 32<<10)
	for ; from < size; from += int64(len(buf)) {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-from)], from)
		if err != nil && !errors.Is(err, io.EOF) || len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return false
		}
	}
	return true
}

// Append writes a record and returns when it is on disk. A failed write leaves nothing behind.
func (s *Store) Append(r *decision.Decision) error { return s.append(r.Head(), r) }

// AppendOutcome writes the outcome of a decision.
func (s *Store) AppendOutcome(o *decision.Outcome) error {
	return s.append(decision.Head{ID: o.ID, Outcome: o}, o)
}

func (s *Store) append(head decision.Head, document any) error {
	data, err := encode(head, document)
	if err != nil {
		return fmt.Errorf("record %s: %w", head.ID, err)
	}
	if err := s.Open(); err != nil {
		return err
	}
	if err := s.room(int64(len(data))); err != nil {
		return err
	}
	if _, err = s.write(s.file, data); err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		if errCut := s.file.Truncate(s.size); errCut != nil { // a reader stops there
			return errors.Join(err, errCut, s.endSegment())
		}
		return err
	}
	s.size += int64(len(data))
	return nil
}

// room prepares a segment for n more bytes, and removes old segments.
func (s *Store) room(n int64) error {
	if s.file != nil && !s.removed() && s.size+n <= s.MaxBytes/segments && time.Since(s.began) < segmentAge {
		return nil
	}
	if err := errors.Join(s.endSegment(), os.MkdirAll(s.Dir, 0o700)); err != nil {
		return err
	}
	if _, err := s.prune(n); err != nil {
		return err
	}
	s.began = time.Now()
	name := filepath.Join(s.Dir, s.began.UTC().Format("20060102T150405.000000000Z")+suffix)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	s.file, s.size = f, 0
	return syncDir(s.Dir)
}

// removed reports whether the segment was removed, so that writes to it would be lost.
func (s *Store) removed() bool {
	var at unix.Stat_t
	return unix.Fstat(int(s.file.Fd()), &at) != nil || at.Nlink == 0
}

// Prune removes old segments, and reports files it skips. Call it periodically.
func (s *Store) Prune() error {
	if err := s.Open(); err != nil {
		return err
	}
	if s.file != nil && time.Since(s.began) >= segmentAge {
		if err := s.endSegment(); err != nil {
			return err
		}
	}
	return errors.Join(s.prune(0))
}

func (s *Store) endSegment() error {
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

// prune removes the oldest segments until a new one fits and none is too old.
func (s *Store) prune(n int64) (passedOver, err error) {
	names, passedOver, err := segmentNames(s.Dir)
	if err != nil {
		return nil, err
	}
	now := s.now()
	if steady := s.latest.Add(time.Since(s.opened)); steady.Before(now) {
		now = steady
	}
	total, old := max(n, s.MaxBytes/segments), make([]bool, len(names))
	sizes := make([]int64, len(names))
	for i, name := range names {
		at, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		sizes[i], old[i] = at.Size(), now.Sub(at.ModTime()) > s.MaxAge
		total += at.Size()
	}
	for i, name := range names {
		if total <= s.MaxBytes && !old[i] && sizes[i] > 0 {
			continue
		}
		if err := os.Remove(name); err != nil {
			return nil, err
		}
		total -= sizes[i]
	}
	return passedOver, nil
}

// Close closes the store. It may be called twice.
func (s *Store) Close() error {
	err := s.endSegment()
	if s.lock != nil {
		err = errors.Join(err, s.lock.Close())
		s.lock = nil
	}
	return err
}

// segmentNames returns the paths of the segments, the oldest first. It skips files too large for a
// segment, which might take hours to read.
func segmentNames(dir string) (names []string, passedOver, err error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), suffix) || !f.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, f.Name())
		if at, err := f.Info(); err == nil && at.Size() > maxSegment {
			passedOver = errors.Join(passedOver, fmt.Errorf("%s: passed over, has %d bytes, want at most %d", name, at.Size(), maxSegment))
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return names, passedOver, err
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
