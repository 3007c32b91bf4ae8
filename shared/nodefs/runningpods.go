package nodefs

import (
	"errors"
	"maps"
	"os"
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
		containers := h.containersOf(p.cgroup)
		if !h.hasProcess(p.cgroup) { // or no longer
			continue
		}
		pod := running[p.uid] // of the other driver, or new
		pod.UID, pod.QoSClass = p.uid, p.qosClass
		pod.Containers = append(pod.Containers, containers...)
		slices.Sort(pod.Containers)
		running[p.uid] = pod
	}
	return slices.SortedFunc(maps.Values(running), func(a, b RunningPod) int { return strings.Compare(a.UID, b.UID) }), nil
}

// A podCgroupName is the name of a pod's cgroup, and the pod that it names.
type podCgroupName struct{ cgroup, uid, qosClass string }

// podsIn lists the cgroups of pods under these names. The error wraps ErrGone if there is no cgroup
// of all pods.
func (h Hierarchy) podsIn(names CgroupNames) (pods []podCgroupName, err error) {
	for _, class := range qosClasses {
		prefix := names.pod("", class)
		parent := path.Dir(prefix)
		prefix = strings.TrimSuffix(path.Base(prefix), ".slice")
		entries, err := os.ReadDir(h.Path(parent))
		if err != nil && parent == names.Kubepods() {
			return nil, fileError("list", h.Path(parent), err)
		}
		for _, e := range entries {
			uid, isPod := strings.CutPrefix(e.Name(), prefix)
			if names.systemd { // see CgroupNames.join; a UID has no underscores
				uid = strings.ReplaceAll(strings.TrimSuffix(uid, ".slice"), "_", "-")
			}
			if isPod && uid != "" && e.IsDir() {
				pods = append(pods, podCgroupName{path.Join(parent, e.Name()), uid, class})
			}
		}
	}
	return pods, nil
}

// hasProcess reports whether a process runs in a cgroup or a descendant.
func (h Hierarchy) hasProcess(cgroup string) bool {
	if h.Version == V1 {
		pids, _ := h.Processes(cgroup) // those listed count despite an error
		return len(pids) > 0
	}
	content, _ := os.ReadFile(h.Path(path.Join(cgroup, "cgroup.events"))) // none if it is gone
	return strings.Contains(string(content), "populated 1\n")
}

// containersOf returns the IDs of the containers with a process in the cgroup of a pod.
func (h Hierarchy) containersOf(pod string) (ids []string) {
	for _, e := range h.entries(pod) {
		if id := containerID(e.Name()); e.IsDir() && id != "" && h.hasProcess(path.Join(pod, e.Name())) {
			ids = append(ids, id)
		}
	}
	return ids
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
