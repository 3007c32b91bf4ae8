package gc

import (
	"context"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// roomWait limits the wait until the space of removed layers is free. containerd deletes them
	// after it has reported their removal: a quarter of a second later or, on a busy disk, many
	// seconds.
	roomWait = 15 * time.Second
	roomLook = 50 * time.Millisecond
	// roomPercent is the percentage of the space that must be free again: figures of layers are
	// a few seconds old, and the node keeps writing.
	roomPercent = 90
	// roomSettles is the time for which nothing more must have been freed: sizes of images may be
	// compressed, so that more may follow than they promise.
	roomSettles = 250 * time.Millisecond
	// roomStalls ends the wait when nothing has been freed for this time: images that share
	// layers release less than their sizes promise.
	roomStalls = 3 * time.Second
)

// room is a filesystem of the runtime and its free space before the removals.
type room struct {
	path   string // the node's
	device uint64
	before eviction.Reclaimed
}

// measureRooms reads the free space of the runtime's filesystems before anything is removed. It
// omits what cannot be read, since that is needed for the report only. A missing answer still
// counts as a sign that the runtime hangs.
func (s *step) measureRooms(ctx context.Context) []room {
	info, err := ask(ctx, s, s.client.Images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return nil
	}
	var out []room
	seen := map[uint64]bool{}
	for _, usage := range append(info.GetImageFilesystems(), info.GetContainerFilesystems()...) {
		path := usage.GetFsId().GetMountpoint()
		device, free, err := s.freeOn(path)
		if err == nil && !seen[device] {
			seen[device] = true
			out = append(out, room{path: path, device: device, before: free})
		}
	}
	return out
}

// gained returns how much more is free now than before.
func (s *step) gained(r room) eviction.Reclaimed {
	_, now, err := s.freeOn(r.path)
	if err != nil {
		return eviction.Reclaimed{}
	}
	return eviction.Reclaimed{Bytes: now.Bytes - r.before.Bytes, Inodes: now.Inodes - r.before.Inodes}
}

func (s *step) noteRooms() {
	for _, r := range s.rooms {
		more := s.gained(r)
		s.notes = append(s.notes, fmt.Sprintf("free on %s: %+d bytes, %+d inodes", r.path, more.Bytes, more.Inodes))
	}
}

// awaitRoom waits until the space of what the runtime has removed is free. Otherwise the host might
// look too early and evict a pod for space that is about to be freed. It ends when want is free and
// nothing more follows, when nothing more was freed for longest, or when otherwise returns true.
func (s *step) awaitRoom(ctx context.Context, want eviction.Reclaimed, longest time.Duration, otherwise func() bool) {
	ctx, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	ticker := time.NewTicker(roomLook)
	defer ticker.Stop()
	var most eviction.Reclaimed
	for grown := time.Now(); len(s.rooms) > 0 && !otherwise(); {
		var more eviction.Reclaimed
		for _, r := range s.rooms {
			more = sum(more, s.gained(r))
		}
		if more.Bytes > most.Bytes || more.Inodes > most.Inodes {
			grown = time.Now()
			most = eviction.Reclaimed{Bytes: max(most.Bytes, more.Bytes), Inodes: max(most.Inodes, more.Inodes)}
		}
		still := time.Since(grown)
		if still >= longest || still >= roomSettles && most.Bytes >= enough(want.Bytes) && most.Inodes >= enough(want.Inodes) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// enough returns roomPercent of n.
func enough(n int64) int64 { return n/100*roomPercent + n%100*roomPercent/100 }

func (s *step) freeOn(name string) (device uint64, free eviction.Reclaimed, err error) {
	if device, err = s.root.Device(name); err != nil {
		return 0, free, err
	}
	room, err := s.statfs(name)
	return device, eviction.Reclaimed{Bytes: room.FreeBytes, Inodes: room.InodesFree}, err
}

// amounts formats amounts for people.
func amounts(r eviction.Reclaimed) string {
	size := fmt.Sprintf("%d bytes", r.Bytes)
	if r.Bytes >= 1<<10 {
		size = inUnits(r.Bytes)
	}
	return fmt.Sprintf("%s and %d inodes", size, r.Inodes)
}

// inUnits formats bytes like the kubelet's image GC.
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
