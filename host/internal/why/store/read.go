package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/eviction"
)

// An Entry is a stored record. It can be read only during the call by Each.
type Entry struct {
	decision.Head

	file *os.File
	at   member
}

// Decision unpacks and decodes the record.
func (e *Entry) Decision() (*decision.Decision, error) {
	data, err := document(e.file, e.at)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", e.ID, err)
	}
	return decision.Decode(data)
}

// each is like Each, but includes outcomes, which come after their records.
func each(dir string, matters func(text []byte) bool, use func(*Entry) error) error {
	names, passedOver, err := segmentNames(dir)
	if err != nil {
		return err
	}
	damaged := []error{passedOver}
	for _, name := range names {
		stop, err := eachIn(name, matters, use)
		if stop != nil {
			return stop
		}
		damaged = append(damaged, err)
	}
	return errors.Join(damaged...)
}

func eachIn(name string, matters func(text []byte) bool, use func(*Entry) error) (stop, damaged error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) { // pruned meanwhile
			err = nil
		}
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	at, err := f.Stat()
	if err != nil {
		return nil, err
	}
	end, err := members(f, at.Size(), matters, func(m member) error {
		stop = use(&Entry{Head: m.head, file: f, at: m})
		return stop
	})
	if stop != nil || err == nil || errors.Is(err, errTorn) {
		return stop, nil
	}
	return nil, fmt.Errorf("%s: what follows byte %d %w", name, end, err)
}

// Each calls use for each record in a directory, the oldest first, until use returns an error. It
// skips the rest of a damaged segment, and reports that at the end. It does not see a record that
// is still being written.
func Each(dir string, use func(*Entry) error) error {
	return each(dir, all, func(e *Entry) error {
		if e.Outcome != nil {
			return nil
		}
		return use(e)
	})
}

// Heads returns the heads of all records, the oldest first, with their outcomes.
func Heads(dir string) ([]decision.Head, error) {
	var heads []decision.Head
	places := map[string]int{}
	err := each(dir, all, func(e *Entry) error {
		at, ok := places[e.ID]
		switch {
		case e.Outcome == nil && ok: // the stub of a resumed kill whose record exists
		case e.Outcome == nil:
			places[e.ID] = len(heads)
			heads = append(heads, e.Head)
		case ok:
			heads[at].Outcome = e.Outcome.With(heads[at].Outcome)
			heads[at].Outcome.After = nil // only for the picture of one record
		}
		return nil
	})
	return heads, err
}

const (
	// writtenWithin bounds the time from the id of a decision to its record on disk: the log, the
	// event and the status have the id before the record is written, which never delays the kill.
	writtenWithin = 10 * time.Second
	lookEvery     = 100 * time.Millisecond
)

// Await returns when the record with an id can be found, or will not be. For another text it returns
// at once.
func Await(dir, id string) {
	end := time.Now().Add(min(writtenWithin, time.Until(decision.IDTime(id).Add(writtenWithin))))
	for there := false; !there && time.Now().Before(end); {
		_ = Each(dir, func(e *Entry) error { // an error is the reader's
			there = there || e.ID == id
			return nil
		})
		if !there {
			<-time.After(lookEvery)
		}
	}
}

// Records of the last fallsSince show how fast memory falls on this node.
const fallsSince = 7 * 24 * time.Hour

// Falls returns the fastest falls of memory in the records below a state directory. It skips
// unreadable records: evictd evictions reports them.
func Falls(stateDir string) map[eviction.Signal]int64 {
	most := int64(0)
	_ = Each(config.RecordsDir(stateDir), func(e *Entry) error {
		if r, err := e.Decision(); err == nil && time.Since(e.Time) < fallsSince {
			most = max(most, r.Fall(eviction.MemoryAvailable))
		}
		return nil
	})
	return map[eviction.Signal]int64{eviction.MemoryAvailable: most}
}

// Find returns the records that match what: an id, or a pod's uid, namespace/name or name; the
// oldest first. The error reports unreadable ones, the others are returned.
func Find(dir, what string) ([]*decision.Decision, error) {
	text, err := json.Marshal(what)
	if err != nil || what == "" {
		return nil, err
	}
	Await(dir, what)
	return find(dir, text[1:len(text)-1], func(h *decision.Head) bool { return h.Named(what) })
}

func all([]byte) bool { return true }

// find is like Find, for records whose heads contain a text and that takes selects.
func find(dir string, text []byte, takes func(*decision.Head) bool) ([]*decision.Decision, error) {
	var found []*decision.Decision
	outcomes := map[string]*decision.Outcome{}
	var damaged []error
	matters := func(head []byte) bool {
		return bytes.Contains(head, text) || slices.ContainsFunc(found, func(d *decision.Decision) bool { return bytes.Contains(head, []byte(d.ID)) })
	}
	err := each(dir, matters, func(e *Entry) error {
		if e.Outcome != nil {
			outcomes[e.ID] = e.Outcome.With(outcomes[e.ID])
			return nil
		}
		if !takes(&e.Head) || slices.ContainsFunc(found, func(r *decision.Decision) bool { return r.ID == e.ID }) {
			return nil
		}
		r, err := e.Decision()
		if err != nil {
			damaged = append(damaged, err)
			return nil
		}
		found = append(found, r)
		return nil
	})
	for _, r := range found {
		r.Outcome = outcomes[r.ID]
	}
	return found, errors.Join(append(damaged, err)...)
}
