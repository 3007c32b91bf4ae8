package nodefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"
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
	names, err := NewCgroupNames(n.root, found.Driver)
	if err == nil && found.HasPods {
		n.sure.Store(&names)
	}
	return names, err
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
// counts. The error wraps ErrGone if neither exists.
func (f FS) FindCgroupDriver(cgroupRoot string) (FoundDriver, error) {
	h, err := f.MemoryHierarchy()
	if err != nil {
		if h, err = f.PIDsHierarchy(); err != nil {
			return FoundDriver{}, err
		}
	}
	var there []FoundDriver
	var paths []string
	for _, driver := range []string{Cgroupfs, Systemd} {
		names, err := NewCgroupNames(cgroupRoot, driver)
		if err != nil {
			return FoundDriver{}, err
		}
		at := h.Path(names.Kubepods())
		paths = append(paths, at)
		if h.Exists(names.Kubepods()) {
			there = append(there, FoundDriver{Driver: driver, HasPods: h.hasPods(names), Path: at})
		}
	}
	switch {
	case len(there) == 0:
		return FoundDriver{}, fmt.Errorf("cgroup driver not known yet: neither %s nor %s is there: %w", paths[0], paths[1], ErrGone)
	case len(there) == 1 || there[0].HasPods && !there[1].HasPods:
		return there[0], nil
	case there[1].HasPods && !there[0].HasPods:
		return there[1], nil
	case there[0].HasPods:
		return FoundDriver{}, fmt.Errorf("cgroup driver not known: both %s and %s have pods", paths[0], paths[1])
	default:
		return FoundDriver{}, fmt.Errorf("cgroup driver not known yet: both %s and %s are there, without pods", paths[0], paths[1])
	}
}

// hasPods reports whether there are cgroups of pods under these names.
func (h Hierarchy) hasPods(names CgroupNames) bool {
	for _, parent := range [][]string{{"kubepods"}, {"kubepods", "burstable"}, {"kubepods", "besteffort"}} {
		cgroup, prefix := names.join(parent...), "pod"
		if names.systemd {
			prefix = strings.TrimSuffix(path.Base(cgroup), ".slice") + "-pod"
		}
		if h.hasChild(cgroup, prefix) {
			return true
		}
	}
	return false
}

// hasChild reports whether a cgroup has a child whose name begins with prefix. It is false if
// the cgroup cannot be listed.
func (h Hierarchy) hasChild(cgroup, prefix string) bool {
	entries, err := os.ReadDir(h.Path(cgroup))
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), prefix) {
			return true
		}
	}
	return false
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

// FindPod returns the cgroup of a pod. Without a QoS class it searches all classes. The error
// wraps ErrGone if the pod has none.
func (h Hierarchy) FindPod(names CgroupNames, uid, qosClass string) (string, error) {
	classes := []string{qosClass}
	if qosClass == "" {
		classes = []string{"Guaranteed", "Burstable", "BestEffort"}
	}
	for _, class := range classes {
		cgroup, err := names.Pod(uid, class)
		if err != nil {
			return "", err
		}
		if h.Exists(cgroup) {
			return cgroup, nil
		}
	}
	return "", fmt.Errorf("cgroup of pod %s: %w", uid, ErrGone)
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
