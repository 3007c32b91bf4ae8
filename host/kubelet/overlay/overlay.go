// Package overlay has what a kubelet gets of evictd, beside its own unchanged sources: one
// file for each of two of its packages, and more for tests. They are no packages
// here, since most of what they name is the kubelet's.
package overlay

import "embed"

// Files are the files, by name.
//
//go:embed *.go.txt
var Files embed.FS

// A File is an own file for a package of the kubelet, and what makes room for it there.
type File struct {
	// Name is of Files, Package a directory of the kubelet's sources.
	Name, Package string
	// Source is the file of that package in which Renamed are, functions and methods
	// ("managerImpl.Admit"): each gets "upstream" in front of its name. It is empty if
	// there are none.
	Source  string
	Renamed []string
}

// Kubelet lists the files to add to a kubelet's sources.
var Kubelet = []File{
	{"eviction.go.txt", "pkg/kubelet/eviction", "eviction_manager.go", []string{"NewManager"}},
	{"preemption.go.txt", "pkg/kubelet/preemption", "preemption.go", []string{"CriticalPodAdmissionHandler.HandleAdmissionFailure"}},
}

// Tests are for the kubelet's own tests, which do not make their managers by NewManager.
var Tests = []File{
	{"tested.go.txt", "pkg/kubelet/eviction", "eviction_manager.go", []string{
		"managerImpl.Admit", "managerImpl.IsUnderDiskPressure", "managerImpl.IsUnderMemoryPressure", "managerImpl.IsUnderPIDPressure", "managerImpl.synchronize",
	}},
	{Name: "manager_test.go.txt", Package: "pkg/kubelet/eviction"},
}
