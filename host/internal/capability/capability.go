// Package capability has the capabilities of Linux by name, and sets of them. It
// neither asks for those of a process nor changes them.
package capability

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// names are the capabilities in the kernel's order (include/uapi/linux/capability.h).
var names = [...]string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

const prefix = "CAP_"

// A Set is a set of capabilities, one bit each by the kernel's number.
type Set uint64

// Parse returns the set of those names, which may have the prefix CAP_ or not and
// be in any case. The error joins one for each name that is none.
func Parse(list []string) (Set, error) {
	var set Set
	var errs []error
	for i, given := range list {
		n := slices.Index(names[:], strings.TrimPrefix(strings.ToUpper(given), prefix))
		if n < 0 {
			errs = append(errs, Unknown{Index: i, Name: given})
			continue
		}
		set |= 1 << n
	}
	return set, errors.Join(errs...)
}

// Of is Parse for names that are right.
func Of(list ...string) Set {
	set, err := Parse(list)
	if err != nil {
		panic(err)
	}
	return set
}

// Unknown is the error of a name that is none.
type Unknown struct {
	Index int
	Name  string
}

func (u Unknown) Error() string {
	return fmt.Sprintf("[%d]: %q is no capability, want one of capabilities(7) such as %q", u.Index, u.Name, prefix+"SYS_ADMIN")
}

// Has reports whether the capability of that number is in s.
func (s Set) Has(n int) bool { return s&(1<<n) != 0 }

// Numbers are the kernel's numbers of what is in s.
func (s Set) Numbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := range 64 {
			if s.Has(n) && !yield(n) {
				return
			}
		}
	}
}

// String lists the names with their prefix.
func (s Set) String() string {
	if s == 0 {
		return "none"
	}
	var all []string
	for n := range s.Numbers() {
		if n < len(names) {
			all = append(all, prefix+names[n])
		} else {
			all = append(all, fmt.Sprint(n))
		}
	}
	return strings.Join(all, ",")
}
