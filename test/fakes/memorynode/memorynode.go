// Package memorynode stands in for a node whose memory a test sets, for the plugins that read memory cgroups.
package memorynode

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
)

// A Node is a version 2 node of 1000 MiB in a directory, whose use a test
// sets. Nothing in it calls, so the watcher lives on its poll alone.
type Node struct {
	t    *testing.T
	Root string
	stat *os.File
}

// New returns a node of which 100 MiB are used, until the test ends.
func New(t *testing.T) *Node {
	t.Helper()
	n := &Node{t: t, Root: t.TempDir()}
	n.Write(map[string]string{
		"proc/meminfo":                     "MemTotal: 1024000 kB\n",
		"sys/fs/cgroup/cgroup.controllers": "memory\n",
		"sys/fs/cgroup/memory.stat":        "",
	})
	stat, err := os.OpenFile(filepath.Join(n.Root, "sys/fs/cgroup/memory.stat"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stat.Close() })
	n.stat = stat
	n.Use(100)
	return n
}

// Use sets the working set. The content keeps its length, so that a reader
// never sees half of it.
func (n *Node) Use(mibs int64) { n.UseBytes(mibs << 20) }

// UseBytes sets the working set in bytes.
func (n *Node) UseBytes(bytes int64) {
	if _, err := fmt.Fprintf(at{n.stat}, "anon %020d\nfile 0\ninactive_file 0\n", bytes); err != nil {
		n.t.Fatal(err)
	}
}

// at writes to the start of a file.
type at struct{ f *os.File }

// Write implements io.Writer.
func (a at) Write(p []byte) (int, error) { return a.f.WriteAt(p, 0) }

// Facts returns the node as plugins are configured with it.
func (n *Node) Facts() eviction.NodeFacts {
	return eviction.NodeFacts{RootDir: n.Root, CgroupDriver: "cgroupfs"}
}

// Write writes files of the node, by their paths below its root.
func (n *Node) Write(files map[string]string) {
	n.t.Helper()
	for name, content := range files {
		testos.Put(n.t, filepath.Join(n.Root, name), content, 0o644)
	}
}
