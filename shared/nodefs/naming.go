package nodefs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// The kubelet's cgroup drivers.
const (
	Cgroupfs = "cgroupfs"
	Systemd  = "systemd"
)

// A Naming provides the CgroupNames of a node. If the cgroup driver is not configured, it
// detects it. It may be used concurrently.
type Naming struct {
	fs   FS
	root string
	sure atomic.Pointer[CgroupNames]
}

// Naming returns the naming below the kubelet's --cgroup-root for its cgroup driver, "cgroupfs"
// or "systemd"; "" means to detect the driver from the cgroups of pods.
func (f FS) Naming(cgroupRoot, driver string) (*Naming, error) {
	n := &Naming{fs: f, root: cgroupRoot}
	if driver == "" {
		return n, nil
	}
	names, err := NewCgroupNames(cgroupRoot, driver)
	if err != nil {
		return nil, err
	}
	n.sure.Store(&names)
	return n, nil
}

// Names returns the names. The error wraps ErrGone if no cgroup of pods exists under the names
// of either driver; no pod has a cgroup then. It detects the driver again on each call until
// cgroups of pods have shown it.
func (n *Naming) Names() (CgroupNames, error) {
	if names := n.sure.Load(); names != nil {
		return *names, nil
	}
	found, err := n.fs.FindCgroupDriver(n.root)
	if err != nil {
		return CgroupNames{}, err
	}
	names := cgroupNames(n.root, found.Driver)
	if found.HasPods {
		n.sure.Store(&names)
	}
	return names, nil
}

// Pod calls use with the names that a pod's cgroup may have, as long as the error of use wraps
// ErrGone. It returns the last result of use, or the first error if no name exists. It begins with
// the node's driver and the given QoS class, so one call is usually enough. But a kubelet whose
// driver was changed leaves older pods under the other driver's names, and the class may be wrong
// or "".
func (n *Naming) Pod(uid, qosClass string, use func(cgroup string) error) error {
	if err := validName(uid); err != nil {
		return fmt.Errorf("pod uid %w", err)
	}
	if qosClass != "" && !slices.Contains(qosClasses, qosClass) {
		return fmt.Errorf("QoS class %q of pod %s, want Guaranteed, Burstable or BestEffort", qosClass, uid)
	}
	names, err := n.Names()
	if err != nil { // the pod may have come since
		names = cgroupNames(n.root, Cgroupfs)
	}
	var gone error
	for i, class := range append([]string{qosClass}, qosClasses...) {
		if class == "" || i > 0 && class == qosClass {
			continue
		}
		for _, names := range [...]CgroupNames{names, names.other()} {
			err := use(names.pod(uid, class))
			if !errors.Is(err, ErrGone) {
				return err
			}
			gone = cmp.Or(gone, err)
		}
	}
	return gone
}

// A FoundDriver is the cgroup driver detected from the cgroups of pods.
type FoundDriver struct {
	// Driver is "cgroupfs" or "systemd".
	Driver string
	// HasPods: there are cgroups of pods under its names. Without them the parent cgroup may
	// be a leftover of another driver.
	HasPods bool
	// Path is the directory that it was detected from.
	Path string
}

// FindCgroupDriver detects the driver from the cgroups below the kubelet's --cgroup-root: the
// parent of all pods is kubepods or kubepods.slice. If both exist, the one that contains pods
// counts; if both do, the one with the newest cgroup of a pod, since the kubelet that runs made it.
// The error wraps ErrGone if neither exists.
func (f FS) FindCgroupDriver(cgroupRoot string) (FoundDriver, error) {
	h, err := f.PodsHierarchy()
	if err != nil {
		return FoundDriver{}, err
	}
	var pods [][]podCgroupName
	var there []FoundDriver
	var paths []string
	for _, driver := range []string{Cgroupfs, Systemd} {
		names := cgroupNames(cgroupRoot, driver)
		at := h.Path(names.Kubepods())
		paths = append(paths, at)
		if h.Exists(names.Kubepods()) {
			in, _ := h.podsIn(names) // none if they cannot be listed
			pods = append(pods, in)
			there = append(there, FoundDriver{Driver: driver, HasPods: len(in) > 0, Path: at})
		}
	}
	switch {
	case len(there) == 0:
		return FoundDriver{}, fmt.Errorf("cgroup driver not known yet: neither %s nor %s is there: %w", paths[0], paths[1], ErrGone)
	case len(there) == 1 || there[0].HasPods && h.newest(pods[0]) >= h.newest(pods[1]):
		return there[0], nil
	case there[1].HasPods:
		return there[1], nil
	default:
		return FoundDriver{}, fmt.Errorf("cgroup driver not known yet: both %s and %s are there, without pods", paths[0], paths[1])
	}
}

