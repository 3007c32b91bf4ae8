package nodefs

import (
	"errors"
	"path"
	"strings"
)

// OOMKills returns the gauge of the processes that the kernel's OOM killer has killed since the boot, by /proc/vmstat (Linux
// 4.13).
func OOMKills(f FS) *Gauge[int64] {
	return &Gauge[int64]{open: func() (gaugeFiles[int64], error) {
		file, err := f.Open("/proc/vmstat")
		return oomKills{file}, err
	}}
}

type oomKills struct{ file *File }

func (o oomKills) read(b *Buffer) (int64, error) {
	content, err := o.file.Read(b)
	if err != nil {
		return 0, err
	}
	return parseStat(content, keyOOMKill)
}

func (o oomKills) close() { o.file.Close() }

var keyOOMKill = []byte("\noom_kill ")

// OOMCounts has the counters of a memory cgroup since it was made, -1 for those that this kernel does not have.
type OOMCounts struct {
	// OOMs counts how often memory ran out at the limit of this cgroup, OOMsBelow also at those of cgroups below it, also of
	// those that are gone. Only version 2 has them; OOMs needs Linux 5.2.
	OOMs, OOMsBelow int64
	// Kills counts processes that were killed in this cgroup and, in version 2, in all below it, also in those that are gone.
	// Groups counts how often all processes of a cgroup were killed at once (memory.oom.group).
	Kills, Groups int64
	// Fails counts allocations beyond the limit in version 1, of which few ran out of memory. Reached: memory and swap have been
	// at their common limit, which is charged first; newer kernels do not count its fails.
	Fails   int64
	Reached bool
	// LimitBytes is the limit now, 0 without one.
	LimitBytes int64
}

// An OOMCgroup is a cgroup of pods with its counts.
type OOMCgroup struct {
	// Cgroup is its path inside the hierarchy, Parent that of the cgroup around it, empty for that of a root.
	Cgroup, Parent string
	// PodUID is empty for those of several pods, ContainerID also for a pod's own. Class: it is that of a QoS class.
	PodUID, ContainerID string
	Class               bool
	OOMCounts
}

// OOMCgroups returns the cgroups of all pods with those around it, of QoS classes, pods and containers, under the names of either
// driver below the kubelet's --cgroup-root. Version is that of the hierarchy. A cgroup that ends meanwhile is left out.
func OOMCgroups(f FS, cgroupRoot string) (all []OOMCgroup, version Version, err error) {
	h, err := f.MemoryHierarchy()
	if err != nil {
		return nil, 0, err
	}
	names := cgroupNames(cgroupRoot, Cgroupfs)
	for _, names := range [...]CgroupNames{names, names.other()} {
		of, listErr := oomCgroupsOf(h, names)
		err = errors.Join(err, listErr)
		for _, c := range of {
			var readErr error
			if c.OOMCounts, readErr = oomCounts(h, c.Cgroup); readErr == nil {
				all = append(all, c)
			} else if !errors.Is(readErr, ErrGone) {
				err = errors.Join(err, readErr)
			}
		}
	}
	return all, h.Version, err
}

// oomCgroupsOf lists the cgroups under these names, without counts.
func oomCgroupsOf(h Hierarchy, names CgroupNames) (all []OOMCgroup, err error) {
	pods, err := h.podsIn(names)
	if err != nil {
		if errors.Is(err, ErrGone) {
			err = nil
		}
		return nil, err
	}
	for at := names.Kubepods(); at != "/"; at = path.Dir(at) { // a limit around all pods is one of all pods
		all = append(all, OOMCgroup{Cgroup: at, Parent: strings.TrimSuffix(path.Dir(at), "/")})
	}
	for _, class := range qosClasses[1:] {
		all = append(all, OOMCgroup{Cgroup: path.Dir(names.pod("", class)), Parent: names.Kubepods(), Class: true})
	}
	for _, p := range pods {
		all = append(all, OOMCgroup{Cgroup: p.cgroup, Parent: path.Dir(p.cgroup), PodUID: p.uid})
		entries, listErr := h.entries(p.cgroup)
		err = errors.Join(err, listErr)
		for _, e := range entries {
			if id := containerID(e.Name()); e.IsDir() && id != "" {
				all = append(all, OOMCgroup{Cgroup: path.Join(p.cgroup, e.Name()), Parent: p.cgroup, PodUID: p.uid, ContainerID: id})
			}
		}
	}
	return all, err
}

func oomCounts(h Hierarchy, cgroup string) (c OOMCounts, err error) {
	var b Buffer
	read := func(file string, parse func(content []byte) error) {
		f, openErr := h.open(cgroup, file)
		if openErr == nil {
			defer f.Close()
			var content []byte
			if content, openErr = f.Read(&b); openErr == nil {
				openErr = parse(content)
			}
		}
		if err == nil {
			err = openErr
		}
	}
	counter := func(into *int64, key string) func([]byte) error {
		return func(content []byte) (err error) {
			*into = -1
			if _, has := afterKey(content, []byte(key)); has {
				*into, err = parseStat(content, []byte(key))
			}
			return err
		}
	}
	amount := func(into *int64) func([]byte) error {
		return func(content []byte) (err error) {
			*into, err = parseAmount(content)
			return err
		}
	}
	limit := func(content []byte) (err error) {
		c.LimitBytes, _, err = parseLimit(content)
		return err
	}
	if h.Version == V1 {
		c.OOMs, c.OOMsBelow, c.Groups = -1, -1, -1
		read("memory.oom_control", counter(&c.Kills, "\noom_kill "))
		read("memory.failcnt", amount(&c.Fails))
		read("memory.limit_in_bytes", limit)
		if swap, openErr := h.open(cgroup, "memory.memsw.limit_in_bytes"); openErr == nil {
			swap.Close()
			var most int64
			read("memory.memsw.max_usage_in_bytes", amount(&most))
			read("memory.memsw.limit_in_bytes", func(content []byte) error {
				with, limited, err := parseLimit(content)
				c.Reached = limited && most >= with
				return err
			})
		}
		return c, err
	}
	read("memory.events", func(content []byte) error {
		return errors.Join(counter(&c.OOMsBelow, "\noom ")(content), counter(&c.Kills, "\noom_kill ")(content), counter(&c.Groups, "\noom_group_kill ")(content))
	})
	read("memory.max", limit)
	if own, openErr := h.open(cgroup, "memory.events.local"); openErr != nil {
		c.OOMs = -1
	} else {
		own.Close()
		read("memory.events.local", counter(&c.OOMs, "\noom "))
	}
	return c, err
}
