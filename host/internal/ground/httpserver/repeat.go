package httpserver

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// repeatedFor is the time for which a page is repeated.
const repeatedFor = 200 * time.Millisecond

type repeater struct {
	next http.Handler

	mu   sync.Mutex
	last *answer
}

// Repeated returns a handler that calls next at most each repeatedFor. All requests get the same page
// in plain text.
func Repeated(next http.Handler) http.Handler { return &repeater{next: next} }

// ServeHTTP implements http.Handler.
func (p *repeater) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := p.answer(r)
	maps.Copy(w.Header(), answer.header)
	w.WriteHeader(answer.code)
	_, _ = w.Write(answer.Bytes()) // else the client is gone
}

func (p *repeater) answer(r *http.Request) *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last != nil && time.Since(p.last.made) < repeatedFor {
		return p.last
	}
	one := r.Clone(context.WithoutCancel(r.Context()))
	one.Header, one.URL = http.Header{}, &url.URL{Path: r.URL.Path}
	made := &answer{header: http.Header{}, code: http.StatusOK}
	p.next.ServeHTTP(made, one)
	made.made, p.last = time.Now(), made
	return made
}

// An answer is a recorded response.
type answer struct {
	bytes.Buffer

	made   time.Time
	header http.Header
	code   int
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }
