// Command memory is the memory plugin of evictd as a process: the host starts it
// from the plugin directory.
package main

import (
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/sdk"
)

func main() { sdk.Serve(memory.New()) }
