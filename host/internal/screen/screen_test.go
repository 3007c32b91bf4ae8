package screen

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newTerminal is a terminal of so many rows and columns, and what is shown on it.
func newTerminal(t *testing.T, rows, columns uint16) (on, shown *os.File) {
	t.Helper()
	shown, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("SKIPPED, NOTHING TESTED: no terminal to be had: %v", err)
	}
	t.Cleanup(func() { _ = shown.Close() })
	fd := int(shown.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err := errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0), unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})); err != nil {
		t.Fatal(err)
	}
	if on, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = on.Close() })
	return on, shown
}

// A terminal gets no more than fits on it, and is left as it was.
func TestATerminalIsRedrawn(t *testing.T) {
	on, shown := newTerminal(t, 3, 10)
	looks := 0
	err := Show(t.Context(), on, time.Millisecond, 2, func() ([]byte, error) {
		if looks++; looks == 1 {
			return nil, errors.New("away")
		}
		return []byte("first\x1b[31m line is long\nsecond\nthird\nfourth\n"), nil
	})
	if err != nil || looks != 2 {
		t.Errorf("%v after %d looks", err, looks)
	}
	want := "\x1b[?1049h\x1b[?25l" + "\x1b[Haway\x1b[K\x1b[J" + "\x1b[Hfirst [31m\x1b[K\r\nsecond\x1b[K\r\nthird\x1b[K\x1b[J" + "\x1b[?25h\x1b[?1049l"
	for got := ""; got != want; { // else it ends with the test's time
		part := make([]byte, 1<<10)
		n, err := shown.Read(part)
		if got += strings.ReplaceAll(string(part[:n]), "\r\r", "\r"); err != nil || !strings.HasPrefix(want, got) {
			t.Fatalf("shown %q, %v\nwant  %q", got, err, want)
		}
	}
}

func TestWithoutATerminalAnErrorEndsIt(t *testing.T) {
	var out bytes.Buffer
	err := Show(t.Context(), &out, time.Millisecond, 2, func() ([]byte, error) { return nil, errors.New("away") })
	if err == nil || out.Len() > 0 {
		t.Errorf("%v, and %q is shown", err, &out)
	}
}
