// Command evictd is the host daemon: it reads flags and configuration, sets up
// log and signals, and runs the eviction manager of package host.
//
// It decides nothing about pods and starts no plugin itself. The built-in plugins are the same program under other names.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
)

// Set by the linker: -X main.version=... -X main.commit=...
var version, commit string

var program = command.New("evictd", version, commit)

func start() {
	os.Exit(program.Execute(context.Background(), newRoot(), os.Args[1:], os.Stdout, os.Stderr))
}

func newRoot() *cobra.Command {
	return program.Root("The kubelet's node-pressure eviction, unbundled",
		"evictd watches memory, disk and process ids of a node through plugins and evicts pods\n"+
			"by the kubelet's rules when they run short. evictctl asks it, and explains what it did.",
		newRun())
}
