// Package find finds the records that a command names.
package find

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/typo"
)

// maxBytes bounds the documents that are read at once. In memory they take four times as much, their page more, and a
// command has 256 MiB, of which 120 MiB are taken at its start.
const maxBytes = 8 << 20

// A Resolver finds the decisions named on a command line, in files and in the directory of the
// records.
type Resolver struct {
	Dir func() (string, error)
	// Say is called with warnings: damaged records, records left out, a file and a pod with the same name.
	Say func(text string)
}

// Find returns the last record of FindAll.
func (r *Resolver) Find(what string) (*decision.Decision, error) {
	found, err := r.FindAll(what, 0)
	if err != nil {
		return nil, err
	}
	if n := len(found); n > 1 {
		r.Say(fmt.Sprintf("%s: %d records, this tells of the newest, %s", what, n, found[n-1].ID))
	}
	return found[len(found)-1], nil
}

// FindAll returns the record in the file what, else the last one of the pod or record what, else those
// of the episode or controller what, or of the names that begin with it, the oldest first. With an age it
// returns the evictions up to that old. Of many it returns the newest.
func (r *Resolver) FindAll(what string, age time.Duration) ([]*decision.Decision, error) {
	dir, err := r.Dir()
	if age > 0 {
		var found []*decision.Decision
		if err == nil {
			found, err = r.several(dir, store.Filter{Since: age})
		}
		return found, noneSince(age, dir, len(found), err)
	}
	if err == nil && !decision.EpisodeTime(what).IsZero() {
		return r.episode(dir, what)
	}
	one, err := r.findOne(what)
	if !errors.Is(err, store.ErrNone) {
		return []*decision.Decision{one}, err
	}
	if found, _ := r.several(dir, store.Filter{What: what, All: true, Loose: true}); len(found) > 0 {
		return found, nil
	}
	return nil, err
}

// several returns the newest records that f selects, the oldest first. With a record it says errors.
func (r *Resolver) several(dir string, f store.Filter) ([]*decision.Decision, error) {
	found, older, err := store.Find(dir, f, maxBytes)
	if older > 0 {
		r.Say(fmt.Sprintf("%d older records are left out: at most %d MiB are read at once. Use a shorter --since, or list all with evictctl evictions", older, maxBytes>>20))
	}
	if len(found) > 0 && err != nil {
		r.Say(err.Error())
		err = nil
	}
	return found, err
}

// episode returns the decisions of an episode.
func (r *Resolver) episode(dir, id string) (found []*decision.Decision, err error) {
	from := decision.EpisodeTime(id)
	until := from
	known, err := store.Known(dir)
	for i := range known {
		if at := known[i].Time; at.After(until) && at.Sub(until) <= decision.Quiet {
			until = at
		}
	}
	f := store.Filter{All: true, From: from, Until: until.Add(time.Millisecond), IDs: map[string]bool{}} // names have no more digits
	heads, _ := store.Heads(dir, store.Filter{All: true, From: from, Until: f.Until})                    // an error is that of several
	for i := range heads {
		if heads[i].Episode == id {
			f.IDs[heads[i].ID] = true
		}
	}
	found, unread := r.several(dir, f)
	if len(found) == 0 {
		err = errors.Join(fmt.Errorf("%s: %w of this episode in %s, want one that evictctl evictions lists", id, store.ErrNone, dir), err, unread)
	}
	return found, err
}

// nearest says which name on record is like what, and how far back records go.
func nearest(dir, what string) string {
	known, _ := store.Known(dir) // an error was reported
	if len(known) == 0 {
		return ""
	}
	return fmt.Sprintf("%s; the oldest record is of %s, see recordsMaxAge and recordsMaxSize", like(known, what), known[0].Time.UTC().Format(time.DateTime))
}

// like says which name on record is like what, if one is.
func like(known []decision.Head, what string) string {
	var names []string
	for i := range known {
		_, pod, _ := strings.Cut(known[i].Pod, "/")
		names = append(names, known[i].Pod, pod, known[i].ID)
	}
	if one := typo.Nearest(what, names); one != "" {
		return fmt.Sprintf("; is it %s?", one)
	}
	return ""
}

func (r *Resolver) findOne(what string) (*decision.Decision, error) {
	dir, noDir := r.Dir()
	found, err := []*decision.Decision(nil), noDir
	if err == nil && what != "" {
		found, _, err = store.Find(dir, store.Filter{What: what, All: true}, 0)
	}
	last := len(found) - 1
	d, wrong := store.InFile(what)
	unread, isUnread := errors.AsType[store.UnreadError](wrong)
	switch {
	case !isUnread:
		if last >= 0 {
			r.Say(what + ": this tells of the file; the pod of that name is found by its uid, or by " + found[last].ID)
		}
		return d, wrong
	case noDir != nil:
		return nil, errors.Join(unread.Err, noDir)
	case last < 0:
		return nil, errors.Join(unread.Err, fmt.Errorf("%s: %w of it in %s, want a pod or a record that evictctl evictions --all lists%s", what, store.ErrNone, dir, nearest(dir, what)), err)
	case unread.Err != nil && !errors.Is(unread.Err, fs.ErrNotExist):
		err = errors.Join(fmt.Errorf("%w: this tells of the pod of that name", unread.Err), err)
	}
	if err != nil {
		r.Say(err.Error())
	}
	return found[last], nil
}

// Newest returns the heads of the evictions for thresholds up to age old, the oldest first; none for age 0.
func (r *Resolver) Newest(age time.Duration) ([]decision.Head, error) {
	if age == 0 {
		return nil, nil
	}
	dir, err := r.Dir()
	if err != nil {
		return nil, err
	}
	heads, err := store.Heads(dir, store.Filter{Since: age, Kind: decision.KindEviction})
	if len(heads) > 0 && err != nil {
		r.Say(err.Error())
		err = nil
	}
	return heads, noneSince(age, dir, len(heads), err)
}

// noneSince adds to err that none was found, if so.
func noneSince(age time.Duration, dir string, found int, err error) error {
	if found == 0 && dir != "" {
		err = errors.Join(fmt.Errorf("--since: %v: %w of an eviction in %s is as new", age, store.ErrNone, dir), err)
	}
	return err
}
