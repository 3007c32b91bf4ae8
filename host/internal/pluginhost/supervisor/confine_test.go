package supervisor

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/testos"
)

// requireRoot skips what needs root.
func requireRoot(t *testing.T) {
	t.Helper()
	if !strict() {
		t.Skip("needs root: run make test")
	}
	if os.Geteuid() != 0 {
		t.Fatal("EVICTD_TEST_ROOT is set and this is not root")
	}
}

func procFile(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

// procStatus returns the fields of /proc/PID/status.
func procStatus(t *testing.T, pid int) map[string]string {
	t.Helper()
	content := testos.ReadFile(t, procFile(pid, "status"))
	fields := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		fields[name] = strings.Join(strings.Fields(value), " ")
	}
	return fields
}

// capabilities returns the set of those names.
func capabilities(t *testing.T, names ...string) sandbox.Capabilities {
	t.Helper()
	set, unknown := sandbox.ParseCapabilities(names)
	if unknown != nil {
		t.Fatalf("no capabilities: %q", unknown)
	}
	return set
}

// capabilitiesOf returns the sets of a process, by name.
func capabilitiesOf(t *testing.T, pid int) map[string]sandbox.Capabilities {
	t.Helper()
	sets := map[string]sandbox.Capabilities{}
	for name, value := range procStatus(t, pid) {
		if set, ok := strings.CutPrefix(name, "Cap"); ok {
			n, err := strconv.ParseUint(value, 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			sets[set] = sandbox.Capabilities(n)
		}
	}
	return sets
}

// as confines as usual but for what is not zero.
func as(otherwise sandbox.Policy) func(*sandbox.Policy) {
	return func(p *sandbox.Policy) {
		p.User, p.Group = otherwise.User, otherwise.Group
		p.Capabilities, p.Asked = otherwise.Capabilities, otherwise.Capabilities != 0
		p.MemoryBytes, p.MilliCPU = cmp.Or(otherwise.MemoryBytes, p.MemoryBytes), cmp.Or(otherwise.MilliCPU, p.MilliCPU)
	}
}

func confined(name string, p sandbox.Policy) func(*Options) {
	return func(o *Options) { o.Settings = map[string]Settings{name: {Confine: as(p)}} }
}

func TestPluginsCannotGainRights(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good", "memory"))
	for _, name := range []string{"good", "memory"} {
		s := procStatus(t, h.plugin(name).PID)
		if s["NoNewPrivs"] != "1" || s["Umask"] != "0077" || s["CapInh"] != "0000000000000000" {
			t.Errorf("%s: no_new_privs %s, umask %s, inheritable %s, want 1, 0077 and none", name, s["NoNewPrivs"], s["Umask"], s["CapInh"])
		}
	}
	if s := procStatus(t, os.Getpid()); s["NoNewPrivs"] != "0" {
		t.Error("the host has confined itself")
	}
}

func TestPluginInheritsNothingElse(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good"))
	pid := h.plugin("good").PID
	limits := testos.ReadFile(t, procFile(pid, "limits"))
	for line := range strings.SplitSeq(string(limits), "\n") {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "Max core file size") && f[5] != "0":
			t.Errorf("%s, want 0", line)
		case strings.HasPrefix(line, "Max open files"):
			if n, err := strconv.Atoi(f[4]); err != nil || n > 4096 {
				t.Errorf("%s, want at most %d", line, 4096)
			}
		}
	}
	if cwd, _ := os.Readlink(procFile(pid, "cwd")); cwd != "/" {
		t.Errorf("working directory %s, want /", cwd)
	}
	fds, _ := os.ReadDir(procFile(pid, "fd"))
	for _, fd := range fds {
		to, _ := os.Readlink(filepath.Join(procFile(pid, "fd"), fd.Name()))
		ok := to == "/dev/null" || to == faultyProgram || strings.HasPrefix(to, "pipe:") || strings.HasPrefix(to, "socket:") ||
			strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/sys/") // the Go runtime looks at its cgroup
		if !ok {
			t.Errorf("descriptor %s is %s, want nothing of the host's", fd.Name(), to)
		}
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	own := capabilitiesOf(t, os.Getpid())["Prm"]
	asked := capabilities(t, "SYS_PTRACE", "DAC_READ_SEARCH")
	h := startHost(t, install(t, "custom", "asks", "memory", "disk", "pid"), confined("asks", sandbox.Policy{Capabilities: asked}))
	for name, keep := range map[string]sandbox.Capabilities{
		"custom": 0, "asks": asked,
		"memory": capabilities(t, "IPC_LOCK"), "pid": capabilities(t, "IPC_LOCK"),
		"disk": capabilities(t, "IPC_LOCK", "DAC_READ_SEARCH", "DAC_OVERRIDE", "SYS_PTRACE", "SYS_ADMIN"),
	} {
		sets := capabilitiesOf(t, h.plugin(name).PID)
		for _, set := range []string{"Prm", "Eff", "Bnd"} {
			if sets[set] != keep&own {
				t.Errorf("%s: %s are %s, want %s", name, set, sets[set], keep&own)
			}
		}
		if sets["Inh"] != 0 || sets["Amb"] != 0 {
			t.Errorf("%s: inheritable %s and ambient %s, want none", name, sets["Inh"], sets["Amb"])
		}
		if s := procStatus(t, h.plugin(name).PID); s["Groups"] != "" {
			t.Errorf("%s: supplementary groups %s, want none", name, s["Groups"])
		}
	}
	// The host and its threads have what they had: a plugin without capabilities may
	// trace no thread of root that has any.
	tasks, _ := filepath.Glob("/proc/self/task/*")
	for _, task := range tasks {
		pid, _ := strconv.Atoi(filepath.Base(task))
		content, err := os.ReadFile(filepath.Join(task, "status"))
		if err == nil && !bytes.Contains(content, fmt.Appendf(nil, "CapPrm:\t%016x", uint64(own))) {
			t.Errorf("thread %d has lost capabilities", pid)
		}
	}
}

