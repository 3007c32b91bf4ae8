//go:build man

package main

import (
	"log"
	"os"

	"github.com/evictd/evictd/host/internal/face/command/manual"
)

// main writes the manual pages and completions into a directory, for packages.
func main() {
	if err := manual.Write(newRoot(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
