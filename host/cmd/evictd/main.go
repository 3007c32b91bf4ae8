// Command evictd is the host daemon: it reads flags and configuration, sets up
// log and signals, and runs the eviction manager of package host.
//
// It decides nothing about pods and starts no plugin itself.
package main

import (
	"context"
	"os"
)

// Set by the linker: -X main.version=... -X main.commit=...
var (
	version string
	commit  string
)

func main() {
	fillBuild()
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}
