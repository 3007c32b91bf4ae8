package eviction

import (
	"fmt"
	"strings"
	"time"
)

// Signal names one figure of the node that falls towards zero under pressure. Built-in
// signals have the kubelet's names; the names of custom signals are domain-qualified
// ("acme.example/nvme.spare").
type Signal string

// The kubelet's signals (pkg/kubelet/eviction/api/types.go).
const (
	// MemoryAvailable is the node's memory minus its working set, in bytes.
	MemoryAvailable Signal = "memory.available"
	// AllocatableMemoryAvailable is the same for the cgroup of all pods.
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	// NodeFsAvailable is the free space on the kubelet's filesystem, in bytes.
	NodeFsAvailable Signal = "nodefs.available"
	// NodeFsInodesFree is the number of free inodes on the kubelet's filesystem.
	NodeFsInodesFree Signal = "nodefs.inodesFree"
	// ImageFsAvailable is the free space on the filesystem of images, in bytes.
	ImageFsAvailable Signal = "imagefs.available"
	// ImageFsInodesFree is the number of free inodes on the filesystem of images.
	ImageFsInodesFree Signal = "imagefs.inodesFree"
	// ContainerFsAvailable is the free space on the filesystem of writable layers, in bytes.
	ContainerFsAvailable Signal = "containerfs.available"
	// ContainerFsInodesFree is the number of free inodes on the filesystem of writable layers.
	ContainerFsInodesFree Signal = "containerfs.inodesFree"
	// PIDAvailable is the number of tasks (threads) that can still be started.
	PIDAvailable Signal = "pid.available"
)

// A Unit is the unit of the int64 figures of a signal.
type Unit string

// The units of the built-in signals. A custom signal may use another one.
const (
	UnitBytes     Unit = "bytes"
	UnitInodes    Unit = "inodes"
	UnitProcesses Unit = "processes"
)

// A Format selects how the host prints a quantity of a signal.
type Format string

// Formats, named as in k8s.io/apimachinery/pkg/api/resource.
const (
	FormatBinarySI  Format = "BinarySI"
	FormatDecimalSI Format = "DecimalSI"
)

// A Condition is the node condition that a signal's thresholds raise.
type Condition string

// The kubelet's conditions of node pressure.
const (
	MemoryPressure Condition = "MemoryPressure"
	DiskPressure   Condition = "DiskPressure"
	PIDPressure    Condition = "PIDPressure"
)

// Definition holds the properties of a signal that the host needs to decide by it.
type Definition struct {
	Unit   Unit
	Format Format
	// Resource is the name in events and messages ("Attempting to reclaim memory"). It
	// is domain-qualified for custom signals.
	Resource string
	// Condition is the node condition that the signal's thresholds raise.
	Condition Condition
	// ReliefTime bounds the delay between a pod's end and the figures that show what it released:
	// the host evicts no further pod for the signal until it is over or everything is released.
	// Zero means DefaultReliefTime; the maximum is MaxReliefTime.
	ReliefTime time.Duration
	// Candidates are the pods that may be evicted for a custom signal. A built-in one has AllPods.
	Candidates CandidateScope
	// Relieves is one of the kubelet's signals, of the resource that victims of a custom signal free: for both, one victim's
	// relief is awaited before the next one goes. It is empty if that is a resource of the vendor's own.
	Relieves Signal
}

// CandidateScope says which pods may be evicted for a signal.
type CandidateScope uint8

const (
	// AllPods are all that may be evicted at all, under a hard threshold also those that a ranking leaves out.
	AllPods CandidateScope = iota
	// RankedPods are those that a ranking names. Without a ranking, or with an empty one, no pod is evicted. The
	// plugin must rank the signal, and the host have FeatureCandidateScope.
	RankedPods
)

// The default and the maximum of Definition.ReliefTime.
const (
	DefaultReliefTime = 10 * time.Second
	MaxReliefTime     = time.Minute
)

// ValidCustom returns an error unless s may name a vendor's signal: "domain/name" of letters,
// digits, '.', '-' and '_', at most 253 bytes. The domain has a dot and is not one of Kubernetes.
// Other names would not fit into the kubelet's flags and the types of node conditions.
func (s Signal) ValidCustom() error { return validCustomName("signal", string(s)) }

// ValidCustom returns an error unless d may define a vendor's signal: it needs a unit and a
// format, and a domain-qualified resource and condition.
func (d Definition) ValidCustom() error {
	if d.Unit == "" {
		return fmt.Errorf("unit is empty, want for example %q", UnitBytes)
	}
	if d.Format != FormatBinarySI && d.Format != FormatDecimalSI {
		return fmt.Errorf("format %q, want %q or %q", d.Format, FormatBinarySI, FormatDecimalSI)
	}
	if d.ReliefTime < 0 || d.ReliefTime > MaxReliefTime {
		return fmt.Errorf("relief time %v, want 0 to %v", d.ReliefTime, MaxReliefTime)
	}
	if b, builtin := Builtin(d.Relieves); d.Relieves != "" && (!builtin || b.Unit != d.Unit) {
		return fmt.Errorf("relieves %q, want a kubelet's signal with unit %q, or none", d.Relieves, d.Unit)
	}
	if err := validCustomName("resource", d.Resource); err != nil {
		return err
	}
	return validCondition(string(d.Condition))
}

// validCondition returns an error unless a node taint can have the name too.
func validCondition(name string) error {
	if err := validCustomName("condition", name); err != nil {
		return err
	}
	_, rest, _ := strings.Cut(name, "/")
	if len(rest) > 63 || strings.Trim(rest, ".-_") != rest {
		return fmt.Errorf("condition %q, want at most 63 characters after the '/', a letter or digit at both ends", name)
	}
	return nil
}

func validCustomName(what, name string) error {
	domain, rest, ok := strings.Cut(name, "/")
	switch {
	case !ok || rest == "" || !strings.Contains(domain, "."):
		return fmt.Errorf("%s %q, want a domain-qualified name such as \"acme.example/nvme.spare\"", what, name)
	case len(name) > 253:
		return fmt.Errorf("%s %.40q... has %d bytes, want at most 253", what, name, len(name))
	case domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") || domain == "k8s.io" || strings.HasSuffix(domain, ".k8s.io"):
		return fmt.Errorf("%s %q uses a domain of Kubernetes, want one of your own", what, name)
	}
	for i, r := range name {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_'
		if !plain && i != len(domain) {
			return fmt.Errorf("%s %q has the character %q, want letters, digits, '.', '-', '_' and one '/'", what, name, r)
		}
	}
	return nil
}
