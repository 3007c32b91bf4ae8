// Package summaryapi is the protocol of the socket on which the host serves the kubelet's stats
// summary to plugins: path, query and headers, as both sides write and read them. sdk/summary
// explains their meaning.
//
// It contains neither server nor client: see host/internal/node/summary and sdk/summary.
package summaryapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// Path is the path of the only resource.
	Path = "/summary"
	// MaxBytes is the maximum size of a summary. A kubelet with 5000 pods returns 10 MB.
	MaxBytes = 64 << 20
	// MaxTextBytes is the number of bytes of a foreign text that Line keeps.
	MaxTextBytes = 512
)

// The headers of answers with status 200 and 503.
const (
	// HeaderLayout is the layout in force, as eviction.Layout.String returns it. Absent while
	// it is not known.
	HeaderLayout = "X-Evictd-Layout"
	// HeaderImageFsError says why it is not known whether images have a separate filesystem.
	HeaderImageFsError = "X-Evictd-Image-Fs-Error"
	// HeaderContainerFsError says why it is not known whether writable layers have a separate
	// filesystem.
	HeaderContainerFsError = "X-Evictd-Container-Fs-Error"
)

var viewNames = map[eviction.View]string{
	eviction.ViewBefore:       "before",
	eviction.ViewAfterReclaim: "after-reclaim",
}

// ViewName returns the protocol's name for a view, "" if it has none.
func ViewName(v eviction.View) string { return viewNames[v] }

// Query returns the query of a request.
func Query(at eviction.PassView) (string, error) {
	view := ViewName(at.View)
	if view == "" {
		return "", fmt.Errorf("view %d is not in the protocol", at.View)
	}
	return "pass=" + strconv.FormatUint(at.Pass, 10) + "&view=" + view, nil
}

// ParseQuery parses the query of a request. It ignores unknown parameters.
func ParseQuery(query string) (eviction.PassView, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return eviction.PassView{}, errors.New("query is malformed, want pass=N&view=before")
	}
	pass, err := strconv.ParseUint(values.Get("pass"), 10, 64)
	if err != nil {
		return eviction.PassView{}, fmt.Errorf("pass is %.32q, want a number", values.Get("pass"))
	}
	for view, name := range viewNames {
		if name == values.Get("view") {
			return eviction.PassView{Pass: pass, View: view}, nil
		}
	}
	return eviction.PassView{}, fmt.Errorf("view is %.32q, want before or after-reclaim", values.Get("view"))
}

// A Layout describes the node's filesystems as the host knows them.
type Layout struct {
	// InForce is the layout that plugins use; 0 while it is not known.
	InForce eviction.Layout
	// ImageFsErr says why it is not known whether images have a separate filesystem,
	// ContainerFsErr why it is not known whether writable layers have one. Unless both are set,
	// ContainerFsErr comes with the InForce that is used meanwhile.
	ImageFsErr     string
	ContainerFsErr string
}

// Write sets the headers of an answer.
func (l Layout) Write(h http.Header) {
	if l.InForce != 0 {
		h.Set(HeaderLayout, l.InForce.String())
	}
	if text := Line(l.ImageFsErr); text != "" {
		h.Set(HeaderImageFsError, text)
	}
	if text := Line(l.ContainerFsErr); text != "" {
		h.Set(HeaderContainerFsError, text)
	}
}

// ReadLayout parses the headers of an answer.
func ReadLayout(h http.Header) (Layout, error) {
	name := h.Get(HeaderLayout)
	l := Layout{InForce: eviction.LayoutNamed(name), ImageFsErr: Line(h.Get(HeaderImageFsError)), ContainerFsErr: Line(h.Get(HeaderContainerFsError))}
	switch {
	case name != "" && l.InForce == 0:
		return Layout{}, fmt.Errorf("host sent %s %.64q, want %s, %s or %s", HeaderLayout, name, eviction.LayoutShared, eviction.LayoutImageFs, eviction.LayoutContainerFs)
	case name == "" && l.ImageFsErr == "" && l.ContainerFsErr != "":
		return Layout{}, fmt.Errorf("host sent %s without %s", HeaderContainerFsError, HeaderLayout)
	}
	return l, nil
}

// Report returns l as a plugin reports it to the host, nil if l is empty.
func (l Layout) Report() *eviction.LayoutReport {
	if l == (Layout{}) {
		return nil
	}
	return &eviction.LayoutReport{
		ImageFs:     l.InForce == eviction.LayoutImageFs || l.InForce == eviction.LayoutContainerFs,
		ContainerFs: l.InForce == eviction.LayoutContainerFs,
		ImageFsErr:  l.ImageFsErr, ContainerFsErr: l.ContainerFsErr,
	}
}

// Line makes a foreign text fit for an error, a log, a header and the plugin protocol: one line
// of printable UTF-8, of bounded length.
func Line(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
	if len(text) > MaxTextBytes {
		text = strings.ToValidUTF8(text[:MaxTextBytes], "") + "..."
	}
	return text
}
