package main

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/ground/printable"
)

// sayOnce returns a program.Say that skips repeated lines. It is safe for concurrent use.
func sayOnce(stderr io.Writer) func(line string) {
	var mu sync.Mutex
	said := map[string]bool{}
	return func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[line] {
			said[line] = true
			program.Say(stderr, line)
		}
	}
}

func printJSON(w io.Writer, document any) error {
	out := json.NewEncoder(printable.EscapeJSON(w))
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return command.Failed(out.Encode(document))
}

func printJSONLines[T any](w io.Writer, documents ...T) error {
	out := json.NewEncoder(printable.EscapeJSON(w))
	out.SetEscapeHTML(false)
	var err error
	for i := 0; i < len(documents) && err == nil; i++ {
		err = out.Encode(documents[i])
	}
	return command.Failed(err)
}
