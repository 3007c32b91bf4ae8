package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// disk has so much room, and then none.
type disk struct {
	bytes.Buffer
	room int
	err  error
}

func (d *disk) Write(b []byte) (int, error) {
	n := min(len(b), d.room)
	d.room -= n
	d.Buffer.Write(b[:n])
	if n < len(b) {
		return n, d.err
	}
	return n, nil
}

func TestTheLogOutlivesAFullDisk(t *testing.T) {
	d := &disk{room: 20, err: unix.ENOSPC}
	p := &patient{to: d}
	var want strings.Builder
	say := func(i int) {
		t.Helper()
		line := fmt.Sprintf("this is line %d\n", i)
		if n, err := p.Write([]byte(line)); n != len(line) || err != nil {
			t.Errorf("line %d: %d, %v, want it taken", i, n, err)
		}
		want.WriteString(line)
	}
	for i := range 10 {
		say(i)
	}
	d.room = 30 // not enough for all that was kept
	say(10)
	d.room = 1 << 20
	say(11)
	if got := d.String(); got != want.String() {
		t.Errorf("the log is\n%s\nwant all lines, whole and in order", got)
	}
}

func TestAFullDiskDoesNotFillTheMemory(t *testing.T) {
	d := &disk{err: unix.EDQUOT}
	p := &patient{to: d}
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 2 * maxKept / len(line) {
		if _, err := p.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.kept) > maxKept {
		t.Errorf("%d bytes are kept, want at most %d", len(p.kept), maxKept)
	}
	d.room = 1 << 30
	_, _ = p.Write([]byte("last\n"))
	if got := d.String(); !strings.HasSuffix(got, `"lines":1024}`+"\nlast\n") {
		t.Errorf("the log ends with %q, want the number of lost lines and the last one", got[max(0, len(got)-200):])
	}
}

func TestOtherErrorsOfTheLogAreNotKept(t *testing.T) {
	broken := errors.New("broken pipe")
	p := &patient{to: &disk{err: broken}}
	if _, err := p.Write([]byte("line\n")); !errors.Is(err, broken) || len(p.kept) > 0 {
		t.Errorf("error %v with %d bytes kept, want the error and nothing kept", err, len(p.kept))
	}
}

// On a quiet node the next line may be hours away, and the line that waits may be
// an eviction's.
func TestKeptLinesAreWrittenWithoutANextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: unix.ENOSPC}
		p := &patient{to: d}
		write := func(line string) {
			t.Helper()
			if _, err := p.Write([]byte(line)); err != nil {
				t.Fatal(err)
			}
		}
		setRoom := func(bytes int) {
			p.mu.Lock()
			defer p.mu.Unlock()
			d.room = bytes
		}
		pass := func() {
			time.Sleep(retryAfter)
			synctest.Wait()
		}
		write("evicted\n")
		pass()
		setRoom(3) // for some of it
		pass()
		setRoom(1 << 20)
		pass()
		if got := d.String(); got != "evicted\n" {
			t.Errorf("the log is %q once there is room, want the line", got)
		}
		setRoom(0)
		write("ended\n")
		setRoom(1 << 20)
		if err := p.Close(); err != nil || d.String() != "evicted\nended\n" {
			t.Errorf("the log is %q, %v after its end, want both lines", d.String(), err)
		}
	})
}

func TestTheLogEndsWithAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if a timer goes on
		p := &patient{to: &disk{err: unix.ENOSPC}}
		_, _ = p.Write([]byte("line\n"))
		if err := p.Close(); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("error %v, want ENOSPC", err)
		}
	})
}
