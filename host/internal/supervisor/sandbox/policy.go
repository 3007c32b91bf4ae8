package sandbox

import (
	"fmt"
	"strings"

	"github.com/evictd/evictd/host/internal/capability"
)

// Config is what the host's configuration says of how far a plugin is trusted. The
// zero value is what is usual for the plugin.
type Config struct {
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

// A Policy is what a process is confined to, all of it: if that changes it needs
// another one.
type Policy struct {
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

// PolicyFor returns the policy for the plugin of that name. Those that come with the
// host have other defaults than custom ones.
func PolicyFor(name string, c Config) Policy {
	needs, builtin := builtinNeeds[name]
	p := Policy{sha256: strings.ToLower(c.SHA256), user: c.User, group: c.Group, allowed: needs}
	if !builtin {
		p.pinned, p.expendable = c.RequirePin, true
		p.memoryBytes, p.milliCPU, p.tasks, p.files = usualMemoryBytes, usualMilliCPU, usualTasks, usualFiles
	}
	if c.Capabilities != nil {
		p.allowed, p.asked = *c.Capabilities, true
	}
	if c.MemoryBytes != nil {
		p.memoryBytes = *c.MemoryBytes
	}
	if c.MilliCPU != nil {
		p.milliCPU = *c.MilliCPU
	}
	return p
}

// Unpinned reports whether a pin is missing that there must be.
func (p Policy) Unpinned() bool { return p.pinned && p.sha256 == "" }

// Possible returns why no process can be confined so, nil if one can.
func (p Policy) Possible() error {
	_, err := confine(p)
	return err
}

// admit works out the confinement of the plugin of that name, if it may run.
func (p Policy) admit(name string) (confinement, error) {
	if p.Unpinned() {
		return confinement{}, fmt.Errorf("it has no pin, want its hash in plugins.%s.sha256: requirePins is on", name)
	}
	return confine(p)
}

// limited reports whether the process needs a cgroup of its own.
func (p Policy) limited() bool { return p.memoryBytes > 0 || p.milliCPU > 0 || p.tasks > 0 }

// Status is what a process is confined to.
type Status struct {
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

// Status returns what the process is confined to.
func (s *Sandbox) Status() *Status {
	p := s.policy
	c := &Status{
		Pinned: p.sha256 != "", User: p.user, Group: p.group, Capabilities: s.keep.String(),
		MemoryBytes: p.memoryBytes, MilliCPU: p.milliCPU,
	}
	if s.unlimited != nil {
		c.Unlimited = s.unlimited.Error()
	}
	return c
}
