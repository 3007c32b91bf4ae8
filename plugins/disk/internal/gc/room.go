package gc

import (
	"context"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// roomWait is how long to wait for the runtime to give removed layers back.
	// containerd deletes them some time after it has said that they are gone:
	// between a quarter of a second and, where a busy disk takes its time, many.
	roomWait = 15 * time.Second
	roomLook = 50 * time.Millisecond
	// roomPercent is the part that must be back, in percent: figures of layers are a
	// few seconds old, and the node goes on writing.
	roomPercent = 90
)

// room is the free space of one of the runtime's filesystems.
type room struct {
	path   string // the node's
	root   nodefs.FS
	device uint64
	before eviction.Reclaimed
}

// measureRooms reads the free space of the runtime's filesystems before anything
// is removed. What cannot be read is left out: it is for the report only. No answer
// counts as one all the same, for giving up a runtime that hangs.
func (s *step) measureRooms(ctx context.Context) []room {
	info, err := ask(ctx, s, s.client.Images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return nil
	}
	var out []room
	seen := map[uint64]bool{}
	for _, usage := range append(info.GetImageFilesystems(), info.GetContainerFilesystems()...) {
		path := usage.GetFsId().GetMountpoint()
		device, free, err := freeOn(s.root, path)
		if err == nil && !seen[device] {
			seen[device] = true
			out = append(out, room{path: path, root: s.root, device: device, before: free})
		}
	}
	return out
}

// more returns what is free now and was not before.
func (r room) more() eviction.Reclaimed {
	_, now, err := freeOn(r.root, r.path)
	if err != nil {
		return eviction.Reclaimed{}
	}
	return eviction.Reclaimed{Bytes: now.Bytes - r.before.Bytes, Inodes: now.Inodes - r.before.Inodes}
}

func (s *step) noteRooms() {
	for _, r := range s.rooms {
		more := r.more()
		s.notes = append(s.notes, fmt.Sprintf("free on %s: %+d bytes, %+d inodes", r.path, more.Bytes, more.Inodes))
	}
}

// awaitRoom waits until what the runtime has removed is free, so that the node is not
// looked at too early and a pod evicted for want of space that is about to come. Logs were
// in logDir, which may be on a filesystem of the runtime's.
func (s *step) awaitRoom(ctx context.Context, logDir string, layers, logs eviction.Reclaimed) {
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	ticker := time.NewTicker(roomLook)
	defer ticker.Stop()
	want := layers
	if device, _, err := freeOn(s.root, logDir); err == nil && slices.ContainsFunc(s.rooms, func(r room) bool { return r.device == device }) {
		want = sum(want, logs)
	}
	for len(s.rooms) > 0 {
		var more eviction.Reclaimed
		for _, r := range s.rooms {
			more = sum(more, r.more())
		}
		if more.Bytes >= enough(want.Bytes) && more.Inodes >= enough(want.Inodes) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// enough is that part of n.
func enough(n int64) int64 { return n/100*roomPercent + n%100*roomPercent/100 }

func freeOn(root nodefs.FS, name string) (device uint64, free eviction.Reclaimed, err error) {
	path, err := within(root, name)
	if err != nil {
		return 0, free, err
	}
	if device, err = (nodefs.FS{}).Device(path); err != nil {
		return 0, free, err
	}
	room, err := nodefs.FS{}.Statfs(path)
	return device, eviction.Reclaimed{Bytes: room.FreeBytes, Inodes: room.InodesFree}, err
}

// amounts prints figures for people.
func amounts(r eviction.Reclaimed) string {
	size := fmt.Sprintf("%d bytes", r.Bytes)
	if r.Bytes >= 1<<10 {
		size = inUnits(r.Bytes)
	}
	return fmt.Sprintf("%s and %d inodes", size, r.Inodes)
}

// inUnits prints bytes as the kubelet's image GC does.
func inUnits(bytes int64) string {
	size, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if size < 1<<10 {
			break
		}
		size, unit = size/(1<<10), next
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", bytes)
	}
	return fmt.Sprintf("%.1f %s", size, unit)
}
