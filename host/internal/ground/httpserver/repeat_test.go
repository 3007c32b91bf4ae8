package httpserver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whoever asked for /metrics and /status without a pause had them made each time.
func TestPagesThatAreAskedForWithoutAPauseAreMadeAFewTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		var state atomic.Bool
		var stated time.Time
		page := Repeated(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			made++
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, "%d %v %v %s", made, r.Header, r.URL, map[bool]string{false: "first", true: "later"}[state.Load()])
		}))
		ask := func() *httptest.ResponseRecorder {
			r, w := httptest.NewRequestWithContext(t.Context(), "GET", "/status?a=b", nil), httptest.NewRecorder()
			r.Header.Set("Accept-Encoding", "gzip") // which others may not understand
			page.ServeHTTP(w, r)
			return w
		}
		var asking sync.WaitGroup
		end := time.Now().Add(10 * time.Second)
		for range 64 {
			asking.Go(func() {
				for time.Now().Before(end) {
					before := state.Load() && time.Since(stated) > repeatedFor
					if got := ask().Body.String(); !strings.HasSuffix(got, " later") && before {
						t.Errorf("an answer is older than %v: %s", repeatedFor, got)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(3210 * time.Millisecond)
		stated = time.Now()
		state.Store(true)
		asking.Wait()
		if most := int(10*time.Second/repeatedFor) + 1; made > most || made < most-2 {
			t.Errorf("made %d times in ten seconds, want %d at most", made, most)
		}
		time.Sleep(time.Second)
		got := ask()
		if want := fmt.Sprintf("%d map[] /status later", made); got.Body.String() != want || got.Code != http.StatusServiceUnavailable || got.Header().Get("Content-Type") != "text/plain" {
			t.Errorf("%d %v %q, want %q as it was made", got.Code, got.Header(), got.Body, want)
		}
	})
}
