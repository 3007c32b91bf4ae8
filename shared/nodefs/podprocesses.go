package nodefs

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// A PodProcesses says whether a pod that has a cgroup has processes in it.
type PodProcesses struct {
	// Running: there is a process.
	Running bool
	// Containers are the IDs of containers with a process, the pod's sandbox among them.
	Containers []string
}

// PodCgroups returns the pods that have a cgroup under the names of either driver, by UID, each with a
// function that looks for its processes. The error wraps ErrGone if there is no cgroup of all pods.
func (n *Naming) PodCgroups() (map[string]func() PodProcesses, error) {
	h, err := n.fs.PodsHierarchy()
	if err != nil {
		return nil, err
	}
	names := cgroupNames(n.root, Cgroupfs)
	one, oneErr := h.podsIn(names)
	two, twoErr := h.podsIn(names.other())
	for _, err := range []error{oneErr, twoErr} { // half of the pods would look gone
		if err != nil && !errors.Is(err, ErrGone) {
			return nil, err
		}
	}
	if oneErr != nil && twoErr != nil {
		return nil, twoErr
	}
	found := make(map[string]func() PodProcesses, len(one)+len(two))
	for _, p := range append(one, two...) {
		other := found[p.uid] // of the other driver
		found[p.uid] = func() (all PodProcesses) {
			if other != nil {
				all = other()
			}
			addProcesses(&all, h, p.cgroup)
			return all
		}
	}
	return found, nil
}

// addProcesses adds those of a pod's cgroup.
func addProcesses(to *PodProcesses, h Hierarchy, pod string) {
	entries, err := h.entries(pod)
	to.Running = to.Running || err != nil
	for _, e := range entries {
		if id := containerID(e.Name()); e.IsDir() && id != "" && h.hasProcess(path.Join(pod, e.Name())) {
			to.Containers = append(to.Containers, id)
		}
	}
	slices.Sort(to.Containers)
	to.Running = to.Running || h.hasProcess(pod)
}

// containerID returns the ID in the name of a container's cgroup, see isOfContainer. It is "" for
// that of conmon.
func containerID(cgroup string) string {
	id, scope := strings.CutSuffix(cgroup, ".scope")
	if strings.Contains(id, "conmon") {
		return ""
	}
	for _, prefix := range []string{"cri-containerd-", "crio-", "docker-"} {
		if id, ok := strings.CutPrefix(id, prefix); ok {
			return id
		}
	}
	if scope {
		id = id[strings.LastIndexByte(id, '-')+1:]
	}
	return id
}
