package sandbox

// The defaults for custom plugins. A plugin that ranks five thousand pods needs a tenth of the
// memory.
const (
	usualMemoryBytes = 256 << 20
	usualMilliCPU    = 1000
	// usualTasks limits the processes of a fork bomb before it is stopped, usualFiles the open
	// files of a descriptor leak.
	usualTasks = 512
	usualFiles = 4096
)

// A Policy describes the whole confinement of a process; to change it, restart the process. The
// zero Policy sets no limits and leaves no capability.
type Policy struct {
	// User and Group to run it as, names or numbers; "" means the caller's own.
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	// Capabilities are those of the caller that it keeps. Asked: they were requested
	// explicitly, and one that the caller lacks is an error.
	Capabilities Capabilities `json:"capabilities"`
	Asked        bool         `json:"-"`
	// MemoryBytes and MilliCPU limit the process and its children together; 0 means no limit.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	MilliCPU    int64 `json:"milliCPU,omitempty"`
	// MemoryAsked: the limit was requested explicitly, and more than the caller's own is an error.
	MemoryAsked bool `json:"-"`
	// Custom processes are also limited in tasks and open files, and lose the OOM protection
	// that the caller may have.
	Custom bool `json:"-"`
}

// Usual returns the default policy for a custom plugin.
func Usual() Policy {
	return Policy{MemoryBytes: usualMemoryBytes, MilliCPU: usualMilliCPU, Custom: true}
}

// limits reports whether the policy needs the given cgroup controller.
func (p Policy) limits(controller string) bool {
	switch controller {
	case "memory":
		return p.MemoryBytes > 0
	case "cpu":
		return p.MilliCPU > 0
	default:
		return p.Custom
	}
}

// Possible returns nil if processes can be confined by p, else an Impossible.
func (p Policy) Possible() error {
	_, err := confine(p)
	return err
}

// Impossible is the error of a policy by which no process can be confined here; another
// attempt fails too.
type Impossible struct{ Err error }

func (i Impossible) Error() string { return i.Err.Error() }

// Unwrap returns the reason.
func (i Impossible) Unwrap() error { return i.Err }

// Status describes the confinement of a process, with the capabilities that it really has.
type Status struct {
	Policy
	// Unlimited says why it runs without some of its limits, "" if it has all.
	Unlimited string `json:"unlimited,omitempty"`
}
