package eviction

import "slices"

// LayoutReport describes how the node's filesystems are arranged.
type LayoutReport struct {
	// ImageFs: images are on another filesystem than the kubelet's.
	ImageFs bool
	// ContainerFs: writable layers are on another filesystem than the images.
	ContainerFs bool
	// ImageFsErr and ContainerFsErr say why the field is not known; empty if it is known.
	ImageFsErr     string
	ContainerFsErr string
}

// Layout returns the layout that r reports, 0 if ImageFs is not known. If ContainerFs is
// not known, writable layers are assumed to be with the images.
func (r *LayoutReport) Layout() Layout {
	switch {
	case r.ImageFsErr != "":
		return 0
	case !r.ImageFs:
		return LayoutShared
	case r.ContainerFs && r.ContainerFsErr == "":
		return LayoutContainerFs
	default:
		return LayoutImageFs
	}
}

// Layout is one arrangement of the node's filesystems.
type Layout uint8

// The layouts that the kubelet knows.
const (
	// LayoutShared has everything on the kubelet's filesystem.
	LayoutShared Layout = iota + 1
	// LayoutImageFs has images and writable layers together on a separate filesystem.
	LayoutImageFs
	// LayoutContainerFs has images on a separate filesystem, writable layers on the kubelet's.
	LayoutContainerFs
)

// layoutNames are the names of the layouts by value, with that of all other values first.
var layoutNames = [...]string{"unknown", "shared", "imagefs", "containerfs"}

// String returns "shared", or the kubelet's name for the separate filesystem: "imagefs",
// "containerfs". It returns "unknown" for any other value.
func (l Layout) String() string {
	if int(l) < len(layoutNames) {
		return layoutNames[l]
	}
	return layoutNames[0]
}

// LayoutNamed returns the layout with the given String, 0 if there is none.
func LayoutNamed(name string) Layout { return Layout(max(0, slices.Index(layoutNames[:], name))) }
