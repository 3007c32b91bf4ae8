package summary

import (
	"net/http"

	"github.com/evictd/evictd/shared/eviction"
)

// The headers and their values are defined in sdk/summary, which the host may not
// import.
const (
	headerLayout           = "X-Evictd-Layout"
	headerImageFsError     = "X-Evictd-Image-Fs-Error"
	headerContainerFsError = "X-Evictd-Container-Fs-Error"
)

// A Layout is what the host knows of the node's filesystems.
type Layout struct {
	// InForce is the layout that plugins use; 0 while it is not known.
	InForce eviction.Layout
	// ImageFsErr says why it is not known whether images have a filesystem of their
	// own, ContainerFsErr why it is not known whether writable layers do; the latter
	// comes with an InForce that is used meanwhile, unless ImageFsErr is there too.
	ImageFsErr     string
	ContainerFsErr string
}

func (l Layout) write(h http.Header) {
	if l.InForce != 0 {
		h.Set(headerLayout, l.InForce.String())
	}
	if text := line(l.ImageFsErr); text != "" {
		h.Set(headerImageFsError, text)
	}
	if text := line(l.ContainerFsErr); text != "" {
		h.Set(headerContainerFsError, text)
	}
}
