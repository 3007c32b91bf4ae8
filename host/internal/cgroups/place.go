package cgroups

import (
	"errors"

	"github.com/evictd/evictd/shared/nodefs"
)

// A Pod is one that runs.
type Pod struct {
	UID, Name string
	// QoSClass is "" if it is not known.
	QoSClass string
}

// Misplaced returns those pods that have no cgroup where a driver, "" for the one
// that is seen, puts them. The error is why that cannot be told.
func (n Node) Misplaced(driver string, pods []Pod) ([]Pod, error) {
	naming, err := n.FS.Naming(n.Root, driver)
	if err != nil {
		return nil, err
	}
	names, err := naming.Names()
	if errors.Is(err, nodefs.ErrGone) { // no pod has one
		return pods, nil
	}
	if err != nil {
		return nil, err
	}
	hierarchy, err := n.FS.MemoryHierarchy()
	if err != nil {
		return nil, err
	}
	var out []Pod
	for _, p := range pods {
		there, err := hierarchy.PodExists(names, p.UID, p.QoSClass)
		if err != nil {
			return nil, err
		}
		if !there {
			out = append(out, p)
		}
	}
	return out, nil
}
