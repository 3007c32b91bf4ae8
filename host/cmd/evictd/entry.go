//go:build !man

package main

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/plugins/mounts"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/plugins/pressure"
	"github.com/evictd/evictd/sdk"
)

// main runs evictd, or the built-in plugin whose name the program was started by: the plugin directory
// has links to it. Processes of the same file share its pages.
func main() {
	switch filepath.Base(os.Args[0]) {
	case "memory":
		runtime.GOMAXPROCS(1) // it measures one pod after the other: more threads only wake each other
		sdk.Serve(memory.New())
	case "pressure":
		runtime.GOMAXPROCS(1)
		sdk.Serve(pressure.New())
	case "disk":
		sdk.Serve(disk.New())
	case "mounts":
		sdk.Serve(mounts.New())
	case "pid":
		runtime.GOMAXPROCS(1)
		sdk.Serve(pid.New())
	default:
		start()
	}
}
