package supervisor

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// limiters are the controllers that limit a plugin.
var limiters = []string{"memory", "cpu", "pids"}

// groups is where the cgroups of this host's plugins are made: in a directory below
// its own cgroup, in each hierarchy that has one of the limiters.
type groups struct {
	trees []tree
	// none is why there is no place for cgroups.
	none error
}

// A tree is one hierarchy.
type tree struct {
	mount mount
	// own is the directory of the host's cgroup, base the one that holds those of
	// its plugins.
	own, base string
}

func (t tree) v2() bool { return len(t.mount.controllers) == 0 }

// findGroups looks where cgroups can be made and makes nothing yet. key, which is
// the host's own, tells its plugins' cgroups from those of others, and is the same
// for its successor.
func findGroups(key string) *groups {
	g := &groups{}
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
	name := fmt.Sprintf("evictd-plugins-%.8x", sha256.Sum256([]byte(key)))
	g.trees, g.none = treesOf(parseMounts(string(mountinfo), limiters), parseMembership(string(membership)), name)
	return g
}

// treesOf prefers version 1: on a hybrid machine it has the controllers.
func treesOf(mounts []mount, in map[string]string, name string) ([]tree, error) {
	var v1, v2 []tree
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
		t := tree{mount: m, own: own, base: filepath.Join(own, name)}
		if t.v2() {
			v2 = append(v2, t)
		} else {
			v1 = append(v1, t)
		}
	}
	switch {
	case len(v1) > 0:
		slices.SortFunc(v1, func(a, b tree) int {
			return cmp.Compare(slices.Index(limiters, a.mount.controllers[0]), slices.Index(limiters, b.mount.controllers[0]))
		})
		return v1, nil
	case len(v2) > 0:
		return v2[:1], nil
	}
	return nil, errors.Join(append(errs, errors.New("no cgroup hierarchy is mounted with one of the controllers "+strings.Join(limiters, ", ")))...)
}

// sweep kills and removes what plugins of a killed host left behind.
func (g *groups) sweep() error {
	var errs []error
	for _, t := range g.trees {
		left, _ := os.ReadDir(t.base) // Usually it is not there.
		for _, dir := range left {
			if dir.IsDir() {
				errs = append(errs, cgroupDir(filepath.Join(t.base, dir.Name())).remove())
			}
		}
	}
	return errors.Join(errs...)
}

// remove removes the directories that held the plugins' cgroups.
func (g *groups) remove() {
	for _, t := range g.trees {
		_ = os.Remove(t.base) // Not there if no cgroup was made, or one could not be removed.
	}
}

// make makes the cgroup of one start. What could not be limited is the error; what
// could is in the group, which is nil if there is none at all.
func (g *groups) make(name string, generation uint64, t terms) (*group, error) {
	if g.none != nil {
		return nil, g.none
	}
	made := &group{limits: limitsOf(t)}
	leaf := fmt.Sprintf("%.200s.%d", name, generation)
	var errs []error
	for _, tree := range g.trees {
		if err := tree.open(); err != nil {
			errs = append(errs, err)
			continue
		}
		dir := cgroupDir(filepath.Join(tree.base, leaf))
		if err := os.Mkdir(string(dir), 0o755); err != nil {
			errs = append(errs, fmt.Errorf("make cgroup: %w", err))
			continue
		}
		if tree.v2() {
			if _, err := os.Stat(filepath.Join(string(dir), "cgroup.kill")); err != nil {
				errs = append(errs, dir.remove(), fmt.Errorf("cgroups of plugins want Linux 5.14: %w", err))
				continue
			}
		}
		made.dirs = append(made.dirs, dir)
		made.trees = append(made.trees, tree)
		errs = append(errs, tree.enable(made.limits), dir.limit(tree, made.limits))
	}
	if len(made.dirs) == 0 {
		return nil, errors.Join(errs...)
	}
	return made, errors.Join(errs...)
}
