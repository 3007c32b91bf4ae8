package podusage

import (
	"bufio"
	"io"
	"os"
	"path"
	"regexp"
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

// overlays are the overlay filesystems that are mounted for containers, by device.
type overlays map[uint64]overlay

// An overlay has the upper directory, as the node names it, to which a container writes, "" if none does: it is the node's root.
type overlay struct {
	upper string
	// container is the ID in the mount point, "" if there is none.
	container string
}

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
	eachMount(path.Join(dir, "mountinfo"), maxNodeMountsBytes, func(mount nodefs.Mount) { m.overlays.add(mount, process == "1") })
}

// layer returns the overlay of a device.
func (m *nodeMounts) layer(device uint64) (of overlay, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of, ok = m.overlays[device]
	return of, ok
}

// add adds a mount of the node if it is an overlay where a runtime mounts that of a container: containerd at <container>/rootfs,
// CRI-O and Docker at <layer>/merged. The root of a process is no sign: it may be the node's own, or that of another container.
func (o overlays) add(m nodefs.Mount, ofNode bool) {
	own, known := o[m.Device]
	base, dir := path.Base(m.Point), path.Dir(m.Point)
	switch {
	case m.Kind != "overlay" || known && own.upper == "":
		return
	case ofNode && m.Point == "/":
		o[m.Device] = overlay{}
		return
	case base == "rootfs" && containerID.MatchString(path.Base(dir)):
		own.container = path.Base(dir)
	case base != "rootfs" && base != "merged":
		return
	}
	for option := range strings.SplitSeq(m.Options, ",") {
		upper, is := strings.CutPrefix(option, "upperdir=")
		if upper = nodefs.Unescape(upper); !is || strings.HasPrefix(upper, "/proc/") { // a descriptor of the process that has mounted it
			continue
		}
		if !path.IsAbs(upper) { // from the directory of all layers: with their whole paths the options were too long
			upper = path.Join(path.Dir(dir), upper)
		}
		own.upper = upper
		o[m.Device] = own
	}
}

// containerID matches the ID of a container of containerd or CRI-O.
var containerID = regexp.MustCompile("^[0-9a-f]{64}$")

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
