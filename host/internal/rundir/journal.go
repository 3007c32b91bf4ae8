package rundir

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// formatVersion is the journal's. A file of another version is not read.
	formatVersion  = 1
	conditionsName = "conditions.json"
	podsName       = "pods.json"
	// maxPodsBytes is for a thousand pods of 64 KiB each.
	maxPodsBytes = 64 << 20
	// maxFileBytes is the most that is read of a journal file, and written to one.
	maxFileBytes = 256 << 10
	// maxKills bounds the kills that a restarted host resumes. One is the rule, some tens are
	// conceivable; more is not ours.
	maxKills = 1000
	// maxConditions is more than any set of plugins raises.
	maxConditions = 1000
)

// errOtherBoot is a file that an evictd of another boot wrote.
var errOtherBoot = errors.New("written in another boot")

// An entry is the content of a journal file: a kill with the time of its decision, or the times
// when conditions were last seen.
type entry struct {
	Version  int                          `json:"version"`
	BootID   string                       `json:"bootID"`
	Decided  stamp                        `json:"decided,omitzero"`
	Kill     Kill                         `json:"kill,omitzero"`
	LastSeen map[eviction.Condition]stamp `json:"lastSeen,omitempty"`
}

// decode trusts nothing: the bytes may be anybody's. Unknown fields are fine,
// since a newer evictd may have written them.
func decode(data []byte, now moment) (e entry, err error) {
	if err := json.Unmarshal(data, &e); err != nil {
		return e, err
	}
	switch {
	case e.Version != formatVersion:
		return e, fmt.Errorf("has version %d, want %d", e.Version, formatVersion)
	case e.BootID == "":
		return e, errors.New("bootID is missing")
	case e.BootID != now.bootID:
		return e, errOtherBoot
	}
	return e, nil
}

// save writes an entry to a file.
func (d *Dir) save(path string, durable bool, make func(now moment) entry) error {
	now, err := d.now()
	if err != nil {
		return err
	}
	e := make(now)
	e.Version, e.BootID = formatVersion, now.bootID
	data, err := json.Marshal(e)
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("has %d bytes, want at most %d", len(data), maxFileBytes)
	}
	if err != nil {
		return err
	}
	return write(path, append(data, '\n'), durable)
}

// A State holds the state that a former host on the same boot left.
type State struct {
	// Kills were decided and not seen to end, or not reported to the API server, oldest first.
	Kills []Kill
	// Conditions are when conditions were last seen, on the clock of this
	// process: differences to time.Now are true also after a jump of the wall
	// clock.
	Conditions map[eviction.Condition]time.Time
}

// SaveKill notes a kill before it is begun, or again with a shorter grace
// period or another step. An error is for the log: the kill must go on without the note.
func (d *Dir) SaveKill(k Kill) error {
	err := d.save(d.killPath(k.UID), true, func(now moment) entry {
		k.Message = strings.ToValidUTF8(k.Message[:min(len(k.Message), maxMessageBytes)], "")
		if annotationBytes(k.Annotations) > maxMessageBytes {
			k.Annotations = nil
		}
		return entry{Decided: now.at(now.wall), Kill: k}
	})
	if err != nil {
		return fmt.Errorf("note kill of %s/%s: %w", k.Namespace, k.Name, err)
	}
	return nil
}

// RemoveKill forgets a kill that has ended. It may have been forgotten before.
func (d *Dir) RemoveKill(uid string) error {
	if err := remove(d.killPath(uid)); err != nil {
		return fmt.Errorf("forget kill: %w", err)
	}
	return nil
}

// SaveConditions notes when conditions were last seen, all of them at once. It
// does not wait for the disk: after a crash of the machine it is not read.
func (d *Dir) SaveConditions(lastSeen map[eviction.Condition]time.Time) error {
	err := d.save(filepath.Join(d.path, conditionsName), false, func(now moment) entry {
		e := entry{LastSeen: map[eviction.Condition]stamp{}}
		for c, t := range lastSeen {
			e.LastSeen[c] = now.at(t)
		}
		return e
	})
	if err != nil {
		return fmt.Errorf("note conditions: %w", err)
	}
	return nil
}

// SavePods notes the node's pods. It does not wait for the disk.
func (d *Dir) SavePods(data []byte) error {
	if len(data) > maxPodsBytes {
		return fmt.Errorf("save pods: they have %d bytes, want at most %d", len(data), maxPodsBytes)
	}
	if err := write(filepath.Join(d.path, podsName), data, false); err != nil {
		return fmt.Errorf("save pods: %w", err)
	}
	return nil
}

// LoadPods returns the pods that were noted last, nil if none were.
func (d *Dir) LoadPods() ([]byte, error) {
	data, err := input.ReadFile(filepath.Join(d.path, podsName), maxPodsBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// decodeConditions reads the file with the conditions.
func decodeConditions(data []byte, now moment) (map[eviction.Condition]time.Time, error) {
	e, err := decode(data, now)
	if err != nil {
		return nil, err
	}
	if len(e.LastSeen) > maxConditions {
		return nil, fmt.Errorf("lastSeen has %d conditions, want at most %d", len(e.LastSeen), maxConditions)
	}
	out := make(map[eviction.Condition]time.Time, len(e.LastSeen))
	for c, s := range e.LastSeen {
		if c == "" || len(c) > maxNameBytes {
			return nil, fmt.Errorf("lastSeen has a condition of %d bytes, want 1 to %d", len(c), maxNameBytes)
		}
		out[c] = now.wall.Add(-now.since(s))
	}
	return out, nil
}

// Load returns what a former host on this boot left. Files of another boot are
// removed without a word. Files that make no sense are left alone: the error
// names each of them, and the state is good without them.
func (d *Dir) Load() (s State, err error) {
	now, err := d.now()
	if err != nil {
		return State{}, fmt.Errorf("load journal: %w", err)
	}
	files, err := os.ReadDir(d.kills())
	if err != nil {
		err = fmt.Errorf("load journal: %w", err)
	}
	errs := []error{err}
	if len(files) > maxKills {
		errs = append(errs, fmt.Errorf("load journal: %s has %d files, only the first %d are read", d.kills(), len(files), maxKills))
		files = files[:maxKills]
	}
	for _, f := range files {
		errs = append(errs, read(filepath.Join(d.kills(), f.Name()), func(data []byte) error {
			k, err := decodeKill(data, now)
			switch {
			case err != nil:
				return err
			case killName(k.UID) != f.Name():
				return fmt.Errorf("is about uid %q, whose file would be %s", k.UID, killName(k.UID))
			}
			s.Kills = append(s.Kills, k)
			return nil
		}))
	}
	slices.SortStableFunc(s.Kills, func(a, b Kill) int {
		return cmp.Or(a.DecidedAt.Compare(b.DecidedAt), cmp.Compare(a.UID, b.UID))
	})
	errs = append(errs, read(filepath.Join(d.path, conditionsName), func(data []byte) (err error) {
		s.Conditions, err = decodeConditions(data, now)
		return err
	}))
	return s, errors.Join(errs...)
}

// read has use look at a file, if there is one, and removes it if it is of another boot.
func read(path string, use func(data []byte) error) error {
	data, err := input.ReadFile(path, maxFileBytes)
	if err == nil {
		err = use(data)
	}
	if errors.Is(err, errOtherBoot) {
		err = remove(path)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("journal file %s ignored: %w", path, err)
}

func (d *Dir) killPath(uid string) string { return filepath.Join(d.kills(), killName(uid)) }
