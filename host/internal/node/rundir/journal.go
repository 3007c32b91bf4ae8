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

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// formatVersion is the version of the journal. Files of other versions are not read.
	formatVersion  = 1
	conditionsName = "conditions.json"
	owedName       = "relief.json"
	podsName       = "pods.json"
	// maxPodsBytes allows for a thousand pods of 64 KiB.
	maxPodsBytes = 64 << 20
	// maxFileBytes bounds the size of a journal file, read or written.
	maxFileBytes = 256 << 10
	// maxKills bounds the kills that a restarted host resumes. One is normal, some tens are
	// conceivable; more cannot be evictd's.
	maxKills = 1000
	// maxConditions exceeds any set of plugins.
	maxConditions = 1000
)

// errOtherBoot reports a file written in another boot.
var errOtherBoot = errors.New("written in another boot")

// An entry is the content of a journal file: a kill with the time of its decision, the times
// when conditions were last seen, or the relief that is awaited.
type entry struct {
	Version  int                          `json:"version"`
	BootID   string                       `json:"bootID"`
	Decided  stamp                        `json:"decided,omitzero"`
	Kill     victim.Kill                  `json:"kill,omitzero"`
	LastSeen map[eviction.Condition]stamp `json:"lastSeen,omitempty"`
	Owed     []policy.Owed                `json:"owed,omitempty"`
}

// decode decodes and validates untrusted data. It ignores unknown fields, which a newer evictd may
// have written.
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

// SaveKill saves a kill before it begins, or again with a shorter grace period or another step. The
// caller logs an error and continues the kill anyway.
func (d *Dir) SaveKill(k victim.Kill) error {
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

// RemoveKill removes a kill that has ended, if it is still there.
func (d *Dir) RemoveKill(uid string) error {
	if err := remove(d.killPath(uid)); err != nil {
		return fmt.Errorf("forget kill: %w", err)
	}
	return nil
}

// SaveOwed saves what ended victims have yet to free. It does not wait for the disk.
func (d *Dir) SaveOwed(all []policy.Owed) error {
	err := d.save(filepath.Join(d.path, owedName), false, func(moment) entry { return entry{Owed: all} })
	if err != nil {
		return fmt.Errorf("note awaited relief: %w", err)
	}
	return nil
}

// SaveConditions saves when all conditions were last seen. It does not wait for the disk: after a
// machine crash the file is not read.
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

// SavePods saves the node's pods. It does not wait for the disk.
func (d *Dir) SavePods(data []byte) error {
	if len(data) > maxPodsBytes {
		return fmt.Errorf("save pods: they have %d bytes, want at most %d", len(data), maxPodsBytes)
	}
	if err := write(filepath.Join(d.path, podsName), data, false); err != nil {
		return fmt.Errorf("save pods: %w", err)
	}
	return nil
}

// LoadPods returns the pods saved last, nil if there are none.
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

// Load returns what a former host on this boot saved. It removes files of another boot silently. It
// leaves invalid files alone: the error names each of them, and the state is valid without them.
func (d *Dir) Load() (s loop.Restored, err error) {
	now, err := d.now()
	if err != nil {
		return loop.Restored{}, fmt.Errorf("load journal: %w", err)
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
	slices.SortStableFunc(s.Kills, func(a, b victim.Kill) int {
		return cmp.Or(a.DecidedAt.Compare(b.DecidedAt), cmp.Compare(a.UID, b.UID))
	})
	errs = append(errs, read(filepath.Join(d.path, conditionsName), func(data []byte) (err error) {
		s.Conditions, err = decodeConditions(data, now)
		return err
	}))
	errs = append(errs, read(filepath.Join(d.path, owedName), func(data []byte) error {
		e, err := decode(data, now)
		if err == nil {
			s.Owed = e.Owed
		}
		return err
	}))
	return s, errors.Join(errs...)
}

// read calls use with a file's content, if it exists, and removes a file of another boot.
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

// write replaces the file at path atomically: a reader finds the old or the new content, also after
// a machine crash if durable is set. If the disk is full the old content stays.
func write(path string, data []byte, durable bool) error {
	tmp := path + tmpSuffix
	err := create(tmp, data, durable)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, remove(tmp))
	}
	if !durable {
		return nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// create writes data to a new file, or replaces the content of an existing one.
func create(path string, data []byte, durable bool) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// remove removes a file that may be missing.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
