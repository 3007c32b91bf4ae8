package summary

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
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

// decoder converts the values of a scanner into a Summary. Each method reads the current value.
type decoder struct {
	scanner

	entries int
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

// A field is a member of an object, and where its value goes.
type field struct {
	name string
	to   any // *string, *time.Time, *eviction.Figure, a function that reads the value, or nil to skip it
}

// fields reads members of an object, and skips all others.
func (d *decoder) fields(all ...field) {
	for more := d.object() && d.member(); more; more = d.member() {
		i := slices.IndexFunc(all, func(f field) bool { return f.name == string(d.key) })
		if i < 0 {
			continue
		}
		switch to := all[i].to.(type) {
		case *string:
			d.str(to)
		case *time.Time:
			d.time(to)
		case *eviction.Figure:
			d.unsigned(to)
		case func():
			to()
		}
	}
}

func (d *decoder) summary() (s *Summary, hasNode bool) {
	s = new(Summary)
	d.fields(
		field{"node", func() {
			hasNode = d.peek() == '{'
			d.node(&s.Node)
		}},
		field{"pods", func() { s.Pods = list(d, nil, (*decoder).pod) }},
	)
	return s, hasNode
}

func (d *decoder) node(n *Node) {
	*n = Node{}
	d.fields(
		field{"nodeName", &n.Name},
		field{"memory", func() { d.memory(&n.Memory) }},
		field{"systemContainers", func() { n.SystemContainers = list(d, nil, (*decoder).systemContainer) }},
		field{"fs", func() { d.filesystem(&n.Fs) }},
		field{"runtime", func() { d.runtime(n) }},
		field{"rlimit", func() { d.rlimit(&n.Rlimit) }},
	)
}

func (d *decoder) systemContainer(c *SystemContainer) {
	d.fields(field{"name", &c.Name}, field{"memory", func() { d.memory(&c.Memory) }})
}

func (d *decoder) runtime(n *Node) {
	n.ImageFs, n.ContainerFs = Filesystem{}, Filesystem{}
	d.fields(
		field{"imageFs", func() { d.filesystem(&n.ImageFs) }},
		field{"containerFs", func() { d.filesystem(&n.ContainerFs) }},
	)
}

func (d *decoder) rlimit(r *Rlimit) {
	*r = Rlimit{}
	d.fields(
		field{"time", &r.Time},
		field{"maxpid", func() { d.signed(&r.MaxPID) }},
		field{"curproc", func() { d.signed(&r.Running) }},
	)
}

func (d *decoder) memory(m *Memory) {
	*m = Memory{Present: d.peek() == '{'}
	d.fields(field{"time", &m.Time}, field{"availableBytes", &m.AvailableBytes}, field{"workingSetBytes", &m.WorkingSetBytes})
}

func (d *decoder) filesystem(f *Filesystem) {
	*f = Filesystem{}
	d.fields(
		field{"time", &f.Time},
		field{"availableBytes", &f.AvailableBytes},
		field{"capacityBytes", &f.CapacityBytes},
		field{"inodesFree", &f.InodesFree},
		field{"inodes", &f.Inodes},
	)
}
