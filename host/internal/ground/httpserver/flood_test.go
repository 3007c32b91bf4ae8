package httpserver

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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
	const requests = 20
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

// A connection has one request: the bound of connections is that of requests.
func TestPipelinedRequestsGetOneAnswer(t *testing.T) {
	address, _ := start(t, fine)
	c := dial(t, address)
	if _, err := io.WriteString(c, strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 100)); err != nil {
		t.Fatal(err)
	}
	answers, _ := io.ReadAll(c) // reset, with requests that were not read
	if n := strings.Count(string(answers), "HTTP/1.1 200"); n > 1 {
		t.Errorf("%d answers, want 1", n)
	}
}

// floods of peers without a token, or other users of the node, last until stop.
var floods = map[string]func(t *testing.T, stop <-chan struct{}, dial func() net.Conn){
	"1,000 connections": func(_ *testing.T, stop <-chan struct{}, dial func() net.Conn) {
		for range 1000 {
			defer dial().Close()
		}
		<-stop
	},
	"64 that ask again and again": func(_ *testing.T, stop <-chan struct{}, dial func() net.Conn) {
		var asking sync.WaitGroup
		for range 64 {
			asking.Go(func() {
				for !ended(stop) {
					c := dial()
					_ = c.SetDeadline(time.Now().Add(time.Second))
					_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}
			})
		}
		asking.Wait()
	},
	"500 connects a second": func(_ *testing.T, stop <-chan struct{}, dial func() net.Conn) {
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for !ended(stop) {
			<-pace.C
			c := dial()
			time.AfterFunc(time.Second, func() { _ = c.Close() })
		}
	},
	"unread answers, pipelined": func(_ *testing.T, stop <-chan struct{}, dial func() net.Conn) {
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for !ended(stop) {
			<-pace.C
			c := dial()
			time.AfterFunc(2*time.Second, func() { _ = c.Close() })
			_ = c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			_, _ = io.WriteString(c, strings.Repeat("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000))
		}
	},
}

func ended(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return true
	default:
		return false
	}
}

// 64 connections kept all others out, by TLS without a token, too; and 100 connects a second took
// the probe away. The table has what another peer, or on the loopback device another user, waits.
func TestFloodsLeaveOthersTheirAnswers(t *testing.T) {
	page := Repeated(says(strings.Repeat("evictd_passes_total 1\n", 10_000)))
	byAddress := func(conn net.Conn) (string, error) { // 127.0.0.1 and 127.0.0.2 are two machines
		host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		return host, err
	}
	for _, door := range []struct {
		name    string
		o       Options
		peer    peering
		perPeer int
	}{
		{"healthz, another user of the node", Options{Address: "127.0.0.1:0"}, onMachine, 0},
		{"metrics, another machine", files(t, "node-1"), byAddress, mostPerPeer},
	} {
		for name, flood := range floods {
			door.o.TLS, door.o.Log = door.o.CertFile != "", quiet
			e, err := Listen(t.Context(), door.o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = e.serve(ctx, page, door.peer, door.perPeer) })
			stop := make(chan struct{})
			running.Go(func() { flood(t, stop, func() net.Conn { return connect(e.Addr(), "127.0.0.1") }) })
			time.Sleep(300 * time.Millisecond) // the flood begins
			var took []time.Duration
			failed := 0
			for range 12 {
				began := time.Now()
				if !gets(e, "127.0.0.2") {
					failed++
				}
				took = append(took, time.Since(began))
				time.Sleep(20 * time.Millisecond)
			}
			close(stop)
			end()
			running.Wait()
			slices.Sort(took)
			t.Logf("%-34s %-28s median %6.1f ms, longest %6.1f ms, failed %d of %d", door.name, name, took[len(took)/2].Seconds()*1e3, took[len(took)-1].Seconds()*1e3, failed, len(took))
			if failed > 0 || took[len(took)/2] > time.Second {
				t.Errorf("%s, %s: others wait", door.name, name)
			}
		}
	}
}

// connect returns a connection from an address of the loopback device, a closed one if there is none.
func connect(address, from string) net.Conn {
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: maxWait}).Dial("tcp", address)
	if err != nil {
		c, _ = net.Pipe()
		_ = c.Close()
	}
	return c
}

// gets reports whether a client at an address is answered.
func gets(e *Endpoint, from string) bool {
	scheme := "http://"
	if e.tls != nil {
		scheme = "https://"
	}
	client := http.Client{Timeout: maxWait, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		DialContext: func(context.Context, string, string) (net.Conn, error) { return connect(e.Addr(), from), nil },
	}}
	answer, err := client.Get(scheme + e.Addr())
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err == nil && answer.StatusCode == http.StatusOK
}
