package httpserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever asked for /metrics and /status without a pause had them made each time.
func TestPagesThatAreAskedForWithoutAPauseAreMadeAFewTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		page := Repeated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			made++
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "%d %v %v", made, r.Header, r.URL)
		}))
		ask := func() *httptest.ResponseRecorder {
			r, w := httptest.NewRequestWithContext(t.Context(), "GET", "/status?a=b", nil), httptest.NewRecorder()
			r.Header.Set("Accept-Encoding", "gzip") // which others may not understand
			page.ServeHTTP(w, r)
			return w
		}
		for range 10_000 {
			ask()
			time.Sleep(time.Millisecond)
		}
		if most := 11 * pagesPerSecond; made > most || made < most-pagesPerSecond {
			t.Errorf("made %d times in ten seconds, want %d at most", made, most)
		}
		time.Sleep(time.Second)
		got := ask()
		if want := fmt.Sprintf("%d map[] /status", made); got.Body.String() != want || got.Code != http.StatusServiceUnavailable || got.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%d %v %q, want %q as it was made", got.Code, got.Header(), got.Body, want)
		}
	})
}
