package summary

import (
	"errors"
	"fmt"

	"github.com/evictd/evictd/shared/summaryapi"
)

const (
	// MaxBytes is the maximum size of a summary. That of 500 pods has 1 MB.
	MaxBytes = summaryapi.MaxBytes
	// maxEntries is the maximum number of pods, containers and volumes together. An empty entry
	// takes three bytes in the JSON and a hundred in memory.
	maxEntries = 1 << 18
)

// Decode decodes the JSON of a summary. A value that the kubelet's types cannot hold is an error
// with its path, not a missing figure, since a missing figure would end the pressure. For the same
// reason JSON without a node, such as an error object, is an error. Decode ignores unknown fields;
// field names are case-sensitive.
//
// Decode does not retain data.
func Decode(data []byte) (*Summary, error) {
	if len(data) > MaxBytes {
		return nil, fmt.Errorf("summary has %d bytes, want at most %d", len(data), MaxBytes)
	}
	d := decoder{scanner: scanner{in: data}}
	s, hasNode := d.summary()
	if d.err == nil && (d.peek() != 0 || d.at < len(d.in)) {
		d.want("nothing more")
	}
	switch {
	case d.err != nil:
		return nil, fmt.Errorf("summary: %w", d.err)
	case !hasNode:
		return nil, errors.New("summary: node: missing")
	}
	s.byUID = make(map[string]int, len(s.Pods))
	for i := range s.Pods {
		s.byUID[s.Pods[i].UID] = i
	}
	return s, nil
}

// decoder converts the values of a scanner into a Summary. Each of its methods reads the current
// value.
type decoder struct {
	scanner

	entries int
	// impossible is why a figure of the current pod cannot be.
	impossible string
	// The entries of one pod are collected here first and then copied to a slice of their size.
	containers []Container
	volumes    []Volume
}

// list appends the entries of an array to all; read reads one.
func list[T any](d *decoder, all []T, read func(*decoder, *T)) []T {
	for more := d.array() && d.element(); more; more = d.element() {
		if d.entries++; d.entries > maxEntries {
			d.fail("more than %d pods, containers and volumes", maxEntries)
		}
		all = append(all, *new(T))
		read(d, &all[len(all)-1])
	}
	return all
}

func (d *decoder) summary() (s *Summary, hasNode bool) {
	s = new(Summary)
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "node":
			hasNode = d.peek() == '{'
			d.node(&s.Node)
		case "pods":
			s.Pods = list(d, nil, (*decoder).pod)
		}
	}
	return s, hasNode
}

func (d *decoder) node(n *Node) {
	*n = Node{}
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "nodeName":
			d.str(&n.Name)
		case "memory":
			d.memory(&n.Memory)
		case "systemContainers":
			n.SystemContainers = list(d, nil, (*decoder).systemContainer)
		case "fs":
			d.filesystem(&n.Fs)
		case "runtime":
			d.runtime(n)
		case "rlimit":
			d.rlimit(&n.Rlimit)
		}
	}
}

func (d *decoder) systemContainer(c *SystemContainer) {
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "name":
			d.str(&c.Name)
		case "memory":
			d.memory(&c.Memory)
		}
	}
}

func (d *decoder) runtime(n *Node) {
	n.ImageFs, n.ContainerFs = Filesystem{}, Filesystem{}
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "imageFs":
			d.filesystem(&n.ImageFs)
		case "containerFs":
			d.filesystem(&n.ContainerFs)
		}
	}
}

func (d *decoder) rlimit(r *Rlimit) {
	*r = Rlimit{}
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "time":
			d.time(&r.Time)
		case "maxpid":
			d.signed(&r.MaxPID)
		case "curproc":
			d.signed(&r.Running)
		}
	}
}

func (d *decoder) memory(m *Memory) {
	*m = Memory{Present: d.object()}
	for more := m.Present && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "time":
			d.time(&m.Time)
		case "availableBytes":
			d.unsigned(&m.AvailableBytes)
		case "workingSetBytes":
			d.unsigned(&m.WorkingSetBytes)
		}
	}
}

func (d *decoder) filesystem(f *Filesystem) {
	*f = Filesystem{}
	for more := d.object() && d.member(); more; more = d.member() {
		switch string(d.key) {
		case "time":
			d.time(&f.Time)
		case "availableBytes":
			d.unsigned(&f.AvailableBytes)
		case "capacityBytes":
			d.unsigned(&f.CapacityBytes)
		case "inodesFree":
			d.unsigned(&f.InodesFree)
		case "inodes":
			d.unsigned(&f.Inodes)
		}
	}
}
