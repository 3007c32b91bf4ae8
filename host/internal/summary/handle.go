package summary

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/evictd/evictd/shared/summaryapi"
)

// handle answers one request. Statuses other than 200 and 503 say that it is not
// the summary that is at fault.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// The server would read a body to its end, however slowly it comes.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		http.Error(w, "want a request without a body", http.StatusBadRequest)
		return
	}
	switch {
	case r.URL.Path != summaryapi.Path:
		http.Error(w, "want "+summaryapi.Path, http.StatusNotFound)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
		return
	}
	at, err := summaryapi.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	summary, err := s.answers.get(r.Context(), at)
	// The time that the fetch took is not the client's.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	switch {
	case errors.Is(err, errNotRun):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errClosed), err != nil && r.Context().Err() != nil: // the host or the client goes
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case err != nil:
		s.layout.Load().Write(w.Header())
		http.Error(w, summaryapi.Line(err.Error()), http.StatusServiceUnavailable)
	default:
		s.layout.Load().Write(w.Header())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(summary)))
		_, _ = w.Write(summary) // the client's loss
	}
}
