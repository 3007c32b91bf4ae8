package summary

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	viewBefore       = "before"
	viewAfterReclaim = "after-reclaim"
)

// viewName is how the protocol calls a view.
func viewName(v eviction.View) string {
	switch v {
	case eviction.ViewBefore:
		return viewBefore
	case eviction.ViewAfterReclaim:
		return viewAfterReclaim
	default:
		return strconv.Itoa(int(v))
	}
}

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
	case r.URL.Path != "/summary":
		http.Error(w, "want /summary", http.StatusNotFound)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
		return
	}
	at, err := parsePassView(r.URL.RawQuery)
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
		s.layout.Load().write(w.Header())
		http.Error(w, line(err.Error()), http.StatusServiceUnavailable)
	default:
		s.layout.Load().write(w.Header())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(summary)))
		_, _ = w.Write(summary) // the client's loss
	}
}

// parsePassView reads the query of a request. What it does not know it ignores.
func parsePassView(query string) (eviction.PassView, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return eviction.PassView{}, errors.New("query is malformed, want pass=N&view=" + viewBefore)
	}
	pass, err := strconv.ParseUint(values.Get("pass"), 10, 64)
	if err != nil {
		return eviction.PassView{}, fmt.Errorf("pass is %.32q, want a number", values.Get("pass"))
	}
	switch view := values.Get("view"); view {
	case viewBefore:
		return eviction.PassView{Pass: pass, View: eviction.ViewBefore}, nil
	case viewAfterReclaim:
		return eviction.PassView{Pass: pass, View: eviction.ViewAfterReclaim}, nil
	default:
		return eviction.PassView{}, fmt.Errorf("view is %.32q, want %s or %s", view, viewBefore, viewAfterReclaim)
	}
}
