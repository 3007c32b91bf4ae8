package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A Node is a directory tree that looks to evictd like a node on cgroup v1.
type Node struct {
	Root       string
	TotalBytes int64
	t          testing.TB
}

// NewNode makes a node with totalBytes of memory, none of it used.
func NewNode(t testing.TB, totalBytes int64) *Node {
	t.Helper()
	n := &Node{Root: t.TempDir(), TotalBytes: totalBytes, t: t}
	n.write("proc/meminfo", fmt.Sprintf("MemTotal: %d kB\nMemFree: %d kB\nMemAvailable: %d kB\n", totalBytes>>10, totalBytes>>10, totalBytes>>10))
	n.write("proc/loadavg", "0.00 0.00 0.00 1/100 1000\n")
	n.write("proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n")
	n.write("proc/self/mounts", "cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n")
	n.cgroup("", 0, totalBytes)
	n.SetAvailable(totalBytes)
	return n
}

// SetAvailable sets memory.available of the node.
func (n *Node) SetAvailable(bytes int64) {
	n.t.Helper()
	n.write("sys/fs/cgroup/memory/memory.usage_in_bytes", fmt.Sprintln(n.TotalBytes-bytes))
}

// AddPod makes the cgroup of a pod with a working set. qos is "", "burstable" or
// "besteffort".
func (n *Node) AddPod(qos, uid string, workingSetBytes int64) {
	n.t.Helper()
	n.cgroup("kubepods", 0, 0)
	n.cgroup(filepath.Join("kubepods", qos), 0, 0)
	n.cgroup(filepath.Join("kubepods", qos, "pod"+uid), workingSetBytes, 0)
}

// AddContainers makes the cgroups of a pod's containers, as containerd names them.
func (n *Node) AddContainers(qos, uid string, ids []string) {
	n.t.Helper()
	for _, id := range ids {
		n.cgroup(filepath.Join("kubepods", qos, "pod"+uid, id), 0, 0)
	}
}

func (n *Node) cgroup(path string, usage, limit int64) {
	n.t.Helper()
	if limit == 0 {
		limit = 1<<63 - 4096
	}
	dir := filepath.Join("sys/fs/cgroup/memory", path)
	n.write(filepath.Join(dir, "memory.usage_in_bytes"), fmt.Sprintln(usage))
	n.write(filepath.Join(dir, "memory.limit_in_bytes"), fmt.Sprintln(limit))
	n.write(filepath.Join(dir, "memory.stat"), "cache 0\nrss 0\ninactive_file 0\ntotal_cache 0\ntotal_inactive_file 0\n")
}

// write replaces the content of a file in place, at equal length: a reader that has the file open
// would not see a new inode.
func (n *Node) write(name, content string) {
	n.t.Helper()
	path := filepath.Join(n.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	// No rename, since open descriptors must see the new figure. Padding keeps the length
	// equal, so that a reader never sees the rest of a longer figure.
	if len(content) < figureWidth {
		content = fmt.Sprintf("%-*s\n", figureWidth-1, content[:max(0, len(content)-1)])
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		n.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(content), 0); err != nil {
		n.t.Fatal(err)
	}
}

// figureWidth is wide enough for every int64 and a line feed.
const figureWidth = 24
