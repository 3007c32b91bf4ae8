package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// One process on the node connected as fast as it could, and a tenth of what others there asked was
// answered by a reset: who had just connected went first.
func TestRapidConnectsOfAnotherLocalClientResetNoRequest(t *testing.T) {
	address, _ := start(t, fine)
	stop := make(chan struct{})
	full := make(chan struct{}, 2)
	var flood sync.WaitGroup
	for range 2 {
		flood.Go(func() {
			var held [2 * mostConnections]net.Conn
			for i := 0; ; i = (i + 1) % len(held) {
				select {
				case <-stop:
					for _, c := range held {
						if c != nil {
							_ = c.Close()
						}
					}
					return
				default:
				}
				if c, ok := held[i].(*net.TCPConn); ok {
					_ = c.SetLinger(0) // so that its port is free again
					_ = c.Close()
				}
				if held[i], _ = net.Dial("tcp", address); i == mostConnections {
					select {
					case full <- struct{}{}:
					default:
					}
				}
			}
		})
	}
	for range 2 {
		<-full
	}
	const requests = 60
	failed := map[string]int{}
	for range requests {
		if err := once(address); err != nil {
			failed[err.Error()]++
		}
	}
	close(stop)
	flood.Wait()
	if len(failed) > 0 {
		t.Errorf("of %d requests failed %v", requests, failed)
	}
}

func once(address string) error {
	c, err := net.DialTimeout("tcp", address, maxWait)
	if err != nil {
		return errors.New("connect")
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(maxWait))
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return errors.New("write")
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return errors.New("read")
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.HasSuffix(string(body), "fine") {
		return errors.New("answer")
	}
	return nil
}

// Requests as fast as a process can send them cost most of a core.
func TestRequestsAreAnsweredAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered := 0
		h := paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { answered++ }), rate.NewLimiter(requestsPerSecond, mostConnections))
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
		}
		if most := mostConnections + 10*requestsPerSecond; answered > most || answered < mostConnections+10 {
			t.Errorf("%d requests were answered in ten seconds, want %d at most", answered, most)
		}
	})
}
