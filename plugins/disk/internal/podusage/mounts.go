package podusage

import (
	"bufio"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/evictd/evictd/shared/nodefs"
)

// Limits on reading mounts. A process's root comes early among its mounts; the node has a mount
// or two per container, with a line that lists all its layers.
const (
	maxMountsBytes     = 256 << 10
	maxNodeMountsBytes = 32 << 20
)

// overlays maps the device of an overlay filesystem to its upper directory, as the node names it.
type overlays map[uint64]string

// nodeMounts are the overlays that the node has mounted, as seen by processes outside of pods:
// PID 1, this process and the runtimes', which may have a private mount namespace. It is safe
// for concurrent use.
type nodeMounts struct {
	node nodefs.FS

	mu       sync.Mutex
	overlays overlays
	read     map[string]bool // by mount namespace
}

func newNodeMounts(node nodefs.FS) *nodeMounts {
	m := &nodeMounts{node: node, overlays: make(overlays), read: make(map[string]bool)}
	m.add("1")
	m.add("self")
	return m
}

// add reads the mounts of a process, unless its mount namespace was read before.
func (m *nodeMounts) add(process string) {
	dir := m.node.Path(path.Join("/proc", process))
	space, err := os.Readlink(path.Join(dir, "ns/mnt"))
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && m.read[space] {
		return
	}
	m.read[space] = true
	eachMount(path.Join(dir, "mountinfo"), maxNodeMountsBytes, m.overlays.add)
}

// upperDir returns the directory to which an overlay writes.
func (m *nodeMounts) upperDir(device uint64) (dir string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, ok = m.overlays[device]
	return dir, ok
}

func (o overlays) add(m nodefs.Mount) {
	if m.Kind != "overlay" {
		return
	}
	for option := range strings.SplitSeq(m.Options, ",") {
		if dir, is := strings.CutPrefix(option, "upperdir="); is && path.IsAbs(dir) {
			o[m.Device] = nodefs.Unescape(dir)
		}
	}
}

// readRootDevice returns the device of a process's root, as in stat's st_dev, and 0 if it is
// gone. It does not access the root itself, which the pod may have changed to one whose server
// does not answer.
func readRootDevice(mounts string) (device uint64) {
	eachMount(mounts, maxMountsBytes, func(m nodefs.Mount) {
		if m.Point == "/" {
			device = m.Device // the last mount hides those before it
		}
	})
	return device
}

// eachMount calls each for the mounts in a mountinfo file, as far as it can read them.
func eachMount(name string, most int64, each func(nodefs.Mount)) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // nothing was written
	lines := bufio.NewScanner(io.LimitReader(f, most))
	lines.Buffer(nil, maxMountsBytes) // each lower layer makes the line longer
	for lines.Scan() {
		if m, ok := nodefs.ParseMount(lines.Text()); ok {
			each(m)
		}
	}
}
