package podusage

import (
	"bufio"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// How many cgroups and processes of one pod are looked at: a pod may make as many
// as its limits let it.
const (
	mostCgroups   = 500
	mostProcesses = 2000
)

// cgroups finds the processes of pods.
type cgroups struct {
	naming    *nodefs.Naming
	hierarchy nodefs.Hierarchy
	// ok: the node's cgroups are where they are looked for. Without them deleted
	// files are not seen, and writable layers are as old as the runtime's figures.
	ok bool
}

func newCgroups(node eviction.NodeFacts) cgroups {
	fs := nodefs.FS{Root: node.RootDir}
	naming, namingErr := fs.Naming(node.CgroupRoot, node.CgroupDriver)
	hierarchy, hierarchyErr := fs.MemoryHierarchy()
	return cgroups{naming, hierarchy, namingErr == nil && hierarchyErr == nil}
}

// A cgroup is one directly below a pod's: of a container, whose id is in its name,
// or the pod's own, without a name.
type cgroup struct {
	name string
	// pids are its processes and those below it, at least one, the oldest first.
	pids []int
	// root is the device of the root filesystem, 0 if it was not found. layer is the
	// writable layer's directory, if it was found.
	root  uint64
	layer *visit
}

// isOf reports whether the cgroup is the container's.
func (g cgroup) isOf(c container) bool { return c.id != "" && strings.Contains(g.name, c.id) }

// findCgroups lists the pod's cgroups that have processes.
func (p *pod) findCgroups() {
	all := p.call.meter.cgroups
	if !all.ok {
		return
	}
	names, err := all.naming.Names()
	if err != nil {
		return
	}
	podCgroup, err := names.Pod(p.row.UID, string(p.row.QoSClass))
	if err != nil {
		return
	}
	p.cgroup = podCgroup
	dir := all.hierarchy.Path(podCgroup)
	groups, processes := 0, 0
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil //nolint:nilerr // a cgroup that is gone has no processes
		}
		pids := readPIDs(name, mostProcesses-processes)
		groups, processes = groups+1, processes+len(pids)
		if groups > mostCgroups || processes >= mostProcesses {
			err = fs.SkipAll
		}
		inside := strings.TrimPrefix(strings.TrimPrefix(path.Dir(name), dir), "/")
		inside, _, _ = strings.Cut(inside, "/")
		p.addCgroup(inside, pids)
		return err
	})
}

func (p *pod) addCgroup(name string, pids []int) {
	if len(pids) == 0 {
		return
	}
	i := slices.IndexFunc(p.cgroups, func(g cgroup) bool { return g.name == name })
	if i < 0 {
		p.cgroups = append(p.cgroups, cgroup{name: name})
		i = len(p.cgroups) - 1
	}
	p.cgroups[i].pids = append(p.cgroups[i].pids, pids...)
	slices.Sort(p.cgroups[i].pids)
}

// readPIDs reads the first processes of a cgroup.
func readPIDs(name string, most int) []int {
	file, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }() // nothing was written
	var pids []int
	for lines := bufio.NewScanner(file); len(pids) < most && lines.Scan(); {
		if pid, err := strconv.Atoi(lines.Text()); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}
