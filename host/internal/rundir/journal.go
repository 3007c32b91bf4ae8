package rundir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	conditionsName = "conditions.json"
	// maxKills is how many kills a restarted host resumes. One is the rule, some
	// tens are conceivable; more is not ours.
	maxKills = 1000
)

// A State is what a former host on the same boot left.
type State struct {
	// Kills were decided and not seen to end, oldest first.
	Kills []Kill
	// Conditions are when conditions were last seen, on the clock of this
	// process: differences to time.Now are true also after a jump of the wall
	// clock.
	Conditions map[eviction.Condition]time.Time
}

// SaveKill notes a kill before it is begun, or again with a shorter grace
// period. An error is for the log: the kill must go on without the note.
func (d *Dir) SaveKill(k Kill) error {
	defer d.fillSpares()
	return d.saveKill(k)
}

func (d *Dir) saveKill(k Kill) error {
	now, err := d.clock.now()
	if err == nil {
		err = write(d.killPath(k.UID), encodeKill(k, now), true, d.forKills)
	}
	if err != nil {
		return fmt.Errorf("note kill of %s/%s: %w", k.Namespace, k.Name, err)
	}
	return nil
}

// RemoveKill forgets a kill that has ended. It may have been forgotten before.
func (d *Dir) RemoveKill(uid string) error {
	defer d.fillSpares()
	return d.removeKill(uid)
}

func (d *Dir) removeKill(uid string) error {
	if err := d.forKills.give(d.killPath(uid)); err != nil {
		return fmt.Errorf("forget kill: %w", err)
	}
	return nil
}

// SaveConditions notes when conditions were last seen, all of them at once. It
// does not wait for the disk: after a crash of the machine nobody reads it.
func (d *Dir) SaveConditions(lastSeen map[eviction.Condition]time.Time) error {
	defer d.fillSpares()
	return d.saveConditions(lastSeen)
}

func (d *Dir) saveConditions(lastSeen map[eviction.Condition]time.Time) error {
	now, err := d.clock.now()
	if err == nil {
		err = write(filepath.Join(d.path, conditionsName), encodeConditions(lastSeen, now), false, d.forConditions)
	}
	if err != nil {
		return fmt.Errorf("note conditions: %w", err)
	}
	return nil
}

// Load returns what a former host on this boot left. Files of another boot are
// removed without a word. Files that make no sense are left alone: the error
// names each of them, and the state is good without them.
func (d *Dir) Load() (State, error) {
	now, err := d.clock.now()
	if err != nil {
		return State{}, fmt.Errorf("load journal: %w", err)
	}
	kills, errs := d.loadKills(now)
	conditions, err := d.loadConditions(now)
	if err != nil {
		errs = append(errs, err)
	}
	return State{Kills: kills, Conditions: conditions}, errors.Join(errs...)
}

func (d *Dir) loadKills(now moment) ([]Kill, []error) {
	entries, err := os.ReadDir(d.kills())
	if err != nil {
		return nil, []error{fmt.Errorf("load journal: %w", err)}
	}
	var (
		kills []Kill
		errs  []error
	)
	for i, e := range entries {
		if i == maxKills {
			errs = append(errs, fmt.Errorf("load journal: %s has %d files, only the first %d are read", d.kills(), len(entries), maxKills))
			break
		}
		path := filepath.Join(d.kills(), e.Name())
		k, err := loadKill(path, now)
		switch {
		case errors.Is(err, errOtherBoot):
			err = remove(path)
		case err == nil:
			kills = append(kills, k)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("journal file %s ignored: %w", path, err))
		}
	}
	slices.SortStableFunc(kills, func(a, b Kill) int {
		return cmp.Or(a.DecidedAt.Compare(b.DecidedAt), cmp.Compare(a.UID, b.UID))
	})
	return kills, errs
}

func loadKill(path string, now moment) (Kill, error) {
	data, err := load(path)
	if err != nil {
		return Kill{}, err
	}
	k, err := decodeKill(data, now)
	if err == nil && killName(k.UID) != filepath.Base(path) {
		return Kill{}, fmt.Errorf("is about uid %q, whose file would be %s", k.UID, killName(k.UID))
	}
	return k, err
}

func (d *Dir) loadConditions(now moment) (map[eviction.Condition]time.Time, error) {
	path := filepath.Join(d.path, conditionsName)
	data, err := load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var conditions map[eviction.Condition]time.Time
	if err == nil {
		conditions, err = decodeConditions(data, now)
	}
	if errors.Is(err, errOtherBoot) {
		err = remove(path)
	}
	if err != nil {
		return nil, fmt.Errorf("journal file %s ignored: %w", path, err)
	}
	return conditions, nil
}

func (d *Dir) killPath(uid string) string { return filepath.Join(d.kills(), killName(uid)) }
