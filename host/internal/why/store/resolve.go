package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/input"
)

// ErrNone is wrapped by the error for a name without a record.
var ErrNone = errors.New("no record")

// A Resolver finds the decisions named on a command line, in files and in the directory of the
// records.
type Resolver struct {
	Dir func() (string, error)
	// Say is called with warnings: damaged records, a file and a pod with the same name.
	Say func(text string)
}

// Find returns the record in the file what, else the last eviction that matches what.
func (r *Resolver) Find(what string) (*decision.Decision, error) {
	dir, noDir := r.Dir()
	found, err := []*decision.Decision(nil), noDir
	if err == nil && what != "" {
		found, err = find(dir, Filter{What: what, All: true})
	}
	last := len(found) - 1
	d, wrong := InFile(what)
	unread, isUnread := errors.AsType[unreadError](wrong)
	switch {
	case !isUnread:
		if last >= 0 {
			r.Say(what + ": this tells of the file; the pod of that name is found by its uid, or by " + found[last].ID)
		}
		return d, wrong
	case noDir != nil:
		return nil, errors.Join(unread.error, noDir)
	case last < 0:
		return nil, errors.Join(unread.error, fmt.Errorf("%s: %w of it in %s, want a pod or a record that evictd evictions --all lists", what, ErrNone, dir), err)
	case unread.error != nil && !errors.Is(unread.error, fs.ErrNotExist):
		err = errors.Join(fmt.Errorf("%w: this tells of the pod of that name", unread.error), err)
	}
	if err != nil {
		r.Say(err.Error())
	}
	return found[last], nil
}

// Newest returns the records of evictions up to age old.
func (r *Resolver) Newest(age time.Duration) ([]*decision.Decision, error) {
	dir, err := r.Dir()
	if err != nil {
		return nil, err
	}
	found, err := find(dir, Filter{Since: age})
	found = slices.DeleteFunc(found, func(d *decision.Decision) bool { return d.Kind != decision.KindEviction })
	switch {
	case len(found) == 0:
		return nil, errors.Join(fmt.Errorf("--since: %v: %w of an eviction in %s is as new", age, ErrNone, dir), err)
	case err != nil:
		r.Say(err.Error())
	}
	return found, nil
}

// An unreadError says why a file could not be read; nil if its name is not a record's.
type unreadError struct{ error }

// InFile returns the record in a file whose name ends in .json, or in .json.gz like a stored one.
func InFile(name string) (*decision.Decision, error) {
	packed := strings.HasSuffix(name, suffix)
	if !packed && !strings.HasSuffix(name, ".json") {
		return nil, unreadError{}
	}
	data, err := input.ReadFileSoon(name, maxDocument)
	if err == nil && packed {
		data, err = gunzip(bytes.NewReader(data), maxDocument)
	}
	if err != nil {
		return nil, unreadError{fmt.Errorf("%s: %w, want a record of a decision", name, err)}
	}
	d, err := decision.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return d, nil
}
