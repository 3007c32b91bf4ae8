package httpserver

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"sync"

	"golang.org/x/time/rate"
)

// A page is made pagesPerSecond times a second at most.
const pagesPerSecond = 5

type repeater struct {
	next http.Handler
	pace *rate.Limiter

	mu   sync.Mutex
	last *answer
}

// Repeated returns a handler that has next make an answer pagesPerSecond times a second at most, and
// else repeats the last one. Whatever is asked is one page, in no other form than plain text.
func Repeated(next http.Handler) http.Handler {
	return &repeater{next: next, pace: rate.NewLimiter(pagesPerSecond, pagesPerSecond)}
}

// ServeHTTP implements http.Handler.
func (p *repeater) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	last := p.answer(r)
	maps.Copy(w.Header(), last.header)
	w.WriteHeader(last.code)
	_, _ = w.Write(last.Bytes()) // else the client is gone
}

func (p *repeater) answer(r *http.Request) *answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pace.Allow() || p.last == nil {
		one := r.Clone(context.WithoutCancel(r.Context()))
		one.Header, one.URL = http.Header{}, &url.URL{Path: r.URL.Path}
		made := &answer{header: http.Header{}, code: http.StatusOK}
		p.next.ServeHTTP(made, one)
		p.last = made
	}
	return p.last
}

// An answer is one that is kept.
type answer struct {
	bytes.Buffer

	header http.Header
	code   int
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }
