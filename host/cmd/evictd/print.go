package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/evictd/evictd/host/internal/ground/printable"
)

// say writes lines to standard error, ignoring errors: there is no place left to report them.
func say(stderr io.Writer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			_, _ = fmt.Fprintf(stderr, "evictd: %s\n", printable.Text(line))
		}
	}
}

// sayOnce returns a say that skips repeated lines. It is safe for concurrent use.
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

func failed(err error) error {
	if err != nil {
		return failure{err}
	}
	return nil
}

// written converts an error of writing to standard output to a failure.
func written(_ int, err error) error { return failed(err) }

func printJSON(w io.Writer, document any) error {
	out := json.NewEncoder(printable.EscapeJSON(w))
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return failed(out.Encode(document))
}

func printJSONLines[T any](w io.Writer, documents ...T) error {
	out := json.NewEncoder(printable.EscapeJSON(w))
	out.SetEscapeHTML(false)
	var err error
	for i := 0; i < len(documents) && err == nil; i++ {
		err = out.Encode(documents[i])
	}
	return failed(err)
}
