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

// How much is read of mounts. A process's root comes early among its own; the node
// has a mount or two for each container, with a line for all its layers.
const (
	maxMountsBytes     = 256 << 10
	maxNodeMountsBytes = 32 << 20
)

// overlays are the directories that take what is written to overlay filesystems, as
// the node sees them, by the filesystem's device.
type overlays map[uint64]string

// nodeMounts are the overlays that the node has mounted, by what those processes
// say that are no pod's: the node's first one, this one, and the runtimes', which may
// keep their mounts to themselves. It is safe for concurrent use.
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

// add reads the mounts that a process sees, unless another one has seen the same.
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

// upperDir returns the directory that takes what is written to an overlay.
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

// readRootDevice returns the device of a process's root, as in stat's st_dev, and 0
// if it is gone. The root itself is not touched: a pod may have changed it to one
// whose server does not answer.
func readRootDevice(mounts string) (device uint64) {
	eachMount(mounts, maxMountsBytes, func(m nodefs.Mount) {
		if m.Point == "/" {
			device = m.Device // the last one hides those before it
		}
	})
	return device
}

// eachMount reads mounts from a file of /proc, as far as it can.
func eachMount(name string, most int64, each func(nodefs.Mount)) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // nothing was written
	lines := bufio.NewScanner(io.LimitReader(f, most))
	lines.Buffer(nil, maxMountsBytes) // each lower layer adds to the line
	for lines.Scan() {
		if m, ok := nodefs.ParseMount(lines.Text()); ok {
			each(m)
		}
	}
}
