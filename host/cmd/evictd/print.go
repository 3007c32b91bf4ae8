package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/evictd/evictd/host/internal/input"
)

// say writes lines for the caller of evictd. Where standard error is gone
// there is no place left to report it.
func say(stderr io.Writer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			_, _ = fmt.Fprintf(stderr, "evictd: %s\n", input.Printable(line))
		}
	}
}

// sayOnce returns say without what was said before. It may be called concurrently.
func sayOnce(stderr io.Writer) func(line string) {
	var mu sync.Mutex
	said := map[string]bool{}
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[line] {
			said[line] = true
			say(stderr, line)
		}
	}
}

// written makes a failure of what could not be written to standard output.
func written(_ int, err error) error {
	if err != nil {
		return failure{err}
	}
	return nil
}

// printJSON prints a document for people and programs.
func printJSON(w io.Writer, document any) error {
	out := json.NewEncoder(input.EscapeJSON(w))
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return written(0, out.Encode(document))
}

// printJSONLines prints documents, each in a line.
func printJSONLines[T any](w io.Writer, documents ...T) error {
	out := json.NewEncoder(input.EscapeJSON(w))
	out.SetEscapeHTML(false)
	for _, d := range documents {
		if err := out.Encode(d); err != nil {
			return failure{err}
		}
	}
	return nil
}
