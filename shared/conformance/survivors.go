package conformance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
)

// lastGasp is how long what was killed with its group may take to be gone.
const lastGasp = 500 * time.Millisecond

// survivors wants nobody left of the processes that have ended, and ends who is.
// They are known by the socket directory in their environment, which each start has
// one of: a child that has left the process group keeps it, wherever it went.
func (o *launcher) survivors(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		left := o.left()
		if len(left) == 0 {
			return nil
		}
		if time.Since(begin) < o.options.patient(lastGasp) && ctx.Err() == nil {
			continue
		}
		var bad []string
		for pid, name := range left {
			bad = append(bad, fmt.Sprintf("process %d (%s) lives on", pid, name))
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		return asError(bad)
	}
}

// left are the processes of plugins that have ended, with their names.
func (o *launcher) left() map[int]string {
	ended := o.endedDirs()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	found := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // of others, or gone
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if name, dir, _ := bytes.Cut(variable, []byte("=")); string(name) == plugin.EnvUnixSocketDir && ended[string(dir)] {
				comm, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
				found[pid] = string(bytes.TrimSpace(comm))
			}
		}
	}
	return found
}

// endedDirs are the socket directories of processes that have ended.
func (o *launcher) endedDirs() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	dirs := map[string]bool{}
	for _, p := range o.all {
		if p.ended() {
			dirs[p.dir] = true
		}
	}
	return dirs
}
