package gc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// removeLogs removes a container's log and its rotated files, which the runtime does not remove,
// if they are in the log directory of its pod.
func (g *containerGC) removeLogs(path, uid string) (eviction.Reclaimed, error) {
	parts, ok := partsOfLog(g.podLogsDir, path, uid)
	if !ok {
		return eviction.Reclaimed{}, nil // none, or not a kubelet's
	}
	dir, err := openLogDir(g.root, g.podLogsDir, parts)
	if errors.Is(err, fs.ErrNotExist) {
		return eviction.Reclaimed{}, nil
	}
	if err != nil {
		return eviction.Reclaimed{}, fmt.Errorf("open directory of %s: %w", path, err)
	}
	defer func() { _ = dir.Close() }() // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return eviction.Reclaimed{}, fmt.Errorf("read directory of %s: %w", path, err)
	}
	r := remover{alive: func() {}}
	for _, name := range names {
		if name == parts[2] || strings.HasPrefix(name, parts[2]+".") {
			r.removeFile(dir, name)
		}
	}
	return r.released, r.problems()
}

// openLogDir opens the directory of a log with these parts.
func openLogDir(root nodefs.FS, podLogsDir string, parts []string) (*os.File, error) {
	dir, err := os.Open(root.Path(podLogsDir))
	for _, part := range parts[:2] {
		if err != nil {
			break
		}
		outer := dir
		dir, err = openDir(outer, part)
		_ = outer.Close() // only read
	}
	return dir, err
}

// partsOfLog splits the path of a log below podLogsDir into the pod's directory, the container's
// directory and the file name. It returns false unless the path is the kubelet's: whoever creates a container
// can choose any path.
func partsOfLog(podLogsDir, path, uid string) (parts []string, ok bool) {
	inside, err := filepath.Rel(podLogsDir, path)
	if path == "" || err != nil || !filepath.IsLocal(inside) {
		return nil, false
	}
	parts = strings.Split(inside, string(filepath.Separator))
	of, ok := podOfLogDir(parts[0])
	return parts, ok && of == uid && len(parts) == 3
}

// removeLogDirs removes the log directories of pods whose content may go, if all
// sources are ready (kuberuntime_gc.go:evictPodLogsDirectories).
func (g *containerGC) removeLogDirs(ctx context.Context) {
	if !g.pods.complete {
		return
	}
	dir, err := os.Open(g.root.Path(g.podLogsDir))
	if err != nil {
		g.fail(fmt.Errorf("read log directory: %w", err))
		return
	}
	defer func() { _ = dir.Close() }() // only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		g.fail(fmt.Errorf("read log directory: %w", err))
	}
	slices.Sort(names)
	for _, name := range names {
		if g.over(ctx) {
			return
		}
		uid, ok := podOfLogDir(name)
		if !ok || !g.pods.contentMayGo(uid) || !g.isOld(dir, name, uid) {
			continue
		}
		r := remover{alive: func() { g.progress(g.released) }}
		if err := r.removeAll(ctx, dir, name); err != nil {
			g.fail(fmt.Errorf("remove log directory: %w", err))
		} else {
			g.logDirs++
		}
		g.logs = sum(g.logs, r.released)
		g.free(r.released.Bytes, r.released.Inodes)
	}
}

// isOld reports whether name is a directory that may be removed. The kubelet creates a pod's log
// directory before the runtime knows the pod, so a recently changed one may belong to a pod that
// is not in the host's list yet.
func (g *containerGC) isOld(dir *os.File, name, uid string) bool {
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	_, known := g.pods.known[uid]
	return known || st.Mtim.Nano() < g.pods.since.UnixNano()
}

// podOfLogDir returns the UID in the name of a pod's log directory, <namespace>_<name>_<uid>. It
// returns false for any other name, for example lost+found, which is not the kubelet's.
func podOfLogDir(name string) (uid string, ok bool) {
	parts := strings.Split(name, "_")
	if len(parts) != 3 {
		return "", false
	}
	for _, part := range parts {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return !inName(r) }) {
			return "", false
		}
	}
	return parts[2], true
}

// inName reports whether r may occur in a name of Kubernetes.
func inName(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.'
}

// removeLinks removes the symlinks for log shippers whose log is gone. A log is also missing for a
// moment during rotation, so the container must have exited or be gone.
func (g *containerGC) removeLinks(ctx context.Context) {
	root, err := os.OpenRoot(g.root.Path(g.settings.ContainerLogsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return // a node without log shippers
	}
	if err != nil {
		g.fail(fmt.Errorf("read log links: %w", err))
		return
	}
	defer func() { _ = root.Close() }() // only read
	links, err := fs.Glob(root.FS(), "*.log")
	if err != nil {
		g.fail(fmt.Errorf("read log links: %w", err))
	}
	for _, link := range links {
		id, ok := containerOfLink(link)
		if g.over(ctx) {
			return
		}
		if !ok || !g.dangles(root, link) {
			continue
		}
		reply, err := ask(ctx, g.step, g.client.Runtime.ContainerStatus, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		switch {
		case err != nil && !gone(err):
			g.fail(fmt.Errorf("remove log link %s: ask for its container: %w", link, err))
			continue
		case err == nil && reply.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED:
			continue
		}
		if err := root.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			g.fail(fmt.Errorf("remove log link: %w", err))
			continue
		}
		g.links++
		g.logs.Inodes++
		g.free(0, 1)
	}
}

func (g *containerGC) dangles(root *os.Root, link string) bool {
	info, err := root.Lstat(link)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return false
	}
	_, err = os.Stat(g.root.Path(filepath.Join(g.settings.ContainerLogsDir, link)))
	return errors.Is(err, fs.ErrNotExist)
}

// containerOfLink returns the ID in the name of a link, <pod>_<namespace>_<container>-<id>.log. The
// kubelet truncates long names, and so the ID; a runtime needs only six characters.
func containerOfLink(name string) (id string, ok bool) {
	name, isLog := strings.CutSuffix(name, ".log")
	i := strings.LastIndexByte(name, '-')
	id = name[i+1:]
	return id, isLog && i > 0 && len(id) >= 6
}
