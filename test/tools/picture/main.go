// Command picture draws the output of `make demo`, from the start of the hog on, as an SVG for the
// README:
//
//	make demo | go run ./test/tools/picture >docs/demo.svg
package main

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

const (
	columns      = 112
	columnPixels = 8
	linePixels   = 18
	// textColumn is where the text of an event begins.
	textColumn = 22
	// sameSignals is the number of consecutive signal lines of which only one is shown.
	sameSignals = 5
)

func main() {
	if err := draw(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

// colours are by the second column, which names the kind of a line.
var colours = map[string]string{"stage": "#8b949e", "signal": "#79c0ff", "evictd": "#e6edf3", "pod": "#7ee787", "status": "#d2a8ff"}

var shown = regexp.MustCompile(`^ *[0-9.]+ s +(stage|signal|evictd|pod|status) `)

func draw(r io.Reader, w io.Writer) error {
	all, err := lines(r)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("no line says that the hog may start, want what make demo prints")
	}
	out := bufio.NewWriter(w)
	width, height := columns*columnPixels+32, len(all)*linePixels+32
	_, _ = fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="13">`+"\n", width, height)
	_, _ = fmt.Fprintf(out, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	colour := ""
	for i, line := range all {
		if m := shown.FindStringSubmatch(line); m != nil {
			colour = colours[m[1]]
		}
		if strings.Contains(line, "CROSSED") || strings.Contains(line, "evicting pod") {
			colour = "#ff7b72"
		}
		_, _ = fmt.Fprintf(out, `<text x="16" y="%d" fill="%s" xml:space="preserve">`, (i+1)*linePixels+8, colour)
		_ = xml.EscapeText(out, []byte(line))
		_, _ = out.WriteString("</text>\n")
	}
	_, _ = out.WriteString("</svg>\n")
	return out.Flush()
}

// lines returns the lines to draw: all except most signal lines between two events.
func lines(r io.Reader) (all []string, err error) {
	began, signals := false, 0
	text := bufio.NewScanner(r)
	for text.Scan() {
		line := text.Text()
		began = began || strings.Contains(line, "the hog may start")
		m := shown.FindStringSubmatch(line)
		goesOn := m != nil && m[1] == "signal" && !strings.Contains(line, "CROSSED")
		if !goesOn {
			signals = 0
		} else {
			signals++
		}
		switch {
		case !began, m == nil && !strings.HasPrefix(line, "   "), goesOn && signals%sameSignals != 1:
			continue
		case strings.Contains(line, "stopping evictd"):
			return all, text.Err()
		}
		all = append(all, wrapped(line)...)
	}
	return all, text.Err()
}

// wrapped breaks a line at spaces, with the rest below its text.
func wrapped(line string) (all []string) {
	text := strings.TrimLeft(line, " ")
	indent := strings.Repeat(" ", len(line)-len(text)+2)
	if shown.MatchString(line) {
		indent = strings.Repeat(" ", textColumn)
	}
	for len(line) > columns {
		at := strings.LastIndexByte(line[:columns], ' ')
		if at <= len(indent) {
			at = columns
		}
		all = append(all, line[:at])
		line = indent + strings.TrimLeft(line[at:], " ")
	}
	return append(all, line)
}
