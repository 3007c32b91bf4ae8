package mounts

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// Bounds of what is read of a pod, which makes as many processes and mounts as its limits allow. Of a pod beyond them, what was
// read is a lower bound: if it were unknown, others would go.
const (
	maxMountsBytes = 1 << 20
	mostSpaces     = 64 // mount namespaces
	mostDirs       = 64
)

var walkOptions = walk.Options{MaxOpen: 8, MaxLinks: 1 << 17}

// Measure implements eviction.Measurer.
func (p *plugin) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	h, err := p.current.Hold()
	if err != nil {
		return err
	}
	defer h.Release()
	n := h.Value
	stop := time.Now().Add(5 * time.Second)
	if deadline, ok := ctx.Deadline(); ok {
		stop = deadline
	}
	table, whole, err := n.mountsOf("1")
	if err == nil && !whole {
		err = fmt.Errorf("the node has more than %d bytes of mounts", maxMountsBytes)
	}
	if err != nil {
		return err
	}
	for i := range req.Pods {
		// The rest of the time is shared by the pods that are left; a quarter is for the answer.
		share := time.Until(stop) * 3 / 4 / time.Duration(len(req.Pods)-i)
		one, cancel := context.WithTimeout(ctx, share)
		emit(n.measure(one, table, &req.Pods[i], req.Signals))
		cancel()
	}
	return nil
}

// measure returns the use of a pod.
func (n *node) measure(ctx context.Context, table []nodefs.Mount, pod *eviction.Pod, signals []eviction.Signal) eviction.Measurement {
	m := eviction.Measurement{UID: pod.UID, State: eviction.Measured, Time: time.Now()}
	spaces, whole, err := n.spaces(pod)
	used := map[*mount]use{}
	for _, s := range signals {
		at := n.mounts[s]
		if at == nil {
			continue
		}
		of, known := used[at]
		if !known && err == nil {
			of, err = n.use(ctx, table, spaces, whole, pod, at)
			used[at] = of
		}
		u := eviction.SignalUsage{Signal: s, Value: of.Bytes, AtMost: of.most}
		if ofInodes(s) {
			u.Value, u.AtMost = of.Inodes, of.mostInodes
		}
		m.Usage = append(m.Usage, u)
	}
	if err != nil {
		return eviction.Measurement{UID: pod.UID, Err: err.Error()}
	}
	return m
}

// A use is that of a mount by a pod. most and mostInodes are 0 if it was counted to its end.
type use struct {
	walk.Usage
	most, mostInodes int64
}

// hangsAfter is the time after its end in which a walk returns what it has counted, unless the filesystem hangs.
const hangsAfter = 250 * time.Millisecond

// use counts the files of the directories that a pod has mounted, until ctx ends. whole: spaces are all of the pod's.
func (n *node) use(ctx context.Context, table []nodefs.Mount, spaces [][]nodefs.Mount, whole bool, pod *eviction.Pod, at *mount) (u use, err error) {
	deadline, _ := ctx.Deadline()
	answers, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(hangsAfter))
	defer cancel()
	type place struct {
		device      uint64
		point, pods string
	}
	on, err := hang.DoAs(&n.left, "device of "+at.path, answers.Done(), func() (p place, err error) {
		p.device, p.point, err = n.device(at)
		p.pods = n.fs.Real(path.Join(n.facts.KubeletRootDir, "pods"))
		return p, err
	})
	if err != nil {
		return use{}, err
	}
	own := len(table) - 1
	for own >= 0 && (table[own].Point != on.point || table[own].Device != on.device) { // the last one hides others
		own--
	}
	if own < 0 {
		return use{}, fmt.Errorf("%s is not among the mounts of the node", at.path)
	}
	dirs := dirsOf(table, spaces, path.Join(on.pods, pod.UID)+"/", &table[own])
	if len(dirs) > mostDirs {
		dirs, whole = dirs[:mostDirs], false
	}
	for _, dir := range dirs {
		w, err := hang.DoAs(&n.left, "walk of "+at.path, answers.Done(), func() (counted, error) { return count(ctx, n.fs.Path(dir), on.device) })
		if err != nil {
			return use{}, err
		}
		u.Bytes, u.Inodes, whole = u.Bytes+w.Bytes, u.Inodes+w.Inodes, whole && w.done
	}
	if !whole {
		room, err := hang.DoAs(&n.left, "room of "+at.path, answers.Done(), func() (nodefs.FilesystemSample, error) { return n.room(at) })
		if err != nil {
			return use{}, err
		}
		u.most, u.mostInodes = room.CapacityBytes, max(1, room.Inodes)
	}
	return u, nil
}

// counted is the use of a directory. done: to its end.
type counted struct {
	walk.Usage
	done bool
}

