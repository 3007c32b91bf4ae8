package crossings_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/evictd"
)

func holdConnections(t *testing.T, address string) (letGo func()) {
	t.Helper()
	var held []net.Conn
	for range 1000 {
		held = append(held, dial(t, address))
	}
	return func() { closeAll(held) }
}

// stallScrapers asks for more than sockets keep, and reads nothing.
func stallScrapers(t *testing.T, address string) (hangUp func()) {
	t.Helper()
	var stalled []net.Conn
	for range 8 {
		c := dial(t, address)
		stalled = append(stalled, c)
		must(t, c.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		_, _ = io.WriteString(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 1000)) // as many as fit
	}
	return func() { closeAll(stalled) }
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		c.Close()
	}
}

// comeAndGo takes the directory away and puts it back, over and over, until it is
// to stay.
func comeAndGo(t *testing.T, dir string) (stay func()) {
	t.Helper()
	end := make(chan struct{})
	var over sync.WaitGroup
	over.Go(func() {
		pause := time.NewTicker(100 * time.Millisecond)
		defer pause.Stop()
		for {
			for _, way := range [][2]string{{dir, dir + ".away"}, {dir + ".away", dir}} {
				if err := os.Rename(way[0], way[1]); err != nil {
					t.Error(err)
					return
				}
				<-pause.C
			}
			select {
			case <-end:
				return
			default:
			}
		}
	})
	stay = sync.OnceFunc(func() { close(end); over.Wait() })
	t.Cleanup(stay)
	return stay
}

// A stall holds up a reader of a log after each line.
type stall struct{ mu sync.Mutex }

func (s *stall) read(evictd.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
}

// begin has the reader stop, and the pipe full, until the log is to flow again.
func (s *stall) begin(t *testing.T, p *evictd.Process) (flow func()) {
	t.Helper()
	s.mu.Lock()
	pipe, err := unix.Open(fmt.Sprintf("/proc/%d/fd/2", p.PID()), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(pipe)
	// A line for the reader to stop at, and empty ones, which it leaves out.
	for text := "stalled\n"; err == nil; text = strings.Repeat("\n", unix.Getpagesize()) {
		_, err = unix.Write(pipe, []byte(text))
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	return s.mu.Unlock
}

// eventually polls until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	every := time.NewTicker(time.Millisecond)
	defer every.Stop()
	for end := time.Now().Add(20 * time.Second); !so(); <-every.C {
		if time.Now().After(end) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}
