// Package summaryapi is the protocol of the socket on which the host gives the
// plugins the kubelet's stats summary: path, query and headers, as both sides write
// and read them. sdk/summary says what they mean.
//
// It neither serves nor asks: that is host/internal/summary and sdk/summary.
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
	// Path of the one resource.
	Path = "/summary"
	// MaxBytes is the largest summary. A kubelet with 5000 pods has 10 MB.
	MaxBytes = 64 << 20
	// MaxTextBytes bounds the part of a foreign text that Line keeps.
	MaxTextBytes = 512
)

// The headers of answers with status 200 and 503.
const (
	// HeaderLayout is the layout in force, as eviction.Layout names it. Absent while
	// it is not known.
	HeaderLayout = "X-Evictd-Layout"
	// HeaderImageFsError says why it is not known whether images have a filesystem
	// of their own.
	HeaderImageFsError = "X-Evictd-Image-Fs-Error"
	// HeaderContainerFsError says why it is not known whether writable layers have a
	// filesystem of their own.
	HeaderContainerFsError = "X-Evictd-Container-Fs-Error"
)

var viewNames = map[eviction.View]string{
	eviction.ViewBefore:       "before",
	eviction.ViewAfterReclaim: "after-reclaim",
}

// ViewName returns how the protocol calls a view, "" for one that it does not have.
func ViewName(v eviction.View) string { return viewNames[v] }

// Query is the query of a request.
func Query(at eviction.PassView) (string, error) {
	view := ViewName(at.View)
	if view == "" {
		return "", fmt.Errorf("view %d is not in the protocol", at.View)
	}
	return "pass=" + strconv.FormatUint(at.Pass, 10) + "&view=" + view, nil
}

// ParseQuery reads the query of a request. What it does not know it ignores.
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
	// ImageFsErr says why it is not known whether images have a filesystem of their
	// own, ContainerFsErr why it is not known whether writable layers do; the latter
	// comes with an InForce that is used meanwhile, unless ImageFsErr is there too.
	ImageFsErr     string
	ContainerFsErr string
}

// Write puts l into the headers of an answer.
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

// ReadLayout returns what the headers of an answer say.
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

// Report is l as a plugin tells it to the host, nil if nothing is said at all.
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

// Line makes a foreign text fit for an error, a log, a header and the plugin
// protocol.
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
