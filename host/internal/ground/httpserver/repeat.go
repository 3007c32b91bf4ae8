package httpserver

import (
	"bytes"
	"context"
	"maps"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"
)

// pagesPerSecond bounds how often a page is generated.
const pagesPerSecond = 5

type repeater struct {
	next http.Handler
	pace *rate.Limiter

	turn chan struct{} // of the request that has an answer made, and has last
	last *answer
}

// Repeated returns a handler that calls next at most pagesPerSecond times a second. All requests
// that wait get the next response, so that none is older than its request. All requests get the
// same page in plain text.
func Repeated(next http.Handler) http.Handler {
	return &repeater{next: next, pace: rate.NewLimiter(pagesPerSecond, pagesPerSecond), turn: make(chan struct{}, 1)}
}

// ServeHTTP implements http.Handler.
func (p *repeater) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := p.answer(r)
	if answer == nil { // the client is gone
		return
	}
	maps.Copy(w.Header(), answer.header)
	w.WriteHeader(answer.code)
	_, _ = w.Write(answer.Bytes()) // else the client is gone
}

func (p *repeater) answer(r *http.Request) *answer {
	asked := time.Now()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-r.Context().Done():
		return nil
	}
	if p.last != nil && p.last.begun.After(asked) {
		return p.last
	}
	if p.pace.Wait(r.Context()) != nil {
		return nil
	}
	one := r.Clone(context.WithoutCancel(r.Context()))
	one.Header, one.URL = http.Header{}, &url.URL{Path: r.URL.Path}
	made := &answer{begun: time.Now(), header: http.Header{}, code: http.StatusOK}
	p.next.ServeHTTP(made, one)
	p.last = made
	return made
}

// An answer is a recorded response.
type answer struct {
	bytes.Buffer

	begun  time.Time
	header http.Header
	code   int
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) { a.code = code }
