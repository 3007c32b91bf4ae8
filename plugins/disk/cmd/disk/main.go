// Command disk is the disk plugin of evictd as a process: the host starts it
// from the plugin directory.
package main

import (
	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
)

func main() { sdk.Serve(disk.New()) }
