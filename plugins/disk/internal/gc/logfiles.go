package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// The suffixes of a rotated log, and of the file beside one that is being compressed
// (container_log_manager.go:rotateLatestLog, compressLog).
var (
	rotation    = regexp.MustCompile(`^\.([0-9]{8}-[0-9]{6})(\.gz)?$`)
	compressing = []string{".tmp", ".gz"}
)

// A rotatedLog is a log that the kubelet has rotated and the runtime no longer writes.
type rotatedLog struct {
	// of is the current log: the pod's directory, the container's directory and the file name.
	of          []string
	name, stamp string
}

// logGC is one run of log GC.
type logGC struct {
	*step
	podLogsDir, kubeletRootDir string
	// files has the size and number of the removed files, busy the number of those left for now.
	files      eviction.Reclaimed
	busy       int
	containers map[string]bool
}

// Logs removes rotated logs of running containers, oldest first, until want is free on the
// filesystem of the logs, or all of them if want is zero. It reports what is free more than before,
// at most what the files occupied. With the setting off it returns eviction.ErrUnsupported. progress
// is called as in Containers. The result is valid even with an error.
func (c *Collector) Logs(ctx context.Context, want eviction.Reclaimed, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	if !c.settings.Load().LogGC {
		return eviction.Reclaimed{}, fmt.Errorf("%w: logGC is false", eviction.ErrUnsupported)
	}
	c.urgent.Add(1)
	defer c.urgent.Add(-1)
	s, err := c.begin(ctx, progress)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	defer c.end()
	g := logGC{step: s, podLogsDir: c.PodLogsDir, kubeletRootDir: c.KubeletRootDir, containers: map[string]bool{}}
	return g.run(ctx, want)
}

func (g *logGC) run(ctx context.Context, want eviction.Reclaimed) (eviction.Reclaimed, error) {
	device, before, err := g.freeOn(g.podLogsDir)
	kubelets, _, errRoot := g.freeOn(g.kubeletRootDir)
	if err := errors.Join(err, errRoot); err != nil {
		return eviction.Reclaimed{}, fmt.Errorf("find the filesystem of logs: %w", err)
	}
	if device != kubelets {
		g.notes = append(g.notes, fmt.Sprintf("removed nothing: podLogsDir %s is not on the filesystem of kubeletRootDir %s", g.podLogsDir, g.kubeletRootDir))
		return g.reported(), nil
	}
	g.rooms = []room{{path: g.podLogsDir, device: device, before: before}}
	logs, err := g.list(ctx)
	if err != nil {
		return eviction.Reclaimed{}, err
	}
	newer := g.removeFor(ctx, want, logs)
	g.notes = append(g.notes, fmt.Sprintf("removed %d rotated logs of %d containers, %s; kept %d newer", g.files.Inodes, len(g.containers), inUnits(g.files.Bytes), newer))
	g.note(g.busy, "that is being compressed or has another link", "that are being compressed or have another link")
	g.noteRooms()
	more := g.gained(g.rooms[0])
	g.free(min(max(more.Bytes, 0), g.files.Bytes), min(max(more.Inodes, 0), g.files.Inodes))
	return g.reported(), g.problems(ctx)
}

// list returns the rotated logs of all running containers, oldest first.
func (g *logGC) list(ctx context.Context) ([]rotatedLog, error) {
	reply, err := ask(ctx, g.step, g.client.Runtime.ListContainers, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	var all []rotatedLog
	for _, c := range reply.GetContainers() {
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if g.over(ctx) {
			break
		}
		reply, err := ask(ctx, g.step, g.client.Runtime.ContainerStatus, &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		if err != nil {
			if !gone(err) {
				g.fail(fmt.Errorf("ask for the log of container %s: %w", c.GetId(), err))
			}
			continue
		}
		of, ok := partsOfLog(g.podLogsDir, reply.GetStatus().GetLogPath(), c.GetLabels()[labelPodUID])
		if !ok {
			continue
		}
		logs, err := g.rotated(of)
		if err != nil {
			g.fail(fmt.Errorf("look for rotated logs of container %s: %w", c.GetId(), err))
		}
		all = append(all, logs...)
	}
	slices.SortFunc(all, func(a, b rotatedLog) int {
		return cmp.Or(cmp.Compare(a.stamp, b.stamp), slices.Compare(a.of, b.of), cmp.Compare(a.name, b.name))
	})
	return all, nil
}

// rotated returns the rotated logs beside the current one. The kubelet renames the log before the
// runtime opens another, and renames it back if the runtime does not. So the runtime may still write
// the listed files unless there is a current log after the listing.
func (g *logGC) rotated(of []string) (logs []rotatedLog, err error) {
	dir, err := openLogDir(g.root, g.podLogsDir, of)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	if st, ok := fileIn(dir, of[2]); !ok || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, nil
	}
	for _, name := range names {
		rest, ok := strings.CutPrefix(name, of[2])
		if m := rotation.FindStringSubmatch(rest); ok && m != nil {
			logs = append(logs, rotatedLog{of, name, m[1]})
		}
	}
	return logs, nil
}

// removeFor removes logs until want is free, and returns how many it has not come to: each time as
// many as hold the missing amounts. Then it waits for their space, but not for long in all: a file
// that a log shipper has open frees nothing.
func (g *logGC) removeFor(ctx context.Context, want eviction.Reclaimed, logs []rotatedLog) (newer int) {
	free := func() eviction.Reclaimed { return g.gained(g.rooms[0]) }
	short := func(free eviction.Reclaimed) bool {
		return want == eviction.Reclaimed{} || free.Bytes < want.Bytes || free.Inodes < want.Inodes
	}
	end := time.Now().Add(roomWait)
	for len(logs) > 0 && !g.over(ctx) && short(free()) {
		for promised := free(); len(logs) > 0 && !g.over(ctx) && short(promised); logs = logs[1:] {
			promised = sum(promised, g.remove(logs[0]))
		}
		g.awaitRoom(ctx, g.files, min(roomStalls, time.Until(end)), func() bool { return !short(free()) })
	}
	return len(logs)
}

// remove removes a log and returns what it occupied. It leaves a log that the kubelet is compressing,
// since the compressed file would come in its place, and one with another link, which keeps the
// blocks.
func (g *logGC) remove(l rotatedLog) eviction.Reclaimed {
	defer g.progress(g.released)
	path := filepath.Join(append(slices.Clone(l.of[:2]), l.name)...)
	r := remover{}
	dir, err := openLogDir(g.root, g.podLogsDir, l.of)
	if err != nil {
		r.fail(path, err)
	} else {
		defer func() { _ = dir.Close() }() // only read
		st, ok := fileIn(dir, l.name)
		busy := st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1
		for _, suffix := range compressing {
			_, both := fileIn(dir, l.name+suffix)
			busy = busy || both
		}
		switch {
		case !ok: // it is gone
		case busy:
			g.busy++
		case r.unlink(dir, l.name, path, &st):
			g.containers[filepath.Join(l.of...)] = true
		}
	}
	if err := r.problems(); err != nil {
		g.fail(fmt.Errorf("remove rotated log: %w", err))
	}
	g.files = sum(g.files, r.released)
	return r.released
}

// fileIn returns the status of name in dir, and false if it cannot be read.
func fileIn(dir *os.File, name string) (st unix.Stat_t, ok bool) {
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err == nil
}
