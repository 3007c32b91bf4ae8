package nodefs

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// CgroupNames knows how the kubelet and the runtimes name the cgroups of pods.
// All names are paths inside a hierarchy, with a leading slash.
type CgroupNames struct {
	root    []string
	systemd bool
}

// NewCgroupNames returns the names below the kubelet's --cgroup-root, for its
// cgroup driver, "cgroupfs" or "systemd".
func NewCgroupNames(cgroupRoot, driver string) (CgroupNames, error) {
	if driver != "cgroupfs" && driver != "systemd" {
		return CgroupNames{}, fmt.Errorf("cgroup driver %q, want \"cgroupfs\" or \"systemd\"", driver)
	}
	return cgroupNames(cgroupRoot, driver), nil
}

func cgroupNames(cgroupRoot, driver string) CgroupNames {
	n := CgroupNames{systemd: driver == Systemd}
	if root := path.Join("/", cgroupRoot); root != "/" {
		n.root = strings.Split(root[1:], "/")
	}
	return n
}

// Kubepods returns the cgroup of all pods.
func (n CgroupNames) Kubepods() string { return n.join("kubepods") }

// qosClasses are the QoS classes of pods.
var qosClasses = []string{"Guaranteed", "Burstable", "BestEffort"}

// pod returns the cgroup of a pod of one of the qosClasses.
func (n CgroupNames) pod(uid, qosClass string) string {
	if qosClass == "Guaranteed" {
		return n.join("kubepods", "pod"+uid)
	}
	return n.join("kubepods", strings.ToLower(qosClass), "pod"+uid)
}

// other returns the names of the other driver.
func (n CgroupNames) other() CgroupNames { return CgroupNames{n.root, !n.systemd} }

// join returns the kubelet's cgroup for root and parts. With systemd a slice is nested in the
// slices that its name lists: a-b.slice in a.slice. A dash inside a part would look like such a
// list, so it becomes an underscore (cm/cgroup_manager_linux.go:ToSystemd).
func (n CgroupNames) join(parts ...string) string {
	all := slices.Concat(n.root, parts)
	if !n.systemd {
		return "/" + path.Join(all...)
	}
	name, full := "", ""
	for _, part := range all {
		part = strings.ReplaceAll(part, "-", "_")
		if name != "" {
			name += "-"
		}
		name += part
		full += "/" + name + ".slice"
	}
	return full
}

// validName refuses names that would lead out of the directory they are joined to.
func validName(s string) error {
	if s == "" || s == "." || s == ".." || len(s) > 128 || strings.ContainsAny(s, "/\x00") {
		return fmt.Errorf("%.64q, want a plain file name", s)
	}
	return nil
}
