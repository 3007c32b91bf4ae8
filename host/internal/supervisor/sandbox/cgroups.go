package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// limiters are the controllers that limit a plugin.
var limiters = []string{"memory", "cpu", "pids"}

// groupPrefix is how the directories begin that hold the cgroups of plugins.
const groupPrefix = "evictd-plugins-"

// cgroups is where the cgroups of this host's plugins are made: in a directory below
// its own cgroup, in each hierarchy that has one of the limiters.
type cgroups struct {
	hierarchies []hierarchy
	// none is why there is no place for cgroups.
	none error
}

// A hierarchy is one of cgroups, where it is mounted.
type hierarchy struct {
	mount mount
	// own is the directory of the host's cgroup, base the one that holds those of
	// its plugins.
	own, base string
}

func (t hierarchy) v2() bool { return len(t.mount.controllers) == 0 }

// findCgroups looks where cgroups can be made and makes nothing yet. key, which is
// the host's own, tells its plugins' cgroups from those of others, and is the same
// for its successor.
func findCgroups(key string) *cgroups {
	g := &cgroups{}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		g.none = fmt.Errorf("find cgroups: %w", err)
		return g
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		g.none = fmt.Errorf("find cgroups: %w", err)
		return g
	}
	sum := sha256.Sum256([]byte(key))
	name := groupPrefix + hex.EncodeToString(sum[:8])
	g.hierarchies, g.none = hierarchiesOf(parseMounts(string(mountinfo), limiters), parseMembership(string(membership)), name)
	return g
}

// hierarchiesOf prefers version 1: on a hybrid machine it has the controllers.
func hierarchiesOf(mounts []mount, in map[string]string, name string) ([]hierarchy, error) {
	var v1, v2 []hierarchy
	var errs []error
	taken := map[string]bool{}
	for _, m := range mounts {
		first := ""
		if len(m.controllers) > 0 {
			first = m.controllers[0]
		}
		cgroup, ok := in[first]
		if !ok || taken[first] {
			continue
		}
		own, err := m.dir(cgroup)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		taken[first] = true
		t := hierarchy{mount: m, own: own, base: filepath.Join(own, name)}
		if t.v2() && filepath.Base(own) == hostLeaf {
			// The service manager has put the host there for this: beside it there are no
			// processes, and cgroups can have limits (DelegateSubgroup=host).
			t.base = filepath.Join(filepath.Dir(own), name)
		}
		if t.v2() {
			v2 = append(v2, t)
		} else {
			v1 = append(v1, t)
		}
	}
	switch {
	case len(v1) > 0:
		slices.SortFunc(v1, func(a, b hierarchy) int {
			return cmp.Compare(slices.Index(limiters, a.mount.controllers[0]), slices.Index(limiters, b.mount.controllers[0]))
		})
		return v1, nil
	case len(v2) > 0:
		return v2[:1], nil
	}
	return nil, errors.Join(append(errs, errors.New("no cgroup hierarchy is mounted with one of the controllers "+strings.Join(limiters, ", ")))...)
}

// sweep kills and removes what plugins of a killed host left behind, and removes
// what hosts with other directories did.
func (g *cgroups) sweep() error {
	var errs []error
	for _, leaf := range g.all() {
		errs = append(errs, cgroupDir(leaf).remove())
	}
	for _, t := range g.hierarchies {
		others, _ := filepath.Glob(filepath.Join(filepath.Dir(t.base), groupPrefix+"*"))
		for _, base := range others {
			for _, leaf := range leaves(base) {
				removeStale(leaf)
			}
			removeStale(base)
		}
	}
	return errors.Join(errs...)
}

// all returns the cgroups of this host's plugins that exist.
func (g *cgroups) all() []string {
	var all []string
	for _, t := range g.hierarchies {
		all = append(all, leaves(t.base)...)
	}
	return all
}

// leaves returns the cgroups in a directory, which may be missing.
func leaves(base string) []string {
	var all []string
	found, _ := os.ReadDir(base)
	for _, dir := range found {
		if dir.IsDir() {
			all = append(all, filepath.Join(base, dir.Name()))
		}
	}
	return all
}

// staleAfter is far longer than it takes from making a cgroup to having a process
// in it.
const staleAfter = time.Minute

// removeStale removes an old cgroup if nothing is in it. That of a living host can
// be made again.
func removeStale(dir string) {
	if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > staleAfter {
		_ = os.Remove(dir) // The kernel refuses it if there are processes or cgroups in it.
	}
}

// remove removes the directories that held the plugins' cgroups.
func (g *cgroups) remove() {
	for _, t := range g.hierarchies {
		_ = os.Remove(t.base) // Not there if no cgroup was made, or one could not be removed.
	}
}

// lacking names the controllers that a limit needs and no hierarchy of version 1 has;
// in version 2 that is told when they are enabled.
func (g *cgroup) lacking() error {
	var missing []string
	for _, s := range g.limits {
		has := slices.ContainsFunc(g.hierarchies, func(t hierarchy) bool { return t.v2() || slices.Contains(t.mount.controllers, s.controller) })
		if !has && !slices.Contains(missing, s.controller) {
			missing = append(missing, s.controller)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no cgroup hierarchy that plugins can be in has the controllers %s", strings.Join(missing, ", "))
	}
	return nil
}

// make makes the cgroup of one start. What could not be limited is the error; what
// could is in the cgroup, which is nil if there is none at all.
func (g *cgroups) make(name string, generation uint64, t Policy) (*cgroup, error) {
	if g.none != nil {
		return nil, g.none
	}
	made := &cgroup{limits: limitsOf(t)}
	leaf := fmt.Sprintf("%.200s.%d", name, generation)
	var errs []error
	for _, h := range g.hierarchies {
		dir, err := h.mkdir(leaf)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, h.enable(made.limits))
		if err := h.usable(dir); err != nil {
			errs = append(errs, err, dir.remove())
			continue
		}
		made.dirs = append(made.dirs, dir)
		made.hierarchies = append(made.hierarchies, h)
		errs = append(errs, dir.limit(h, made.limits))
	}
	if len(made.dirs) == 0 {
		return nil, errors.Join(errs...)
	}
	errs = append(errs, made.lacking())
	return made, errors.Join(errs...)
}
