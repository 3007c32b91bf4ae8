package policy

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Relieved lists the signals that the end of a victim of t relieves: memory of the
// node and of its pods, room and inodes of the disks.
func Relieved(t Threshold) []eviction.Signal {
	d, builtin := eviction.Builtin(t.Signal)
	if !builtin {
		return []eviction.Signal{t.Signal}
	}
	return slices.DeleteFunc(eviction.BuiltinSignals(), func(s eviction.Signal) bool {
		other, _ := eviction.Builtin(s)
		return other.Condition != d.Condition
	})
}
