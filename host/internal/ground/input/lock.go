package input

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Locked reports whether a process in this pid namespace has locked a file with flock. It does not
// try the lock, which could make one that is just taking it fail.
func Locked(file string) bool {
	info, err := os.Lstat(file)
	if err != nil {
		return false
	}
	stat, _ := info.Sys().(*syscall.Stat_t)
	locks, err := os.ReadFile("/proc/locks") //nolint:forbidigo // the kernel's
	return err == nil && slices.ContainsFunc(strings.Split(string(locks), "\n"), func(line string) bool {
		return strings.Contains(line, "FLOCK") && strings.Contains(line, fmt.Sprintf(":%d ", stat.Ino))
	})
}
