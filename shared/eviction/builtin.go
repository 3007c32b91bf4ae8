package eviction

import (
	"slices"
	"time"
)

// A BuiltinSignal is all that the host knows by itself of one of the kubelet's signals.
// To add one: a row in the table below, and a plugin that serves it.
type BuiltinSignal struct {
	Signal Signal
	Definition
	// Plugin is the plugin that comes with the host and serves the signal.
	Plugin string
	// Filesystem is the one that the signal is about, "" for a signal of none.
	Filesystem Filesystem
	// FromKernel: the kernel itself tells the figure, so that a custom observer of it
	// adds to the built-in one: both are asked, and the worse figure counts. What a
	// vendor's filesystems have only the vendor may know.
	FromKernel bool
	// CheapToMeasure: what pods use of it is read in the pass itself. Of a disk it
	// takes seconds to find out.
	CheapToMeasure bool
}

// A Filesystem is one of the kubelet's names for filesystems. Which of them are the
// same one says the Layout.
type Filesystem string

// The kubelet's filesystems: its own, that of images and that of writable layers.
const (
	NodeFs      Filesystem = "nodefs"
	ImageFs     Filesystem = "imagefs"
	ContainerFs Filesystem = "containerfs"
)

var (
	// What leaves memory is returned while processes exit; filesystems free what was
	// deleted when they come to it.
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

// SignalsOf lists what a plugin that comes with the host serves, nothing for any other.
func SignalsOf(plugin string) []Signal {
	return builtinsWith(func(b *BuiltinSignal) bool { return b.Plugin == plugin })
}

// SignalsOn lists the signals that are about a filesystem: its room and its inodes.
func SignalsOn(fs Filesystem) []Signal {
	return builtinsWith(func(b *BuiltinSignal) bool { return b.Filesystem == fs })
}

// SameResource lists the signals of the resource of s, s among them: memory of the node
// and of its pods alike. Filesystems are another matter: Layout.SameFilesystem.
func SameResource(s Signal) []Signal {
	of, builtin := Builtin(s)
	if !builtin || of.Filesystem != "" {
		return []Signal{s}
	}
	return builtinsWith(func(b *BuiltinSignal) bool { return b.Definition == of.Definition })
}

// CheapToMeasure reports whether c is of kubelet signals that all are. Of what a
// vendor's plugin knows it may take seconds to find out.
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
