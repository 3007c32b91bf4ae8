// Package page serves what evictd knows of a node as pages for a browser on the same machine: the state of now
// and the order of pods from a running evictd, and its records.
//
// Pages are complete without JavaScript; page.js keeps them current. The package decides nothing and keeps
// nothing: package tell writes the pages.
package page

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // the script
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/host/internal/why/tell/nodeview"
	"github.com/evictd/evictd/shared/eviction"
)

//go:embed page.js
var script string

// policy lets a page load nothing but its own style sheet and script, and be framed by no other.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"

// errNoEvictd is why there is no state of now.
var errNoEvictd = errors.New("no running evictd is asked, as with --records: run evictd page on the node")

// Options configures a Site.
type Options struct {
	// Records is the directory of the records, empty if there are none.
	Records string
	// Status and Ranking ask the running evictd. They are nil without one.
	Status  func(ctx context.Context) (*nodeview.View, error)
	Ranking func(ctx context.Context, s eviction.Signal) (*decision.Decision, error)
	// Other returns a ranking in the order of another ranker, nil for none.
	Other func(ctx context.Context, ranking *decision.Decision) (*decision.Decision, error)
}

// A Site answers requests for pages. It is safe for concurrent use.
type Site struct {
	Options
	// host is the address that browsers use. root is the path of all pages, which cannot be guessed: it keeps
	// other users of the machine out.
	host, root string
	rankings   rankings
	others     rankings
}

// New returns the site for a server at an address of the loopback device.
func New(address string, o Options) *Site {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	return &Site{Options: o, host: address, root: "/" + hex.EncodeToString(secret[:]) + "/", rankings: newRankings(), others: newRankings()}
}

// URL returns the address of the first page.
func (s *Site) URL() string { return "http://" + s.host + s.root }

// ServeHTTP implements http.Handler. A request must name the server by its address: a page of another site, whose
// name was made to lead here, gets nothing.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
		"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	_, port, _ := net.SplitHostPort(s.host)
	switch below, found := strings.CutPrefix(r.URL.Path, "/"); {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
	case r.Host != s.host && r.Host != "localhost:"+port:
		http.Error(w, "want the address that evictd page has printed", http.StatusMisdirectedRequest)
	case !found || len(below) < len(s.root)-1 || subtle.ConstantTimeCompare([]byte(below[:len(s.root)-1]), []byte(s.root[1:])) != 1:
		http.NotFound(w, r)
	default:
		s.serve(w, r, below[len(s.root)-1:])
	}
}

func (s *Site) serve(w http.ResponseWriter, r *http.Request, path string) {
	kind, text := "text/html; charset=utf-8", []byte(nil)
	switch write, isView := views[path]; {
	case path == "style.css":
		kind, text = "text/css; charset=utf-8", []byte(tell.Style())
	case path == "page.js":
		kind, text = "text/javascript; charset=utf-8", []byte(script)
	case isView:
		text = write(s, r)
	default:
		http.NotFound(w, r)
		return
	}
	if path == filePath {
		w.Header().Set("Content-Disposition", `attachment; filename="why.html"`)
	}
	sum := sha256.Sum256(text)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	w.Header().Set("Content-Type", kind)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
}