func TestPluginWithAUser(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	asked := capabilities(t, "NET_RAW")
	off := false
	h := startHost(t, install(t, "named", "numbered", "clear"), func(o *Options) {
		through(t, o.SocketRoot)
		o.Settings = map[string]Settings{
			"named":    {Confine: as(sandbox.Policy{User: "nobody"})},
			"numbered": {Confine: as(sandbox.Policy{User: "4242", Group: "4343", Capabilities: asked})},
			"clear":    {AutoMTLS: &off, Confine: as(sandbox.Policy{User: "nobody", Group: "daemon"})},
		}
	})
	for name, c := range map[string]struct {
		uid, gid string
		keep     sandbox.Capabilities
	}{
		"named": {"65534", "65534", 0}, "numbered": {"4242", "4343", asked}, "clear": {"65534", "1", 0},
	} {
		p, i := h.pinned(name)
		if _, err := observe(t.Context(), i); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		p.Release()
		s, sets := procStatus(t, i.PID), capabilitiesOf(t, i.PID)
		uid, gid := strings.Join([]string{c.uid, c.uid, c.uid, c.uid}, " "), strings.Join([]string{c.gid, c.gid, c.gid, c.gid}, " ")
		if s["Uid"] != uid || s["Gid"] != gid || s["Groups"] != "" {
			t.Errorf("%s runs as %s:%s with groups %q, want %s:%s and none", name, s["Uid"], s["Gid"], s["Groups"], uid, gid)
		}
		if sets["Eff"] != c.keep || sets["Prm"] != c.keep || sets["Bnd"] != c.keep {
			t.Errorf("%s keeps %v, want %s", name, sets, c.keep)
		}
		var stat syscall.Stat_t
		environ, _ := os.ReadFile(procFile(i.PID, "environ"))
		_, dir, _ := strings.Cut(string(environ), "PLUGIN_UNIX_SOCKET_DIR=")
		dir, _, _ = strings.Cut(dir, "\x00")
		if err := syscall.Stat(dir, &stat); err != nil || stat.Uid != 0 || stat.Mode&0o777 != 0o700 {
			t.Errorf("%s: its directory belongs to %d with mode %o (%v), want it taken back: 0 and 700", name, stat.Uid, stat.Mode&0o777, err)
		}
	}
}

// through lets others through to what is in dir.
func through(t *testing.T, dir string) {
	t.Helper()
	testos.Chmod(t, dir, 0o711)
}

func TestUserThatCannotBe(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "unknown", "groupless", "unknown-group", "shut-out"), func(o *Options) {
		o.Settings = map[string]Settings{
			"unknown":       {Confine: as(sandbox.Policy{User: "no-such-user"})},
			"groupless":     {Confine: as(sandbox.Policy{User: "4242"})},
			"unknown-group": {Confine: as(sandbox.Policy{Group: "no-such-group"})},
			"shut-out":      {Confine: as(sandbox.Policy{User: "nobody"})},
		}
	})
	for name, says := range map[string]string{
		"unknown":       `user: "no-such-user": user: unknown user no-such-user, want the name of a user of this machine or a number`,
		"groupless":     "group: user 4242 is not in /etc/passwd, want a group as well",
		"unknown-group": `group: "no-such-group": group: unknown group no-such-group, want the name`,
		"shut-out":      "user: " + h.sockets + " has mode 0700, and the plugin could not reach its socket: want 0711",
	} {
		s := h.plugin(name)
		if s.State != Refused {
			t.Errorf("%s is %s, want it refused", name, s.State)
		}
		want(t, s.Reason, says)
	}
}

// Settings with which no plugin can be started do not come into force.
func TestUserThatCannotBeIsNotReloaded(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "good"))
	pid := h.plugin("good").PID
	err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"good": {Confine: as(sandbox.Policy{User: "no-such-user"})}})
	if err == nil {
		t.Fatal("reloaded")
	}
	want(t, err.Error(), `plugin good: user: "no-such-user": user: unknown user no-such-user`)
	if s := h.plugin("good"); s.PID != pid || s.Replacement != nil {
		t.Errorf("%+v, want it to go on as it was", s)
	}
}
