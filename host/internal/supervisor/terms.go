package supervisor

import (
	"fmt"
	"strings"

	"github.com/evictd/evictd/host/internal/capability"
)

// Confinement is what the host's configuration says of how far a plugin is
// trusted. The zero value is what is usual for the plugin.
type Confinement struct {
	// SHA256 is the hash that its file must have, in hexadecimal digits; "" for any.
	SHA256 string
	// RequirePin refuses it without SHA256, unless it is built-in.
	RequirePin bool
	// User and Group are who it runs as, names or numbers; "" for the host's own.
	User, Group string
	// Capabilities are those it keeps of the host's.
	Capabilities *capability.Set
	// MemoryBytes and MilliCPU are the limits of the process with its children; 0
	// is none.
	MemoryBytes *int64
	MilliCPU    *int64
}

// What custom plugins get that the configuration says nothing else of. A plugin
// that ranks five thousand pods needs a tenth of the memory.
const (
	usualMemoryBytes = 256 << 20
	usualMilliCPU    = 1000
	// usualTasks bounds what a fork bomb makes before it is stopped, usualFiles the
	// descriptors of a leak.
	usualTasks = 512
	usualFiles = 4096
)

// builtinNeeds are the capabilities that the plugins which come with the host use.
// All of them keep their memory from being paged out.
var builtinNeeds = map[string]capability.Set{
	// Cgroup files and /proc/meminfo belong to root and let everybody read.
	"memory": capability.Of("IPC_LOCK"),
	"pid":    capability.Of("IPC_LOCK"),
	// It walks trees whatever their modes, removes logs in directories of others,
	// looks for deleted files in /proc/PID/fd and asks for quotas of projects.
	"disk": capability.Of("IPC_LOCK", "DAC_READ_SEARCH", "DAC_OVERRIDE", "SYS_PTRACE", "SYS_ADMIN"),
}

// terms are what a process is started on, all of it: if they change it needs
// another one.
type terms struct {
	mtls        bool
	sha256      string
	pinned      bool // it must be
	user, group string
	// allowed are the capabilities it keeps. Those that the host lacks itself
	// matter only where they were asked for.
	allowed     capability.Set
	asked       bool
	memoryBytes int64
	milliCPU    int64
	tasks       int64
	files       uint64
	expendable  bool
}

// everybody is where settings are that hold for plugins without settings of their
// own. No plugin can have that name.
const everybody = ""

// termsOf returns the terms of the plugin of that name.
func termsOf(all map[string]Settings, name string) terms {
	s, ok := all[name]
	if !ok {
		s = Settings{Confinement: all[everybody].Confinement}
	}
	t := terms{
		mtls: s.autoMTLS(), sha256: strings.ToLower(s.SHA256), user: s.User, group: s.Group,
		allowed: builtinNeeds[name],
	}
	if !builtin(name) {
		t.pinned, t.expendable = s.RequirePin, true
		t.memoryBytes, t.milliCPU, t.tasks, t.files = usualMemoryBytes, usualMilliCPU, usualTasks, usualFiles
	}
	if s.Capabilities != nil {
		t.allowed, t.asked = *s.Capabilities, true
	}
	if s.MemoryBytes != nil {
		t.memoryBytes = *s.MemoryBytes
	}
	if s.MilliCPU != nil {
		t.milliCPU = *s.MilliCPU
	}
	return t
}

// unpinned reports whether a pin is missing that there must be.
func (t terms) unpinned() bool { return t.pinned && t.sha256 == "" }

// admitted works out the confinement of a plugin that may run on these terms.
func (t terms) admitted(name string) (confinement, error) {
	if t.unpinned() {
		return confinement{}, fmt.Errorf("it has no pin, want its hash in plugins.%s.sha256: requirePins is on", name)
	}
	return confine(t)
}

// limited reports whether the process needs a cgroup of its own.
func (t terms) limited() bool { return t.memoryBytes > 0 || t.milliCPU > 0 || t.tasks > 0 }

// Confined is what a process is confined to, for the status.
type Confined struct {
	// Pinned: its file had the hash that it must have.
	Pinned bool `json:"pinned"`
	// User and Group are who it runs as, if not as the host.
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	// Capabilities are those that it has, "none" or a list.
	Capabilities string `json:"capabilities"`
	// MemoryBytes and MilliCPU are its limits; 0 is none.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	MilliCPU    int64 `json:"milliCPU,omitempty"`
	// Unlimited is why it runs without some of its limits.
	Unlimited string `json:"unlimited,omitempty"`
}

// confined returns what the process of i is confined to, nil if it has none.
func (i *Instance) confined() *Confined {
	if i.conn == nil {
		return nil
	}
	t, how := i.terms, i.conn.how
	c := &Confined{
		Pinned: t.sha256 != "", User: t.user, Group: t.group, Capabilities: how.keep.String(),
		MemoryBytes: t.memoryBytes, MilliCPU: t.milliCPU,
	}
	if how.unlimited != nil {
		c.Unlimited = how.unlimited.Error()
	}
	return c
}
