// Package cgroups detects how this node names the cgroups of pods, and whether running pods have
// theirs there.
//
// A wrong name would otherwise go unnoticed: no pod would have figures, and the wrong one would be
// evicted. So the container runtime and the cgroups themselves are asked, and compared with the
// configuration. It reads and reports; package host decides to whom.
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
	// Ask asks the container runtime for its cgroup driver, "" if it does not know. It may be nil.
	Ask func(context.Context) (string, error)
}

// Found is the detected driver of a node.
type Found struct {
	// Driver is "cgroupfs", "systemd" or "" if undetected.
	Driver string
	// By names the source: the container runtime, or the directory that shows the driver.
	By string
	// Sure is false if another driver may have left that directory behind.
	Sure bool
	// Err is why Driver is empty.
	Err error
}

// Find asks the runtime, like a kubelet, and examines the cgroups if it does not know.
func (n Node) Find(ctx context.Context) Found {
	if n.Ask != nil {
		if driver, err := n.Ask(ctx); err == nil && driver != "" {
			return Found{Driver: driver, By: "the container runtime", Sure: true}
		}
	}
	return n.see()
}

// see examines the cgroups only.
func (n Node) see() Found {
	seen, err := n.FS.FindCgroupDriver(n.Root)
	if err != nil {
		return Found{Err: err}
	}
	return Found{Driver: seen.Driver, By: seen.Path, Sure: seen.HasPods}
}

// Contradicts returns an error if the detected driver differs from the configured one, nil also if
// one is unknown.
func (f Found) Contradicts(configured string) error {
	if configured == "" || f.Driver == "" || f.Driver == configured {
		return nil
	}
	return fmt.Errorf("cgroupDriver: %q: the cgroup driver of this node is %q, as %s says; want that, or nothing to have it found out", configured, f.Driver, f.By)
}

// InUse returns the driver to use: the detected one, whatever is configured. It is empty if plugins
// must detect it, because no pod has shown it yet.
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

// A Pod is a running pod.
type Pod struct {
	UID, Name string
	// QoSClass is "" if unknown.
	QoSClass string
	// Containers lists the ids of the running containers.
	Containers []string
}

// Misplaced returns the pods without a cgroup, without containers, and pods that have one but lack
// those of some containers, with these. It begins where the driver ("" for the detected one) puts
// them. The error says why that is unknown.
func (n Node) Misplaced(driver string, pods []Pod) ([]Pod, error) {
	if len(pods) == 0 {
		return nil, nil
	}
	naming, err := n.FS.Naming(n.Root, driver)
	if err != nil {
		return nil, err
	}
	hierarchy, err := n.FS.PodsHierarchy()
	if err != nil {
		return nil, err
	}
	var out []Pod
	for _, p := range pods {
		err := naming.Pod(p.UID, p.QoSClass, func(cgroup string) error {
			if !hierarchy.Exists(cgroup) {
				return nodefs.ErrGone
			}
			return nil
		})
		switch {
		case err == nil:
			p.Containers = slices.DeleteFunc(slices.Clone(p.Containers), func(id string) bool {
				err := naming.Pod(p.UID, p.QoSClass, func(cgroup string) error {
					_, err := hierarchy.FindContainer(cgroup, id)
					return err
				})
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
