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

// The maximum numbers of cgroups and processes of one pod that are read: a pod may create as
// many as its limits allow.
const (
	mostCgroups   = 500
	mostProcesses = 2000
)

// cgroups finds the processes of pods.
type cgroups struct {
	naming    *nodefs.Naming
	hierarchy nodefs.Hierarchy
	// ok: the node's cgroups were found. Without them deleted files are not counted, and
	// writable layers have the runtime's figures only.
	ok bool
}

func newCgroups(node eviction.NodeFacts) cgroups {
	fs := nodefs.FS{Root: node.RootDir}
	naming, namingErr := fs.Naming(node.CgroupRoot, node.CgroupDriver)
	hierarchy, hierarchyErr := fs.PodsHierarchy()
	return cgroups{naming, hierarchy, namingErr == nil && hierarchyErr == nil}
}

// A cgroup is a direct child of a pod's cgroup: that of a container, whose ID is in its name.
// The pod's own cgroup has no name.
type cgroup struct {
	name string
	// pids are the processes in it and its descendants, at least one, oldest first.
	pids []int
	// root is the device of the root filesystem, 0 if it was not found. layer walks the
	// writable layer's directory, nil if it was not found.
	root  uint64
	layer *task
}

// isOf reports whether the cgroup belongs to the container.
func (g cgroup) isOf(c container) bool { return c.id != "" && strings.Contains(g.name, c.id) }

// processes are those of a pod, by cgroup.
type processes struct {
	node nodefs.FS
	// cgroup is the pod's; cgroups are those of its containers, including the sandbox, that
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
	_ = c.naming.Pod(row.UID, string(row.QoSClass), func(cgroup string) error {
		p.cgroup = cgroup
		p.list(c.hierarchy.Path(cgroup))
		if len(p.cgroups) == 0 {
			return nodefs.ErrGone
		}
		return nil
	}) // a pod without processes has none
	return p
}

// list lists the processes below the directory of the pod's cgroup.
func (p *processes) list(dir string) {
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

// readPIDs reads at most the given number of PIDs from a cgroup.procs.
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

// still yields those of pids that belong to the pod at the moment of the call. They were listed
// some seconds before, so a PID may have been reused since by another process.
func (p *processes) still(pids []int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, pid := range pids {
			if p.has(pid) && !yield(pid) {
				return
			}
		}
	}
}

// has reports whether a process belongs to the pod at this moment.
func (p *processes) has(pid int) bool {
	cgroup, err := os.ReadFile(p.node.Path(path.Join("/proc", strconv.Itoa(pid), "cgroup")))
	return err == nil && isBelow(string(cgroup), p.cgroup)
}

// isBelow reports whether a /proc/PID/cgroup file names a pod's cgroup or a descendant. It
// compares the name, which contains the pod's UID: whole paths differ if this process has its
// own cgroup namespace.
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

// mostStarters is the number of processes whose parent is looked up: a container's first process
// has one of its lowest PIDs, unless PIDs have wrapped around.
const mostStarters = 16

// startedBy returns the parent of one of pids that is outside of the pod, which belongs to the
// runtime; 0 if there is none.
func (p *processes) startedBy(pids []int) int {
	for _, pid := range pids[:min(len(pids), mostStarters)] {
		parent := readParent(p.node.Path(path.Join("/proc", strconv.Itoa(pid), "stat")))
		if parent > 0 && !p.has(parent) {
			return parent
		}
	}
	return 0
}

// readParent returns the fourth field of a /proc/PID/stat file; the second one is a name in
// parentheses, which may contain any characters.
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
