// Package overlay contains the evictd files that are added to a kubelet's otherwise unchanged
// sources: one for each of three packages, and more for tests. They are not compiled here, since they
// mostly refer to the kubelet's code.
package overlay

import (
	"embed"
	"strings"
)

// Files are the files, by name.
//
//go:embed *.go.txt
var Files embed.FS

// Before137 changes Files for a kubelet before v1.37, where Admit has no context and
// HandleAdmissionFailure no operation.
var Before137 = strings.NewReplacer(
	"Admit(ctx context.Context, ", "Admit(", "Admit(ctx, ", "Admit(",
	", operation lifecycle.Operation)", ")", ", operation)", ")", ", Resize: operation == lifecycle.ResizeOperation", "",
)

// A File is a file for a package of the kubelet, and the functions that it replaces there.
type File struct {
	// Name is the name in Files, Package a directory of the kubelet's sources.
	Name, Package string
	// Source is the file of that package with the functions and methods Renamed
	// ("managerImpl.Admit"): each gets the prefix "upstream". It is empty if there are none.
	Source  string
	Renamed []string
}

// Kubelet lists the files to add to a kubelet's sources.
var Kubelet = []File{
	{"eviction.go.txt", "pkg/kubelet/eviction", "eviction_manager.go", []string{"NewManager"}},
	{"images.go.txt", "pkg/kubelet/images", "image_gc_manager.go", []string{"NewImageGCManager"}},
	{"preemption.go.txt", "pkg/kubelet/preemption", "preemption.go", []string{"CriticalPodAdmissionHandler.HandleAdmissionFailure"}},
}

// Tests are for the kubelet's own tests, which do not use NewManager.
var Tests = []File{
	{"tested.go.txt", "pkg/kubelet/eviction", "eviction_manager.go", []string{
		"managerImpl.Admit", "managerImpl.IsUnderDiskPressure", "managerImpl.IsUnderMemoryPressure", "managerImpl.IsUnderPIDPressure", "managerImpl.synchronize",
	}},
	{Name: "manager_test.go.txt", Package: "pkg/kubelet/eviction"},
	{Name: "images_test.go.txt", Package: "pkg/kubelet/images"},
}
