package store

import (
	"bytes"
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

// unpack returns up to most bytes of the document in a file. It follows no link.
func unpack(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	return gunzip(io.LimitReader(f, maxFile), most)
}

func gunzip(r io.Reader, most int64) ([]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(z, most))
}

// read returns the record in a file.
func read(path string) (*decision.Decision, error) {
	data, err := unpack(path, maxDocument) // the rest of a larger one is missing
	if err != nil {
		return nil, err
	}
	return decision.Decode(data)
}

// readHead is like read, for what a head has. It unpacks only the beginning, if that is enough.
func readHead(path string) (*decision.Decision, error) {
	text, err := unpack(path, headSize)
	head, _, whole := bytes.Cut(text, []byte(`,"node":`))
	if err == nil && whole {
		if d, err := decision.Decode(append(slices.Clone(head), '}')); err == nil {
			return d, nil
		}
	}
	return read(path) // also one that another program has written, in another order
}

// readHead is like the function, with the ranker, which may not be in the beginning of an older record.
func (f *Filter) readHead(path string) (*decision.Decision, error) {
	d, err := readHead(path)
	if err == nil && f.Plugin != "" && d.Ranker == nil {
		return read(path)
	}
	return d, err
}

func each(dir string, f *Filter, read func(path string) (*decision.Decision, error), use func(*decision.Decision)) error {
	await(dir, f.What)
	names, err := fileNames(dir)
	damaged, now := []error{err}, time.Now()
	for _, name := range slices.Backward(names) {
		if h, ok := parse(name); !ok || !f.takesName(&h, now) {
			continue
		}
		path := filepath.Join(dir, name)
		d, err := read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			damaged = append(damaged, fmt.Errorf("%s: %w", path, err))
		case f.takes(new(d.Head()), now) && (f.Plugin == "" || d.Ranker != nil && d.Ranker.Name == f.Plugin):
			use(d)
		}
	}
	return errors.Join(damaged...)
}

// Each calls use with each record that f selects, the newest first. A file that disappears is
// skipped. The error reports unreadable ones.
func Each(dir string, f Filter, use func(*decision.Decision)) error { return each(dir, &f, read, use) }

// Heads returns the heads of the records that f selects, the oldest first. Unless f is loose, What may name an episode.
func Heads(dir string, f Filter) (heads []decision.Head, err error) {
	if !f.Loose && !decision.EpisodeTime(f.What).IsZero() {
		episode := f.What
		f.What = ""
		heads, err = Heads(dir, f)
		return slices.DeleteFunc(heads, func(h decision.Head) bool { return h.Episode != episode }), err
	}
	err = each(dir, &f, f.readHead, func(d *decision.Decision) {
		h := d.Head()
		if h.Outcome = d.Outcome; d.Outcome != nil {
			h.Outcome.After = nil // only for the picture of one record
		}
		heads = append(heads, h)
	})
	if len(heads) == 0 {
		return nil, err
	}
	slices.Reverse(heads)
	if f.What+f.Signal+f.Namespace+f.Kind+f.Plugin == "" && f.Since == 0 {
		decision.Episodes(heads)
		return heads, err
	}
	placed := episodes(dir, f.Whole(), heads[0].Time, heads[len(heads)-1].Time)
	for i := range heads {
		heads[i].Episode, heads[i].Again = placed[heads[i].ID].Episode, placed[heads[i].ID].Again
	}
	return heads, err
}

// episodes returns the heads of a time by id, with the episodes that they belong to, which may have begun
// before it.
func episodes(dir string, all bool, from, until time.Time) map[string]decision.Head {
	names, _ := fileNames(dir) // an error is the reader's
	for _, name := range slices.Backward(names) {
		if h, ok := parse(name); ok && h.Time.Before(from) && from.Sub(h.Time) <= decision.Quiet {
			from = h.Time
		}
	}
	heads, _ := Heads(dir, Filter{All: all, From: from, Until: until}) // those that can be read
	byID := make(map[string]decision.Head, len(heads))
	for _, h := range heads {
		byID[h.ID] = h
	}
	return byID
}

// Find returns the newest records that f selects, the oldest first, as long as their documents have no more than
// most bytes, but at least one record, and the number of the others.
func Find(dir string, f Filter, most int) (found []*decision.Decision, others int, err error) {
	size, last := 0, 0
	err = each(dir, &f, func(path string) (*decision.Decision, error) {
		if others > 0 {
			return f.readHead(path)
		}
		data, err := unpack(path, maxDocument) // the rest of a larger one is missing
		if err != nil {
			return nil, err
		}
		last = len(data)
		return decision.Decode(data)
	}, func(d *decision.Decision) {
		if others > 0 || len(found) > 0 && size+last > most {
			others++
			return
		}
		size += last
		found = append(found, d)
	})
	slices.Reverse(found)
	return found, others, err
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
// unreadable records: evictctl evictions reports them.
func Falls(stateDir string) map[eviction.Signal]int64 {
	most := int64(0)
	_ = Each(config.RecordsDir(stateDir), Filter{Since: fallsSince, All: true}, func(d *decision.Decision) {
		most = max(most, d.Fall(eviction.MemoryAvailable))
	})
	return map[eviction.Signal]int64{eviction.MemoryAvailable: most}
}

// An UnreadError says why a file could not be read; Err is nil if its name is not a record's.
type UnreadError struct{ Err error }

// Error implements error.
func (e UnreadError) Error() string {
	if e.Err == nil {
		return "not the name of a record"
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e UnreadError) Unwrap() error { return e.Err }

// InFile returns the record in a file whose name ends in .json, or in .json.gz like a stored one.
func InFile(name string) (*decision.Decision, error) {
	packed := strings.HasSuffix(name, suffix)
	if !packed && !strings.HasSuffix(name, ".json") {
		return nil, UnreadError{}
	}
	data, err := input.ReadFileSoon(name, maxDocument)
	if err == nil && packed {
		data, err = gunzip(bytes.NewReader(data), maxDocument)
	}
	if err != nil {
		return nil, UnreadError{fmt.Errorf("%s: %w, want a record of a decision", name, err)}
	}
	d, err := decision.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}
