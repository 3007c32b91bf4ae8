package eviction

import (
	"slices"
	"time"
)

// BuiltinSignal describes one of the kubelet's signals. To add one, add a row to the table below
// and a plugin that serves it.
type BuiltinSignal struct {
	Signal Signal
	Definition
	// Plugin is the built-in plugin that serves the signal.
	Plugin string
	// Filesystem is the signal's filesystem, "" if it has none.
	Filesystem Filesystem
	// FromKernel: the figure comes from the kernel itself. The host then asks a custom observer
	// in addition to the built-in one, and the worse figure counts. For filesystems only the
	// vendor may know the figure.
	FromKernel bool
	// CheapToMeasure: a pass can measure pods right away. Measuring disks takes seconds.
	CheapToMeasure bool
}

// Filesystem is one of the kubelet's names for filesystems. The Layout says which names stand for
// the same filesystem.
type Filesystem string

// The kubelet's filesystems: its own, that of images and that of writable layers.
const (
	NodeFs      Filesystem = "nodefs"
	ImageFs     Filesystem = "imagefs"
	ContainerFs Filesystem = "containerfs"
)

var (
	// Memory is released while processes exit; filesystems release deleted files later, so
	// they have the default relief time.
	memory     = Definition{Unit: UnitBytes, Format: FormatBinarySI, Resource: "memory", Condition: MemoryPressure, ReliefTime: 2 * time.Second}
	pids       = Definition{Unit: UnitProcesses, Format: FormatDecimalSI, Resource: "pids", Condition: PIDPressure, ReliefTime: time.Second}
	diskBytes  = Definition{Unit: UnitBytes, Format: FormatBinarySI, Resource: "ephemeral-storage", Condition: DiskPressure}
	diskInodes = Definition{Unit: UnitInodes, Format: FormatDecimalSI, Resource: "inodes", Condition: DiskPressure}

	builtins = [...]BuiltinSignal{
		{MemoryAvailable, memory, "memory", "", true, true},
		{AllocatableMemoryAvailable, memory, "memory", "", true, true},
		{NodeFsAvailable, diskBytes, "disk", NodeFs, false, false},
		{NodeFsInodesFree, diskInodes, "disk", NodeFs, false, false},
		{ImageFsAvailable, diskBytes, "disk", ImageFs, false, false},
		{ImageFsInodesFree, diskInodes, "disk", ImageFs, false, false},
		{ContainerFsAvailable, diskBytes, "disk", ContainerFs, false, false},
		{ContainerFsInodesFree, diskInodes, "disk", ContainerFs, false, false},
		{PIDAvailable, pids, "pid", "", true, true},
	}
)

// Builtin returns the row of a kubelet signal, and whether s is one. The row of
// another signal is zero.
func Builtin(s Signal) (BuiltinSignal, bool) {
	for i := range builtins {
		if builtins[i].Signal == s {
			return builtins[i], true
		}
	}
	return BuiltinSignal{}, false
}

// BuiltinSignals lists the kubelet's signals in a fixed order.
func BuiltinSignals() []Signal { return builtinsWith(func(*BuiltinSignal) bool { return true }) }

// SignalsOf returns the signals that the named built-in plugin serves, none for any other name.
func SignalsOf(plugin string) []Signal {
	return builtinsWith(func(b *BuiltinSignal) bool { return b.Plugin == plugin })
}

// SignalsOn returns the signals of a filesystem: its free space and its free inodes.
func SignalsOn(fs Filesystem) []Signal {
	return builtinsWith(func(b *BuiltinSignal) bool { return b.Filesystem == fs })
}

// SameResource returns the signals, including s, of the same resource: both memory signals, for
// example. For filesystems see Layout.SameFilesystem.
func SameResource(s Signal) []Signal {
	of, builtin := Builtin(s)
	if !builtin || of.Filesystem != "" {
		return []Signal{s}
	}
	return builtinsWith(func(b *BuiltinSignal) bool { return b.Definition == of.Definition })
}

// CheapToMeasure reports whether all signals of c are the kubelet's and cheap to measure. A
// vendor's plugin may take seconds to measure pods.
func (c Condition) CheapToMeasure() bool {
	return slices.ContainsFunc(builtins[:], func(b BuiltinSignal) bool { return b.Condition == c }) &&
		!slices.ContainsFunc(builtins[:], func(b BuiltinSignal) bool { return b.Condition == c && !b.CheapToMeasure })
}

func builtinsWith(with func(*BuiltinSignal) bool) []Signal {
	var signals []Signal
	for i := range builtins {
		if with(&builtins[i]) {
			signals = append(signals, builtins[i].Signal)
		}
	}
	return signals
}
