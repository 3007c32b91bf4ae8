package nodefs

import (
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
)

// A RunningPod is a pod with a process in its cgroup.
type RunningPod struct {
	UID      string
	QoSClass string
	// Containers are the IDs of containers with a process, the pod's sandbox among them.
	Containers []string
}

// RunningPods lists the running pods by UID, without the container runtime: those under the names
// of either driver. The error wraps ErrGone if there is no cgroup of all pods.
func (n *Naming) RunningPods() ([]RunningPod, error) {
	h, err := n.fs.PodsHierarchy()
	if err != nil {
		return nil, err
	}
	names, err := NewCgroupNames(n.root, Cgroupfs)
	if err != nil {
		return nil, err
	}
	one, oneErr := h.podsIn(names)
	two, twoErr := h.podsIn(names.other())
	if oneErr != nil && twoErr != nil {
		if errors.Is(oneErr, ErrGone) {
			return nil, twoErr
		}
		return nil, oneErr
	}
	running := map[string]RunningPod{}
	for _, p := range append(one, two...) {
		pod := running[p.uid] // with the containers of its other cgroup, if any
		pod.UID, pod.QoSClass = p.uid, p.qosClass
		for _, e := range h.entries(p.cgroup) {
			if id := containerID(e.Name()); e.IsDir() && id != "" && h.hasProcess(path.Join(p.cgroup, e.Name())) {
				pod.Containers = append(pod.Containers, id)
			}
		}
		if h.hasProcess(p.cgroup) { // still, so it is no pod that went meanwhile
			slices.Sort(pod.Containers)
			running[p.uid] = pod
		}
	}
	return slices.SortedFunc(maps.Values(running), func(a, b RunningPod) int { return strings.Compare(a.UID, b.UID) }), nil
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
