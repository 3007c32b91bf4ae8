package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// limiters are the controllers that are used to limit plugins.
var limiters = []string{"memory", "cpu", "pids"}

const (
	// groupPrefix begins the names of the directories that hold the cgroups of plugins.
	groupPrefix = "evictd-plugins-"
	// hostLeaf is the name of a cgroup that holds the host alone.
	hostLeaf = "host"
)

// cgroups makes the cgroups of this host's plugins, in one directory below the host's own
// cgroup in each hierarchy that has one of the limiters.
type cgroups struct {
	hierarchies []hierarchy
	// none says why cgroups cannot be made, nil if they can.
	none error
}

// findCgroups finds out where cgroups can be made, and makes none yet. key distinguishes this
// host's cgroups from those of other hosts; it must be the same after a restart of the host.
func findCgroups(key string) *cgroups {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return &cgroups{none: fmt.Errorf("find cgroups: %w", err)}
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return &cgroups{none: fmt.Errorf("find cgroups: %w", err)}
	}
	sum := sha256.Sum256([]byte(key))
	all, err := hierarchiesOf(string(mountinfo), string(own), groupPrefix+hex.EncodeToString(sum[:8]))
	return &cgroups{all, err}
}

// hierarchiesOf prefers version 1, which has the controllers on a hybrid machine.
func hierarchiesOf(mountinfo, membership, name string) ([]hierarchy, error) {
	var v1, v2 []hierarchy
	var errs []error
	in, taken := parseMembership(membership), map[string]bool{}
	for _, h := range parseMounts(mountinfo) {
		cgroup, ok := in[h.first()]
		if !ok || taken[h.first()] {
			continue
		}
		own, err := h.dir(cgroup)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		taken[h.first()] = true
		h.base = filepath.Join(own, name)
		switch {
		case !h.v2():
			v1 = append(v1, h)
			continue
		case filepath.Base(own) == hostLeaf:
			// The service manager has put the host there so that its parent has no processes and
			// child cgroups can have limits (DelegateSubgroup=host).
			h.base = filepath.Join(filepath.Dir(own), name)
		}
		v2 = append(v2, h)
	}
	switch {
	case len(v1) > 0:
		slices.SortFunc(v1, func(a, b hierarchy) int {
			return cmp.Compare(slices.Index(limiters, a.first()), slices.Index(limiters, b.first()))
		})
		return v1, nil
	case len(v2) > 0:
		return v2[:1], nil
	}
	return nil, errors.Join(append(errs, errors.New("no cgroup hierarchy is mounted with one of the controllers "+strings.Join(limiters, ", ")))...)
}

// memoryBound returns the lowest memory limit that plugins are under in bytes.
func (g *cgroups) memoryBound() int64 {
	lowest := int64(math.MaxInt64)
	for _, h := range g.hierarchies {
		lowest = min(lowest, h.memoryBound())
	}
	return lowest
}

// make makes the cgroup of one start, with the limits that could be set. The error says which could not.
func (g *cgroups) make(name string, start uint64, p Policy) (made cgroup, err error) {
	wanted := slices.DeleteFunc(slices.Clone(limiters), func(controller string) bool { return !p.limits(controller) })
	if len(wanted) == 0 {
		return made, nil
	}
	if g.none != nil {
		return made, g.none
	}
	var errs []error
	for _, h := range g.hierarchies {
		dir, err := h.mkdir(fmt.Sprintf("%.200s.%d", name, start))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, h.enable(wanted))
		if err := h.usable(dir); err != nil {
			errs = append(errs, err, dir.remove())
			continue
		}
		made.parts = append(made.parts, part{h, dir})
		errs = append(errs, h.limit(dir, p))
		wanted = slices.DeleteFunc(wanted, h.has)
	}
	if len(made.parts) > 0 && len(wanted) > 0 {
		errs = append(errs, fmt.Errorf("no cgroup hierarchy that plugins can be in has the controllers %s", strings.Join(wanted, ", ")))
	}
	return made, errors.Join(errs...)
}

// sweep kills and removes what plugins of a killed host left behind, and removes stale empty
// cgroups of hosts with other keys.
func (g *cgroups) sweep() error {
	var errs []error
	for _, leaf := range g.all() {
		errs = append(errs, cgroupDir(leaf).remove())
	}
	for _, h := range g.hierarchies {
		others, _ := filepath.Glob(filepath.Join(filepath.Dir(h.base), groupPrefix+"*"))
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
	for _, h := range g.hierarchies {
		all = append(all, leaves(h.base)...)
	}
	return all
}

// leaves returns the cgroups in a directory; none if it does not exist.
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

// staleAfter is far longer than the time between making a cgroup and starting a process in it.
const staleAfter = time.Minute

// removeStale removes an old empty cgroup. A living host whose cgroup it was makes it again.
func removeStale(dir string) {
	if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > staleAfter {
		_ = os.Remove(dir) // The kernel refuses it while there are processes or cgroups in it.
	}
}

// remove removes the directories that held the plugins' cgroups.
func (g *cgroups) remove() {
	for _, h := range g.hierarchies {
		_ = os.Remove(h.base) // It is missing if no cgroup was made, and stays if one could not be removed.
	}
}
