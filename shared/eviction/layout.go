package eviction

// LayoutReport says which filesystems the node has.
type LayoutReport struct {
	// ImageFs: images do not live on the kubelet's filesystem.
	ImageFs bool
	// ContainerFs: writable layers do not live with the images.
	ContainerFs bool
	// ImageFsErr and ContainerFsErr say why the answer is not known.
	ImageFsErr     string
	ContainerFsErr string
}

// Layout returns the arrangement that r reports. Where it is not known where writable
// layers live they count as being with the images.
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
	// LayoutImageFs has images and writable layers on a filesystem of their own.
	LayoutImageFs
	// LayoutContainerFs has images on their own, writable layers on the
	// kubelet's filesystem.
	LayoutContainerFs
)

// String names the layout as the kubelet's documentation calls its filesystem
// for images.
func (l Layout) String() string {
	switch l {
	case LayoutShared:
		return "shared"
	case LayoutImageFs:
		return "imagefs"
	case LayoutContainerFs:
		return "containerfs"
	default:
		return "unknown"
	}
}

// LayoutNamed returns the layout that String calls so, 0 if none is.
func LayoutNamed(name string) Layout {
	for _, l := range Layouts() {
		if l.String() == name {
			return l
		}
	}
	return 0
}
