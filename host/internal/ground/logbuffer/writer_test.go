package logbuffer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// disk has so much room, and then none.
type disk struct {
	mu   sync.Mutex
	got  bytes.Buffer
	room int
	err  error
}

func (d *disk) Write(b []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(b), d.room)
	d.room -= n
	d.got.Write(b[:n])
	if n < len(b) {
		return n, d.err
	}
	return n, nil
}

func (d *disk) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.got.String()
}

func (d *disk) setRoom(bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = bytes
}

func write(t *testing.T, w *Writer, line string) {
	t.Helper()
	if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
		t.Errorf("%q: %d, %v, want it taken", line, n, err)
	}
}

// The line before the kill waited for a reader that did not come, and so did the
// kill, and SIGTERM.
func TestAStalledReaderDelaysNoWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, pipe := io.Pipe() // whose writes wait for reads
		w := New(pipe)
		begin := time.Now()
		const lines = 4000
		line := strings.Repeat("x", 1023) + "\n"
		for range lines {
			write(t, w, line)
		}
		if err := w.Close(); err == nil {
			t.Error("Close says that all was written")
		}
		if took := time.Since(begin); took > closeTimeout {
			t.Errorf("took %v, want no more than the end may wait: %v", took, closeTimeout)
		}
		if got, want := w.Dropped(), uint64(lines-maxKept/len(line)); got != want {
			t.Errorf("%d lines were dropped, want %d", got, want)
		}
		read := make(chan string)
		go func() {
			all, _ := io.ReadAll(r)
			read <- string(all)
		}()
		synctest.Wait()
		pipe.Close()
		if got := <-read; strings.Count(got, "\n") != maxKept/len(line)+1 || !strings.HasSuffix(got, fmt.Sprintf(`"lines":%d}`+"\n", w.Dropped())) {
			t.Errorf("the reader that came back got %d lines, the last %q, want all that were kept and how many were not", strings.Count(got, "\n"), got[max(0, len(got)-150):])
		}
	})
}

// A reader that comes back gets what was kept, how much was not, and what comes
// after.
func TestTheLogFlowsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: unix.EAGAIN}
		w := New(d)
		for i := range 3 * maxKept / 16 {
			write(t, w, fmt.Sprintf("line %10d\n", i))
		}
		synctest.Wait() // else it may write before the next line comes
		d.setRoom(1 << 30)
		write(t, w, "one that is lost too\n")
		synctest.Wait()
		write(t, w, "again\n")
		synctest.Wait()
		if got := d.String(); !strings.HasPrefix(got, "line          0\n") || !strings.HasSuffix(got, "}\nagain\n") || strings.Count(got, "were lost") != 1 {
			t.Errorf("the log ends with %q", got[max(0, len(got)-200):])
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheLogOutlivesAFullDisk(t *testing.T) {
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EPIPE, errors.New("another one")} {
		synctest.Test(t, func(t *testing.T) {
			d := &disk{room: 20, err: full}
			w := New(d)
			var want strings.Builder
			say := func(i int) {
				line := fmt.Sprintf("this is line %d\n", i)
				write(t, w, line)
				want.WriteString(line)
				synctest.Wait()
			}
			for i := range 10 {
				say(i)
			}
			d.setRoom(30) // not enough for all that was kept
			say(10)
			d.setRoom(1 << 20)
			say(11)
			if got := d.String(); got != want.String() {
				t.Errorf("%v: the log is\n%s\nwant all lines, whole and in order", full, got)
			}
			if err := w.Close(); err != nil || w.Dropped() != 0 {
				t.Errorf("%v, %d lines dropped, want none", err, w.Dropped())
			}
		})
	}
}

// On a quiet node the next line may be hours away, and the line that waits may be
// an eviction's.
func TestKeptLinesAreWrittenWithoutANextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{err: unix.ENOSPC}
		w := New(d)
		pass := func() {
			time.Sleep(retryAfter)
			synctest.Wait()
		}
		write(t, w, "evicted\n")
		pass()
		d.setRoom(3) // for some of it
		pass()
		d.setRoom(1 << 20)
		pass()
		if got := d.String(); got != "evicted\n" {
			t.Errorf("the log is %q once there is room, want the line", got)
		}
		d.setRoom(0)
		write(t, w, "ended\n")
		synctest.Wait()
		d.setRoom(1 << 20)
		if err := w.Close(); err != nil || d.String() != "evicted\nended\n" {
			t.Errorf("the log is %q, %v after its end, want both lines", d.String(), err)
		}
	})
}

func TestTheLogEndsWithAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if anything goes on
		w := New(&disk{err: unix.ENOSPC})
		write(t, w, "line\n")
		if err := errors.Join(w.Close(), w.Close()); err == nil {
			t.Error("Close says that all was written")
		}
	})
}