func count(ctx context.Context, dir string, device uint64) (c counted, err error) {
	w, err := walk.Open(dir, walkOptions)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return counted{done: true}, nil
	case errors.Is(err, unix.ENOTDIR): // a volume may be a file
		var s unix.Stat_t
		if unix.Lstat(dir, &s) == nil && s.Dev == device {
			c.Usage = walk.Usage{Bytes: s.Blocks * 512, Inodes: 1}
		}
		return counted{c.Usage, true}, nil
	}
	if err != nil {
		return counted{}, err
	}
	defer w.Close() //nolint:errcheck // nothing was written
	if w.Device() != device {
		return counted{done: true}, nil // a pod has put something else there
	}
	for !c.done && ctx.Err() == nil {
		if c.done, err = w.Continue(ctx); err != nil && !c.done && ctx.Err() == nil {
			return counted{}, err
		}
	}
	c.Usage = w.Usage() // of what can be read
	return c, nil
}

// dirsOf returns the node's paths of the directories below a mount that a pod has in its volumes or its containers, none within another.
func dirsOf(table []nodefs.Mount, spaces [][]nodefs.Mount, volumes string, own *nodefs.Mount) (dirs []string) {
	add := func(m *nodefs.Mount) {
		if below, ok := within(m.Root, own.Root); ok && m.Device == own.Device && !m.PointReadOnly {
			dirs = append(dirs, path.Join(own.Point, below))
		}
	}
	for i := range table {
		if strings.HasPrefix(table[i].Point, volumes) {
			add(&table[i])
		}
	}
	for _, space := range spaces {
		for i := range space {
			if !inherited(table, space, &space[i]) {
				add(&space[i])
			}
		}
	}
	slices.Sort(dirs)
	var out []string
	for _, dir := range dirs {
		if len(out) == 0 || dir != out[len(out)-1] && !strings.HasPrefix(dir, out[len(out)-1]+"/") {
			out = append(out, dir)
		}
	}
	return out
}

// within returns the path of dir below root.
func within(dir, root string) (below string, ok bool) {
	if dir == root {
		return "", true
	}
	return strings.CutPrefix(dir, strings.TrimSuffix(root, "/")+"/")
}

// inherited reports whether a container has a mount only since it has a directory of the node in which the node has it.
func inherited(table, space []nodefs.Mount, m *nodefs.Mount) bool {
	i := slices.IndexFunc(space, func(p nodefs.Mount) bool { return p.ID == m.Parent })
	if i < 0 {
		return false
	}
	parent := &space[i]
	below, ok := within(m.Point, parent.Point)
	if !ok {
		return false
	}
	for _, of := range table { // where the node has the directory that the parent is
		if from, ok := within(parent.Root, of.Root); ok && of.Device == parent.Device {
			point := path.Join(of.Point, from, below)
			if slices.ContainsFunc(table, func(t nodefs.Mount) bool { return t.Point == point && t.Device == m.Device && t.Root == m.Root }) {
				return true
			}
		}
	}
	return false
}

// spaces returns the mounts of a pod's processes, once for each mount namespace. whole: all of them.
func (n *node) spaces(pod *eviction.Pod) (all [][]nodefs.Mount, whole bool, err error) {
	pids, err := n.processes(pod)
	if err != nil {
		return nil, false, err
	}
	whole = true
	seen := map[string]bool{}
	var of []int
	for _, pid := range pids {
		process := strconv.Itoa(pid)
		space, err := os.Readlink(n.fs.Path(path.Join("/proc", process, "ns/mnt")))
		if seen[space] || gone(err) {
			continue
		}
		if seen[space] = true; len(all) == mostSpaces {
			whole = false
			break
		}
		table, toTheEnd, errTable := n.mountsOf(process)
		if err = errors.Join(err, errTable); gone(err) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		all, of, whole = append(all, table), append(of, pid), whole && toTheEnd
	}
	// The process of another pod may have got the number of one that has ended.
	still, err := n.processes(pod)
	for i, pid := range slices.Backward(of) {
		if !slices.Contains(still, pid) {
			all = slices.Delete(all, i, i+1)
		}
	}
	return all, whole, err
}

// gone reports whether a process has ended.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

func (n *node) processes(pod *eviction.Pod) (pids []int, err error) {
	err = n.naming.Pod(pod.UID, string(pod.QoSClass), func(cgroup string) (err error) {
		pids, err = n.pods.Processes(cgroup)
		return err
	})
	if errors.Is(err, nodefs.ErrGone) {
		return nil, nil
	}
	return pids, err
}

// mountsOf reads the mounts that a process sees. whole: to the end.
func (n *node) mountsOf(process string) (table []nodefs.Mount, whole bool, err error) {
	f, err := os.Open(n.fs.Path(path.Join("/proc", process, "mountinfo")))
	if err != nil {
		return nil, false, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	limited := &io.LimitedReader{R: f, N: maxMountsBytes}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxMountsBytes)
	for lines.Scan() {
		if m, ok := nodefs.ParseMount(lines.Text()); ok {
			table = append(table, m)
		}
	}
	if whole = limited.N > 0; !whole && len(table) > 0 {
		table = table[:len(table)-1] // perhaps of a part of a line
	}
	return table, whole, lines.Err()
}
