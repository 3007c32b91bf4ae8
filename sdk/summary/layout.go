package summary

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

// The headers of the protocol, on answers with status 200 and 503.
const (
	// HeaderLayout is the layout in force: LayoutShared, LayoutImageFs or
	// LayoutContainerFs. Absent while it is not known.
	HeaderLayout = "X-Evictd-Layout"
	// HeaderImageFsError says why it is not known whether images have a
	// filesystem of their own.
	HeaderImageFsError = "X-Evictd-Image-Fs-Error"
	// HeaderContainerFsError says why it is not known whether writable layers
	// have a filesystem of their own.
	HeaderContainerFsError = "X-Evictd-Container-Fs-Error"
)

// Values of HeaderLayout.
const (
	LayoutShared      = "shared"
	LayoutImageFs     = "imagefs"
	LayoutContainerFs = "containerfs"
)

// A Layout is what the host knows of the node's filesystems.
type Layout struct {
	// InForce decides what counts for the signals of filesystems; 0 if not known.
	InForce eviction.Layout
	// Report is for the host, nil when it said nothing at all.
	Report *eviction.LayoutReport
}

func layoutOf(h http.Header) (Layout, error) {
	r := eviction.LayoutReport{
		ImageFsErr:     line(h.Get(HeaderImageFsError)),
		ContainerFsErr: line(h.Get(HeaderContainerFsError)),
	}
	l := Layout{Report: &r}
	switch value := h.Get(HeaderLayout); value {
	case LayoutShared:
		l.InForce = eviction.LayoutShared
	case LayoutImageFs:
		l.InForce = eviction.LayoutImageFs
		r.ImageFs = true
	case LayoutContainerFs:
		l.InForce = eviction.LayoutContainerFs
		r.ImageFs, r.ContainerFs = true, true
	case "":
		if r == (eviction.LayoutReport{}) {
			return Layout{}, nil
		}
		if r.ImageFsErr == "" {
			return Layout{}, fmt.Errorf("host sent %s without %s", HeaderContainerFsError, HeaderLayout)
		}
	default:
		return Layout{}, fmt.Errorf("host sent %s %.64q, want %s, %s or %s", HeaderLayout, value, LayoutShared, LayoutImageFs, LayoutContainerFs)
	}
	return l, nil
}

// line makes a text fit for a log and for the plugin protocol.
func line(text string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
}
