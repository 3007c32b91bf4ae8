package store

import (
	"compress/gzip"
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
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/eviction"
)

// open opens a record for reading. It follows no link.
func open(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// read returns the record in a file.
func read(path string) (*decision.Decision, error) {
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	data, err := input.Gunzip(io.LimitReader(f, maxFile), maxDocument)
	if err != nil {
		return nil, err
	}
	return decision.Decode(data)
}

// readHead returns the head of the record in a file. It unpacks only the beginning.
func readHead(path string) (h decision.Head, err error) {
	f, err := open(path)
	if err != nil {
		return h, err
	}
	defer f.Close() //nolint:errcheck // only read
	z, err := gzip.NewReader(io.LimitReader(f, maxFile))
	if err != nil {
		return h, err
	}
	return decision.DecodeHead(io.LimitReader(z, maxDocument))
}

// each calls use with the path of each record whose name f selects, the oldest first. A file that
// disappears is skipped. The error reports unreadable ones.
func each(dir string, f *Filter, use func(path string) error) error {
	await(dir, f.What)
	names, err := fileNames(dir)
	damaged := []error{err}
	now := time.Now()
	for _, name := range names {
		if h, ok := parse(name); !ok || !f.takesName(&h, now) {
			continue
		}
		path := filepath.Join(dir, name)
		if err := use(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			damaged = append(damaged, fmt.Errorf("%s: %w", path, err))
		}
	}
	return errors.Join(damaged...)
}

// Each calls use with each record that f selects, the oldest first. The error reports unreadable
// ones.
func Each(dir string, f Filter, use func(*decision.Decision)) error {
	return each(dir, &f, func(path string) error {
		d, err := read(path)
		if err != nil {
			return err
		}
		if h := d.Head(); f.takes(&h, time.Now()) {
			use(d)
		}
		return nil
	})
}

// Heads is like Each, and reads only the beginning of each record.
func Heads(dir string, f Filter) (heads []decision.Head, err error) {
	err = each(dir, &f, func(path string) error {
		h, err := readHead(path)
		if err == nil && f.takes(&h, time.Now()) {
			heads = append(heads, h)
		}
		return err
	})
	return heads, err
}

// Find returns the records that match what: an id, or a pod's uid, namespace/name or name; the
// oldest first. The error reports unreadable ones, the others are returned.
func Find(dir, what string) (found []*decision.Decision, err error) {
	if what == "" {
		return nil, nil
	}
	return collect(dir, Filter{What: what, All: true})
}

func collect(dir string, f Filter) (found []*decision.Decision, err error) {
	err = Each(dir, f, func(d *decision.Decision) { found = append(found, d) })
	return found, err
}

const (
	// writtenWithin bounds the time from the id of a decision to its record on disk: the log, the
	// event and the status have the id before the record is written, which never delays the kill.
	writtenWithin = 10 * time.Second
	lookEvery     = 100 * time.Millisecond
)

// await returns when the record with an id can be found, or will not be. For another text it returns
// at once.
func await(dir, id string) {
	end := time.Now().Add(min(writtenWithin, time.Until(decision.IDTime(id).Add(writtenWithin))))
	for time.Now().Before(end) {
		names, _ := fileNames(dir) // an error is the reader's
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, id+"_") }) {
			return
		}
		<-time.After(lookEvery)
	}
}

// Records of the last fallsSince show how fast memory falls on this node.
const fallsSince = 7 * 24 * time.Hour

// Falls returns the fastest falls of memory in the records below a state directory. It skips
// unreadable records: evictd evictions reports them.
func Falls(stateDir string) map[eviction.Signal]int64 {
	most := int64(0)
	_ = Each(config.RecordsDir(stateDir), Filter{Since: fallsSince, All: true}, func(d *decision.Decision) {
		most = max(most, d.Fall(eviction.MemoryAvailable))
	})
	return map[eviction.Signal]int64{eviction.MemoryAvailable: most}
}
