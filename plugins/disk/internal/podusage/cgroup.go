package podusage

import (
	"bufio"
	"bytes"
	"io/fs"
	"iter"
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
	layer *task
}

// isOf reports whether the cgroup is the container's.
func (g cgroup) isOf(c container) bool { return c.id != "" && strings.Contains(g.name, c.id) }

// processes are a pod's, by cgroup.
type processes struct {
	node nodefs.FS
	// cgroup is the pod's, cgroups are those of its containers, the sandbox's too, that
	// have processes.
	cgroup  string
	cgroups []cgroup
}

// of finds the processes of a pod.
func (c cgroups) of(row *eviction.Pod) processes {
	p := processes{node: c.hierarchy.FS}
	if !c.ok {
		return p
	}
	names, err := c.naming.Names()
	if err != nil {
		return p
	}
	if p.cgroup, err = names.Pod(row.UID, string(row.QoSClass)); err != nil {
		return p
	}
	dir := c.hierarchy.Path(p.cgroup)
	groups, found := 0, 0
	_ = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.Name() != "cgroup.procs" {
			return nil //nolint:nilerr // a cgroup that is gone has no processes
		}
		pids := readPIDs(name, mostProcesses-found)
		groups, found = groups+1, found+len(pids)
		if groups > mostCgroups || found >= mostProcesses {
			err = fs.SkipAll
		}
		inside := strings.TrimPrefix(strings.TrimPrefix(path.Dir(name), dir), "/")
		inside, _, _ = strings.Cut(inside, "/")
		p.add(inside, pids)
		return err
	})
	return p
}

func (p *processes) add(name string, pids []int) {
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

// still has those of the processes that are the pod's at the moment at which they
// are asked for. Some seconds have passed since they were listed, in which a number
// can have become that of another process.
func (p *processes) still(pids []int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, pid := range pids {
			if p.has(pid) && !yield(pid) {
				return
			}
		}
	}
}

// has reports whether a process is the pod's just now.
func (p *processes) has(pid int) bool {
	cgroup, err := os.ReadFile(p.node.Path(path.Join("/proc", strconv.Itoa(pid), "cgroup")))
	return err == nil && isBelow(string(cgroup), p.cgroup)
}

// isBelow reports whether a file /proc/PID/cgroup names a pod's cgroup or one below
// it. It is known by its name, which has the pod's uid: whole paths begin elsewhere
// where we have a cgroup namespace of our own.
func isBelow(file, podCgroup string) bool {
	for line := range strings.Lines(file) {
		_, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, name, _ = strings.Cut(name, ":")
		if slices.Contains(strings.Split(name, "/"), path.Base(podCgroup)) {
			return true
		}
	}
	return false
}

// mostStarters bounds the processes whose parent is looked up: the first of a container is
// among its lowest numbers, unless numbers have come round.
const mostStarters = 16

// startedBy returns the process outside of the pod that started one of pids: the
// runtime's. It is 0 if there is none.
func (p *processes) startedBy(pids []int) int {
	for _, pid := range pids[:min(len(pids), mostStarters)] {
		parent := readParent(p.node.Path(path.Join("/proc", strconv.Itoa(pid), "stat")))
		if parent > 0 && !p.has(parent) {
			return parent
		}
	}
	return 0
}

// readParent reads the fourth field of a file /proc/PID/stat; the second one is a
// name in parentheses, which may have any characters.
func readParent(name string) int {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
