// Command pid is the pid plugin of evictd as a process: the host starts it from
// the plugin directory.
package main

import (
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/sdk"
)

func main() { sdk.Serve(pid.New()) }
