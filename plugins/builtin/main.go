// Command builtin contains evictd's memory, disk and pid plugins. The host starts it from the
// plugin directory, where links to it have the plugins' names. Processes of the same file share
// its pages.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/sdk"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "memory":
		sdk.Serve(memory.New())
	case "disk":
		sdk.Serve(disk.New())
	case "pid":
		sdk.Serve(pid.New())
	default:
		_, _ = fmt.Fprintf(os.Stderr, "%s: is no name of a built-in plugin, want memory, disk or pid (ln -s %s memory)\n", name, os.Args[0])
		os.Exit(1)
	}
}
