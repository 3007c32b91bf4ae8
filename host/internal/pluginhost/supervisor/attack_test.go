package supervisor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// attacked returns which attacks a plugin reports as done, and of all what became.
func attacked(o eviction.Observation) (done map[string]bool, all []string) {
	done = map[string]bool{}
	for _, c := range o.Components {
		what, result, _ := strings.Cut(c.Name, ": ")
		done[what] = result == "done"
		all = append(all, c.Name)
	}
	return done, all
}

// A plugin with a user can do nothing of this.
func TestPluginWithAUserCannotAttack(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "attacks", "good"), func(o *Options) {
		through(t, o.SocketRoot)
		o.Settings = map[string]Settings{"attacks": {Confine: as(sandbox.Policy{User: "nobody"})}}
	})
	done, all := attacked(h.observed("attacks"))
	if len(done) < 12 {
		t.Fatalf("%d attacks, want all: %q", len(done), all)
	}
	for what, yes := range done {
		if yes {
			t.Errorf("it could %s", what)
		}
	}
	t.Log(strings.Join(all, "\n"))
}

// A plugin of root has no capabilities, but root's files are its own: what it still
// can do is written down here, so that nobody believes otherwise.
func TestPluginOfRootOwnsRootsFiles(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "attacks", "good"))
	done, all := attacked(h.observed("attacks"))
	for what, can := range map[string]bool{
		"trace the host": false, "write to the host's memory": false, "see the host's descriptors": false,
		"become another user": false, "mount": false, "open a raw socket": false, "raise its limit of open files": false,
		"signal the host": true, "list the run directory": true, "connect to other plugins": true,
		"put a plugin in place": true, "change a file of root": true, "leave its cgroups": true,
	} {
		if done[what] != can {
			t.Errorf("%s: %t, want %t", what, done[what], can)
		}
	}
	t.Log(strings.Join(all, "\n"))
}

// Directories that a plugin nested beside its socket were deeper than there are
// descriptors, and its 1.9 million files were memory beyond its limit.
func TestAPluginCannotFillTheDirectoryOfItsSocket(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "nests-directories", "makes-files", "makes-files-later", "good"), func(o *Options) {
		through(t, o.SocketRoot)
		o.Settings = map[string]Settings{}
		for _, name := range []string{"nests-directories", "makes-files", "makes-files-later", "good"} {
			o.Settings[name] = Settings{Confine: as(sandbox.Policy{User: "nobody"})}
		}
	})
	for name, says := range map[string]string{
		"nests-directories": `has made the directory "d" beside its socket`,
		"makes-files":       "has made more than 16 files beside its socket",
	} {
		want(t, h.plugin(name).LastError, says)
	}
	p, i := h.pinned("makes-files-later")
	defer p.Release()
	if _, err := observe(t.Context(), i); err != nil {
		t.Error(err)
	}
	twin, _ := h.pinned("good") // which makes its socket and no more
	twin.Release()
	all := 0
	_ = filepath.WalkDir(h.sockets, func(string, os.DirEntry, error) error {
		all++
		return nil
	})
	if all > 5000 { // what is made between two looks, of a million, or of ten thousand later
		t.Errorf("%d files and directories below the directory of the sockets", all)
	}
}

// security.md said that no plugin could outlive evictd. One of root can; one with a
// user cannot.
func TestAProcessOfRootOutlivesTheHost(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	for user, outlives := range map[string]bool{"": true, "nobody": false} {
		h := startHost(t, install(t, "escapes"), func(o *Options) {
			through(t, o.SocketRoot)
			o.Settings = map[string]Settings{"escapes": {Confine: as(sandbox.Policy{User: user})}}
		})
		pid := 0
		eventually(t, "its child runs", func() bool {
			for _, line := range h.plugin("escapes").Log {
				if _, err := fmt.Sscanf(line, "child %d", &pid); err == nil {
					return true
				}
			}
			return false
		})
		child, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		h.stop()
		// Readable when it has ended, whether somebody has reaped it or not.
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(child), Events: unix.POLLIN}}, 0)
		_ = unix.PidfdSendSignal(child, unix.SIGKILL, nil, 0)
		if lives := n == 0; lives != outlives {
			t.Errorf("user %q: its child lives after the host's end: %t (%v), want %t", user, lives, err, outlives)
		}
		_ = unix.Close(child)
	}
}
