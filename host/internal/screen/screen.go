// Package screen shows one text after the other: on a terminal in place of the former, else
// below it.
package screen

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// Show writes what look returns to out, each interval anew, until ctx ends or it has done so
// a number of times (0: any). An error of look ends it, but on a terminal, where it is shown:
// what is looked at may come back.
func Show(ctx context.Context, out io.Writer, interval time.Duration, times int, look func() ([]byte, error)) error {
	t := terminal(out)
	if t != nil {
		_, _ = io.WriteString(t, "\x1b[?1049h\x1b[?25l") // the other screen, without a cursor
		defer func() { _, _ = io.WriteString(t, "\x1b[?25h\x1b[?1049l") }()
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		text, err := look()
		switch {
		case ctx.Err() != nil:
			return nil // told to end
		case err != nil && t == nil:
			return err
		case err != nil:
			text = []byte(err.Error())
		}
		if t != nil {
			text = fit(t, text)
		}
		if _, err := out.Write(text); err != nil || n == times {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// terminal is out if it is one, else nil.
func terminal(out io.Writer) *os.File {
	f, ok := out.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return f
}

// fit makes a text the whole of what a terminal shows.
func fit(t *os.File, text []byte) []byte {
	rows, columns := 24, 80
	if size, err := unix.IoctlGetWinsize(int(t.Fd()), unix.TIOCGWINSZ); err == nil && size.Row > 0 && size.Col > 0 {
		rows, columns = int(size.Row), int(size.Col)
	}
	var b bytes.Buffer
	b.WriteString("\x1b[H")
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, line := range lines[:min(len(lines), rows)] {
		line := []rune(strings.Map(printable, line))
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(string(line[:min(len(line), columns)]) + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	return b.Bytes()
}

// printable keeps what others say of themselves from steering the terminal.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return ' '
}
