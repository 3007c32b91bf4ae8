// Package systemd notifies systemd of the daemon's state, and plans how to keep evictd and the
// runtime in memory. On a node that thrashes both must stay resident. It writes no file.
package systemd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/crisocket"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// runtimeFloor and evictdFloor are the least memory.min, in bytes: an idle service has fewer
	// pages resident than it needs to evict.
	runtimeFloor = 96 << 20
	evictdFloor  = 64 << 20
	// leastAll or a tenth of the node's memory, whichever is more, but at most a third of it, is for
	// all services together: evictd has half of that at most. A figure is rounded up to step.
	leastAll = 256 << 20
	step     = 8 << 20

	// Mark begins each drop-in: others are not replaced or removed. The purge of the package looks
	// for it, too.
	Mark = "# evictctl protect-node --write made this file, evictctl protect-node --remove removes it.\n"
)

// A Unit is a service, or a slice above one: a cgroup is protected at most as far as its parent.
type Unit struct {
	Cgroup string
	// UsedBytes is anonymous and mapped memory, of a slice that of the services to protect in it.
	UsedBytes int64
	// NowBytes is memory.min, and WantBytes at least as much.
	NowBytes, WantBytes int64
}

// Name is the unit's name in systemd.
func (u Unit) Name() string { return path.Base(u.Cgroup) }

// DropIn returns the path and the text of the unit's drop-in.
func (u Unit) DropIn() (file, text string) {
	file, text = Path(u.Name()), fmt.Sprintf("MemoryMin=%dM\n", u.WantBytes>>20)
	if strings.HasSuffix(u.Cgroup, ".slice") {
		return file, Mark + "[Slice]\n" + text
	}
	return file, Mark + "[Service]\n" + text + "CPUWeight=1000\nIOWeight=1000\n"
}

// Path returns the path of the drop-in of a unit.
func Path(unit string) string { return "/etc/systemd/system/" + unit + ".d/50-evictd.conf" }

// Plan returns the units to protect, each slice before the units in it: the service that listens on
// the runtime's endpoint, evictd.service if it is installed, and the slices above both.
func Plan(ctx context.Context, fs nodefs.FS, endpoint string) ([]Unit, error) {
	if _, err := os.Stat(fs.Path("/run/systemd/system")); err != nil {
		return nil, fmt.Errorf("%w: want a node that systemd has booted", err)
	}
	h, err := fs.MemoryHierarchy()
	machine := fs.MachineMemory(nodefs.MemoryRules{})
	defer machine.Close()
	node, unread := machine.Read(&nodefs.Buffer{})
	switch {
	case err != nil || unread != nil:
		return nil, cmp.Or(err, unread)
	case h.Version != nodefs.V2:
		return nil, fmt.Errorf("%s: memory has cgroup v1 on this node, without memory.min; want cgroup v2", h.Path("/"))
	}
	runtime, err := runtimeService(ctx, fs, fs.Own(crisocket.Path(endpoint)))
	if err != nil {
		return nil, err
	}
	var services []Unit
	if installed, _ := filepath.Glob(fs.Path("/*/systemd/system/evictd.service")); len(installed) > 0 {
		evictd := Unit{Cgroup: "/system.slice/evictd.service", WantBytes: evictdFloor}
		running, _ := filepath.Glob(h.Path("/*.slice/evictd.service"))
		nested, _ := filepath.Glob(h.Path("/*.slice/*.slice/evictd.service"))
		for _, at := range append(running, nested...) {
			evictd.Cgroup = strings.TrimPrefix(at, h.Path("/"))
		}
		services = append(services, evictd)
	}
	return figures(h, append(services, Unit{Cgroup: runtime, WantBytes: runtimeFloor}), node.TotalBytes)
}

// figures fills in the figures of services on a node with so many bytes, and adds the slices above.
func figures(h nodefs.Hierarchy, services []Unit, node int64) (plan []Unit, err error) {
	left, above := min(max(node/10, leastAll), node/3), map[string]Unit{}
	for i, u := range services {
		p, err := nodefs.ReadProtection(h, u.Cgroup)
		if err != nil && !errors.Is(err, nodefs.ErrGone) { // evictd need not run
			return nil, err
		}
		u.UsedBytes, u.NowBytes = p.Anon+p.Mapped, min(p.Min, node)
		want := min(max(u.WantBytes, u.UsedBytes+u.UsedBytes/2), left/int64(len(services)-i))
		left -= want
		u.WantBytes = max((want+step-1)/step*step, u.NowBytes)
		plan = append(plan, u)
		for at := path.Dir(u.Cgroup); strings.HasSuffix(at, ".slice"); at = path.Dir(at) {
			p, err := nodefs.ReadProtection(h, at)
			if err != nil && !errors.Is(err, nodefs.ErrGone) {
				return nil, err
			}
			s := above[at]
			above[at] = Unit{at, s.UsedBytes + u.UsedBytes, min(p.Min, node), s.WantBytes + u.WantBytes}
		}
	}
	for _, s := range above {
		s.WantBytes = max(s.WantBytes, s.NowBytes)
		plan = append(plan, s)
	}
	slices.SortFunc(plan, func(a, b Unit) int { return cmp.Compare(a.Cgroup, b.Cgroup) })
	return plan, nil
}

// runtimeService returns the cgroup of the service that listens on a socket.
func runtimeService(ctx context.Context, fs nodefs.FS, socket string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	pid, err := crisocket.Peer(conn)
	cgroup, unread := nodefs.CgroupOf(fs, pid)
	if err := errors.Join(err, unread, conn.Close()); err != nil {
		return "", err
	}
	service, _, found := strings.Cut(cgroup+"/", ".service/")
	if !found {
		return "", fmt.Errorf("%s: process %d listens there, in cgroup %q; want a container runtime that is a service of systemd", socket, pid, cgroup)
	}
	return service + ".service", nil
}

// A strain holds counters of what a shortage of memory costs: page faults of this process that read
// from a disk, and the time in which tasks of the node waited for memory.
type strain struct {
	faults int64
	waited time.Duration
}

// waits are the node's counters, the best first: the number behind before, each for so much time. A
// kernel without PSI counts pages that tasks scan to free some, ten thousands a second in a thrash.
var waits = [...]struct {
	path, before string
	each         time.Duration
}{{"/proc/pressure/memory", " total=", time.Microsecond}, {"/proc/vmstat", "\npgscan_direct ", 100 * time.Microsecond}}

// openStrain returns a function that reads the counters. It opens the node's once: on a thrashing
// node a path may have to be read from the disk.
func openStrain(fs nodefs.FS) (read func() strain) {
	var file *nodefs.File // nil if /proc has none: ProcSubset=pid in the unit
	var b nodefs.Buffer
	w := waits[0]
	for i := 0; file == nil && i < len(waits); i++ {
		w = waits[i]
		file, _ = fs.Open(w.path)
	}
	return func() (s strain) {
		var usage unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // fails for a bad address alone
		s.faults = int64(usage.Majflt)               //nolint:unconvert // int32 on 386
		if file != nil {
			text, _ := file.Read(&b)
			_, text, _ = bytes.Cut(text, []byte(w.before))
			text, _, _ = bytes.Cut(text, []byte("\n"))
			n, _ := strconv.ParseInt(string(text), 10, 64)
			s.waited = time.Duration(n) * w.each
		}
		return s
	}
}
