package sandbox

// What custom plugins get that nothing else is said of. A plugin that ranks five
// thousand pods needs a tenth of the memory.
const (
	usualMemoryBytes = 256 << 20
	usualMilliCPU    = 1000
	// usualTasks bounds what a fork bomb makes before it is stopped, usualFiles the
	// descriptors of a leak.
	usualTasks = 512
	usualFiles = 4096
)

// A Policy describes the whole confinement of a process: if that changes it needs another one.
// The zero value is that of a process without limits that has no capability.
type Policy struct {
	// User and Group are who it runs as, names or numbers; "" for the caller's own.
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	// Capabilities are those that it keeps of the caller's. Asked: they were asked for,
	// and one that the caller lacks itself is an error.
	Capabilities Capabilities `json:"capabilities"`
	Asked        bool         `json:"-"`
	// MemoryBytes and MilliCPU are the limits of the process with its children; 0
	// is none.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	MilliCPU    int64 `json:"milliCPU,omitempty"`
	// Custom processes are limited in tasks and open files, too, and are not spared
	// when the node runs out of memory, as the caller may be.
	Custom bool `json:"-"`
}

// Usual is the policy for a custom plugin.
func Usual() Policy {
	return Policy{MemoryBytes: usualMemoryBytes, MilliCPU: usualMilliCPU, Custom: true}
}

// limits reports whether a controller of cgroups limits the process.
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

// Possible returns why no process can be confined so, an Impossible, nil if one can.
func (p Policy) Possible() error {
	_, err := confine(p)
	return err
}

// Impossible is the error of a policy by which no process can be confined here: another
// attempt ends alike.
type Impossible struct{ Err error }

func (i Impossible) Error() string { return i.Err.Error() }

// Unwrap returns the reason.
func (i Impossible) Unwrap() error { return i.Err }

// Status describes the confinement of a process: the capabilities are those that it has.
type Status struct {
	Policy
	// Unlimited says why it runs without some of its limits.
	Unlimited string `json:"unlimited,omitempty"`
}
