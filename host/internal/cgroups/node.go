// Package cgroups finds out how the cgroups of pods are named on this node, and
// whether pods that run have theirs where evictd looks for it.
//
// A wrong name makes no noise by itself: every pod is without figures then, and the
// one that goes is a wrong one. So the container runtime and the cgroups themselves
// are asked, and the configuration is held against what they say. It reads and
// reports; package host decides to whom.
package cgroups

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evictd/evictd/shared/nodefs"
)

// A Node locates the cgroups of a node.
type Node struct {
	FS nodefs.FS
	// Root is the parent of kubepods in each hierarchy.
	Root string
	// Ask asks the container runtime for its cgroup driver, "" if it does not know. It
	// may be nil.
	Ask func(context.Context) (string, error)
}

// Found is the driver that a node was seen to have.
type Found struct {
	// Driver is "cgroupfs", "systemd" or "" as long as there is nothing to see.
	Driver string
	// By names the source: the container runtime, or the directory that shows the driver.
	By string
	// Sure is false where it may be what another driver has left behind.
	Sure bool
	// Err is why Driver is empty.
	Err error
}

// Find asks the runtime, as a kubelet does, and one that does not know leaves it to
// the cgroups.
func (n Node) Find(ctx context.Context) Found {
	if n.Ask != nil {
		if driver, err := n.Ask(ctx); err == nil && driver != "" {
			return Found{Driver: driver, By: "the container runtime", Sure: true}
		}
	}
	return n.see()
}

// see looks at the cgroups alone.
func (n Node) see() Found {
	seen, err := n.FS.FindCgroupDriver(n.Root)
	if err != nil {
		return Found{Err: err}
	}
	return Found{Driver: seen.Driver, By: seen.Path, Sure: seen.HasPods}
}

// Contradicts returns why the node is not as configured, nil if it is or nothing can
// tell.
func (f Found) Contradicts(configured string) error {
	if configured == "" || f.Driver == "" || f.Driver == configured {
		return nil
	}
	return fmt.Errorf("cgroupDriver: %q: the cgroup driver of this node is %q, as %s says; want that, or nothing to have it found out", configured, f.Driver, f.By)
}

// InUse returns the driver to go by: the node's own, whatever is configured. It is empty
// where plugins are to see by themselves, since no pod has shown it yet.
func (f Found) InUse(configured string) string {
	switch {
	case f.Sure, f.Driver == configured:
		return f.Driver
	case f.Driver != "":
		return ""
	default:
		return configured
	}
}

// A Pod is one that runs.
type Pod struct {
	UID, Name string
	// QoSClass is "" if it is not known.
	QoSClass string
	// Containers are the ids of those that run.
	Containers []string
}

// Misplaced returns those pods that have no cgroup where a driver, "" for the one
// that is seen, puts them, without containers, and those of which only containers have
// none below it, with these. The error is why that cannot be known.
func (n Node) Misplaced(driver string, pods []Pod) ([]Pod, error) {
	naming, err := n.FS.Naming(n.Root, driver)
	if err != nil {
		return nil, err
	}
	names, noNames := naming.Names()
	if noNames != nil && !errors.Is(noNames, nodefs.ErrGone) { // else no pod has one
		return nil, noNames
	}
	var hierarchy nodefs.Hierarchy
	if noNames == nil {
		if hierarchy, err = n.FS.MemoryHierarchy(); err != nil {
			return nil, err
		}
	}
	var out []Pod
	for _, p := range pods {
		cgroup, err := "", noNames
		if err == nil {
			cgroup, err = hierarchy.FindPod(names, p.UID, p.QoSClass)
		}
		switch {
		case err == nil:
			p.Containers = slices.DeleteFunc(slices.Clone(p.Containers), func(id string) bool {
				_, err := hierarchy.FindContainer(cgroup, id)
				return !errors.Is(err, nodefs.ErrGone)
			})
			if len(p.Containers) > 0 {
				out = append(out, p)
			}
		case errors.Is(err, nodefs.ErrGone):
			p.Containers = nil
			out = append(out, p)
		default:
			return nil, err
		}
	}
	return out, nil
}