// A podCgroupName is the name of a pod's cgroup, and the pod that it names.
type podCgroupName struct{ cgroup, uid string }

// podsIn lists the cgroups of pods under these names. The error wraps ErrGone if there is no cgroup
// of all pods.
func (h Hierarchy) podsIn(names CgroupNames) (pods []podCgroupName, err error) {
	for _, class := range qosClasses {
		prefix := names.pod("", class)
		parent := path.Dir(prefix)
		prefix = strings.TrimSuffix(path.Base(prefix), ".slice")
		entries, err := os.ReadDir(h.Path(parent))
		if err != nil {
			if err = fileError("list", h.Path(parent), err); !errors.Is(err, ErrGone) || parent == names.Kubepods() {
				return nil, err
			}
		}
		for _, e := range entries {
			uid, isPod := strings.CutPrefix(e.Name(), prefix)
			if names.systemd { // see CgroupNames.join; a UID has no underscores
				uid = strings.ReplaceAll(strings.TrimSuffix(uid, ".slice"), "_", "-")
			}
			if isPod && uid != "" && e.IsDir() {
				pods = append(pods, podCgroupName{path.Join(parent, e.Name()), uid})
			}
		}
	}
	return pods, nil
}

// newest returns the highest inode number of cgroups, which is that of the one made last: the kernel
// numbers cgroups in the order of their creation (fs/kernfs/dir.c:__kernfs_new_node). Their times
// are of no use: they begin when the kernel first, or again, looks the directory up.
func (h Hierarchy) newest(pods []podCgroupName) (number uint64) {
	for _, p := range pods {
		var stat unix.Stat_t
		if unix.Stat(h.Path(p.cgroup), &stat) == nil {
			number = max(number, stat.Ino)
		}
	}
	return number
}

// AllPodsMemory returns the gauge of all pods together: their usage against the limit of their
// common cgroup. A read returns an error that wraps ErrGone while that cgroup does not exist.
func (h Hierarchy) AllPodsMemory(naming *Naming) *MemoryGauge {
	return &MemoryGauge{open: func() (gaugeFiles[MemorySample], error) {
		names, err := naming.Names()
		if err != nil {
			return nil, err
		}
		return h.CgroupMemory(names.Kubepods()).open()
	}}
}

// FindContainer returns the cgroup of a container below its pod's. All runtimes name it by the
// container's ID, with different prefixes and suffixes. The error wraps ErrGone if there is none.
func (h Hierarchy) FindContainer(pod, id string) (string, error) {
	if err := validName(id); err != nil {
		return "", fmt.Errorf("container id %w", err)
	}
	entries, err := os.ReadDir(h.Path(pod))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("list cgroup %s: %w", pod, err)
	}
	for _, e := range entries {
		if e.IsDir() && isOfContainer(e.Name(), id) {
			return path.Join(pod, e.Name()), nil
		}
	}
	return "", fmt.Errorf("none of container %s in %s: %w", id, h.Path(pod), ErrGone)
}

// isOfContainer reports whether a cgroup is a container's: ID, PREFIX-ID or PREFIX-ID.scope.
// It is false for that of conmon, the container's monitor.
func isOfContainer(cgroup, id string) bool {
	prefix, found := strings.CutSuffix(strings.TrimSuffix(cgroup, ".scope"), id)
	return found && (prefix == "" || strings.HasSuffix(prefix, "-") && !strings.HasSuffix(prefix, "conmon-"))
}
