// Package programs finds programs that run on a node beside evictd: the kubelet with its settings, and what kills processes when
// memory runs short.
package programs

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// maxFileBytes bounds a file.
	maxFileBytes = 1 << 20
	// mostEntries bounds the processes: the kernel's most.
	mostEntries = 4 << 20
)

// A process of the node, with its arguments: the first one is its program.
type process struct {
	pid, name string
	args      []string
}

// running returns the processes whose name begins with one of the names, without those of pods, and of nodes in containers as
// kind's.
func running(node nodefs.FS, names ...string) (all []process, err error) {
	entries, err := input.ReadDir(node.Path("/proc"), mostEntries)
	if err != nil {
		return nil, err
	}
	ofNode := link(node, "1", "ns/pid")
	for _, e := range entries {
		pid := e.Name()
		read := func(name string) string {
			file, err := node.Open("/proc/" + pid + "/" + name)
			if err != nil {
				return "" // it has ended
			}
			defer file.Close()
			text, _ := file.Read(new(nodefs.Buffer)) // likewise
			return strings.TrimRight(string(text), "\x00\n")
		}
		if _, notOne := strconv.Atoi(pid); notOne != nil {
			continue
		}
		name := read("comm") // unlike the arguments it needs no memory of the process, which may hang
		if !slices.ContainsFunc(names, func(of string) bool { return strings.HasPrefix(name, of) }) || strings.Contains(read("cgroup"), "kubepods") {
			continue
		}
		if its := link(node, pid, "ns/pid"); its != "" && ofNode != "" && its != ofNode {
			continue
		}
		all = append(all, process{pid, name, strings.Split(read("cmdline"), "\x00")})
	}
	return all, nil
}

// link returns where a link of a process leads, empty if it may not be read.
func link(node nodefs.FS, pid, name string) string {
	to, _ := os.Readlink(node.Path("/proc/" + pid + "/" + name))
	return to
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
