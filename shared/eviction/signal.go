package eviction

import (
	"fmt"
	"strings"
	"time"
)

// A Signal names one figure of the node that falls towards zero under pressure. Built-in
// signals carry the kubelet's names; the names of custom signals are domain-qualified
// ("acme.example/nvme.spare").
type Signal string

// The kubelet's signals (pkg/kubelet/eviction/api/types.go).
const (
	// MemoryAvailable is the node's memory less its working set, in bytes.
	MemoryAvailable Signal = "memory.available"
	// AllocatableMemoryAvailable is the same of the cgroup of all pods.
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	// NodeFsAvailable is the room on the kubelet's filesystem, in bytes.
	NodeFsAvailable Signal = "nodefs.available"
	// NodeFsInodesFree is the inodes left on the kubelet's filesystem.
	NodeFsInodesFree Signal = "nodefs.inodesFree"
	// ImageFsAvailable is the room on the filesystem of images, in bytes.
	ImageFsAvailable Signal = "imagefs.available"
	// ImageFsInodesFree is the inodes left on the filesystem of images.
	ImageFsInodesFree Signal = "imagefs.inodesFree"
	// ContainerFsAvailable is the room for writable layers, in bytes.
	ContainerFsAvailable Signal = "containerfs.available"
	// ContainerFsInodesFree is the inodes left for writable layers.
	ContainerFsInodesFree Signal = "containerfs.inodesFree"
	// PIDAvailable is the tasks (threads) that may still be started.
	PIDAvailable Signal = "pid.available"
)

// A Unit is the unit of the int64 figures of a signal.
type Unit string

// The units of the built-in signals. A custom signal may have another.
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

// Definition describes a signal to the host, which decides by it.
type Definition struct {
	Unit   Unit
	Format Format
	// Resource is the name in events and messages ("Attempting to reclaim
	// memory"). Custom signals use a domain-qualified one.
	Resource string
	// Condition is the node condition that the signal's thresholds raise.
	Condition Condition
	// ReliefTime bounds the delay from a pod's end until the signal's figures show what it has
	// released: no further pod goes for the signal before it is over or all has come back. Zero
	// is DefaultReliefTime, MaxReliefTime the most.
	ReliefTime time.Duration
}

// The relief time of a signal that does not say one, and the longest one.
const (
	DefaultReliefTime = 10 * time.Second
	MaxReliefTime     = time.Minute
)

// ValidCustom reports whether s may name a vendor's signal: domain/name of
// letters, digits, '.', '-' and '_', the domain with a dot in it and not one of
// Kubernetes' own, at most 253 bytes. More would not fit into the kubelet's flags
// and the types of node conditions.
func (s Signal) ValidCustom() error { return validCustomName("signal", string(s)) }

// ValidCustom reports whether d may define a vendor's signal: unit and
// resource are given, resource and condition are domain-qualified.
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
	if err := validCustomName("resource", d.Resource); err != nil {
		return err
	}
	return validCondition(string(d.Condition))
}

// validCondition wants a name that the taint of a node can have.
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
