package podusage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/plugins/disk/internal/filesystem"
	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/hang"
)

// A pod is the state of one pod in one call.
type pod struct {
	call *call
	row  *eviction.Pod
	// volumes are those that are measured, in the row's order.
	volumes []volume
	processes
	tasks []*task // those not finished
	bad   error   // why the row cannot be used

	// containers and measured are the figures of containers and volumes.
	containers []eviction.ContainerMeasurement
	measured   []eviction.VolumeMeasurement
	oldest     time.Time
	errs       []error
	// parts rank the pod.
	parts []part
	// rest walks the pod's directory but for the volumes.
	rest *task
	// others is the usage that the kubelet charges to the pod besides containers and volumes.
	others walk.Usage
	// deleted is the usage of deleted files on the kubelet's filesystem, from a volume or a log,
	// that the pod's processes hold open.
	deleted walk.Usage
	// hidden are the parts that are not fully known.
	hidden figures.Parts
	// unfinished: the walk of such a part goes on with the next call.
	unfinished bool
}

// A part of a pod takes space on a device, 0 if that is not known.
type part struct {
	kind   kind
	device uint64
	walk.Usage
}

// A kind is that of a part, which decides for which signals it usually counts.
type kind uint8

const (
	rootfs kind = iota
	logs
	volumes
)

func (p *pod) add(k kind, device uint64, u walk.Usage) { p.parts = append(p.parts, part{k, device, u}) }

// on reports whether the part counts for a signal.
func (p part) on(s *filesystem.Contents) bool {
	return s.Holds(p.device, [...]bool{rootfs: s.Rootfs, logs: s.Logs, volumes: s.Volumes}[p.kind])
}

// A volume is measured by quota, which needs no task, or by a walk.
type volume struct {
	row   *eviction.Volume
	task  *task
	look  look
	quota bool
}

// newPods returns the pods of rows. It takes a few system calls per pod to find what to walk.
func (c *call) newPods(ctx context.Context, rows []eviction.Pod) []*pod {
	pods := make([]*pod, len(rows))
	var next atomic.Int64
	var wait hang.Group
	for range c.meter.walk.Parallel {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(rows)); i = next.Add(1) - 1 {
				pods[i] = c.newPod(ctx, &rows[i])
			}
		})
	}
	wait.Wait()
	oneOwner(pods)
	return pods
}

// newPod returns the pod of a row with the directories that c has to walk for it.
func (c *call) newPod(ctx context.Context, row *eviction.Pod) *pod {
	p := &pod{call: c, row: row, bad: checkNames(row)}
	if p.bad != nil {
		return p
	}
	if ctx.Err() == nil && (c.looks.Rootfs || c.looks.Volumes) {
		p.processes, _ = guard(ctx, &c.meter.hanging, "cgroups", func() processes { return c.meter.cgroups.of(row) }) // none if they hang
	}
	if c.looks.Rootfs {
		p.findLayers()
	}
	if c.looks.Volumes {
		p.findVolumes()
	}
	return p
}

// findVolumes lists the volumes that count for the ranking, or all in a detailed call, and what else is
// in the pod's directory.
func (p *pod) findVolumes() {
	c, row := p.call, p.row
	except := []string{}
	for i := range row.Volumes {
		v := volume{row: &row.Volumes[i]}
		dir := c.meter.places.volume(row, v.row)
		if dir == "" || !c.detailed && !v.row.CountsForRanking {
			continue
		}
		except = append(except, dir)
		var used walk.Usage
		if used, v.quota = c.projects.Usage(dir); v.quota {
			v.look = look{figure: figure{used, c.began}, ok: true}
		} else {
			v.task = &task{tree: c.meter.trees.at(dir, mounted(v.row), c.began)}
			p.tasks = append(p.tasks, v.task)
		}
		p.volumes = append(p.volumes, v)
	}
	p.rest = &task{tree: c.meter.trees.at(c.meter.places.pod(row), false, c.began)}
	p.rest.tree.set(func() { p.rest.tree.except = except })
	p.tasks = append(p.tasks, p.rest)
}

// answer returns the pod's measurement, or the reason why there was no time for one.
func (p *pod) answer(ctx, stop context.Context) eviction.Measurement {
	m, err := guard(stop, &p.call.meter.hanging, p.row.UID, func() eviction.Measurement { return p.measurement(ctx) })
	if err != nil {
		return eviction.Measurement{UID: p.row.UID, Err: err.Error()}
	}
	return m
}

// measurement puts the figures together, after all directories were walked and the runtime was
// asked.
func (p *pod) measurement(ctx context.Context) eviction.Measurement {
	c := p.call
	m := eviction.Measurement{UID: p.row.UID}
	if p.bad != nil {
		m.Err = p.bad.Error()
		return m
	}
	if c.known.err != nil && c.needs.Rootfs && len(p.cgroups) == 0 {
		m.Err = fmt.Sprintf("figures of containers: %v", c.known.err)
		return m
	}
	there, err := p.exists()
	if err == nil && !there {
		if c.known.err != nil {
			m.Err = fmt.Sprintf("no files, and the runtime was not asked: %v", c.known.err)
		} else {
			m.State = eviction.NoStats
		}
		return m
	}
	p.errs = append(p.errs, err)
	if c.looks.Logs || c.looks.Rootfs {
		p.addContainers()
	}
	p.addVolumes()
	if c.looks == everything { // also the file that containers see as /etc/hosts
		places := c.meter.places
		used, err := file(places.fs.Entry(path.Join(places.pod(p.row), "etc-hosts")))
		p.errs = append(p.errs, err)
		p.others = sum(p.others, used)
	}
	p.addDeleted(ctx)
	p.errs = append(p.errs, p.misplaced())
	if err := errors.Join(p.errs...); err != nil {
		m.Err = err.Error()
		return m
	}
	m.State = eviction.Measured
	p.fill(&m)
	return m
}

// exists reports whether the runtime or the disk has anything of the pod. The kubelet has
// figures only of pods with a running container, so that a pod between two restarts has none
// and ranks first.
func (p *pod) exists() (bool, error) {
	if p.call.known.has[p.row.UID] {
		return true, nil
	}
	there, err := p.call.meter.places.exists(p.call.meter.places.pod(p.row))
	if there || err != nil {
		return there, err
	}
	return p.call.meter.places.exists(p.call.meter.places.logs(p.row))
}

// addContainers adds the writable layers and logs of the running containers, or the logs of all
// containers if none runs. All layers and logs count for the ranking.
func (p *pod) addContainers() {
	places, looks := p.call.meter.places, p.call.looks
	dir := places.logs(p.row)
	running, unlisted := p.running()
	if looks.Logs {
		own, dirs, err := files(places.fs.Entry(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.errs = append(p.errs, err)
		}
		p.others = sum(p.others, own)
		if len(running) == 0 || unlisted {
			running = withNames(running, dirs)
		}
		p.addLogs(dir)
	}
	for _, c := range running {
		of := eviction.ContainerMeasurement{Name: c.name}
		if looks.Rootfs || slices.ContainsFunc(p.call.signals, func(s filesystem.Contents) bool { return s.Holds(c.store.device, false) }) {
			layer := p.layer(c)
			of.RootfsUsedBytes, of.RootfsInodesUsed = layer.bytes, layer.inodes
			p.add(rootfs, c.store.device, layer.usage())
		}
		if looks.Logs && plain(c.name) {
			used, _, err := files(places.fs.Entry(path.Join(dir, c.name)))
			switch {
			case err == nil:
				of.LogsUsedBytes, of.LogsInodesUsed = eviction.Some(used.Bytes), eviction.Some(used.Inodes)
				p.sampled(p.call.began)
			case !errors.Is(err, fs.ErrNotExist):
				p.errs = append(p.errs, err)
			}
		}
		p.containers = append(p.containers, of)
	}
	for _, c := range p.call.known.ended[p.row.UID] {
		p.reject(c)
		p.add(rootfs, c.store.device, c.layer.usage())
	}
}

// withNames returns containers and those with the other names, in the order of these.
func withNames(containers []container, names []string) []container {
	slices.Sort(names)
	for _, name := range names {
		if !slices.ContainsFunc(containers, func(c container) bool { return c.name == name }) {
			containers = append(containers, container{name: name})
		}
	}
	return containers
}

// running returns the running containers: those listed, and those without a name that have processes
// and are not listed. One in an old list has ended if other processes of the pod are found, and none
// of its own. unlisted reports whether some are not listed.
func (p *pod) running() (out []container, unlisted bool) {
	k := &p.call.known
	listed := k.running[p.row.UID]
	for _, c := range listed {
		lives := slices.ContainsFunc(p.cgroups, func(g cgroup) bool { return g.isOf(c) })
		if k.old == nil || lives || len(p.cgroups) == 0 {
			out = append(out, c)
		} else {
			p.hidden.Rootfs = true // its processes may be in the sandbox (gVisor, Kata)
		}
	}
	for _, g := range p.cgroups {
		known := g.name == "" || slices.ContainsFunc(listed, g.isOf)
		for id := range k.sandboxes {
			known = known || g.isOf(container{id: id})
		}
		if !known {
			unlisted = true
			out = append(out, container{id: g.name, refused: k.old != nil})
		}
	}
	return out, unlisted
}

// addVolumes adds the volumes that have a directory.
func (p *pod) addVolumes() {
	for i := range p.volumes {
		v := &p.volumes[i]
		if v.task != nil {
			v.look = v.task.look
		}
		switch {
		case v.look.ok:
			used := v.look.figure.Usage
			p.measured = append(p.measured, eviction.VolumeMeasurement{Name: v.row.Name, UsedBytes: eviction.Some(used.Bytes), InodesUsed: eviction.Some(used.Inodes)})
			p.sampled(v.look.figure.at)
			if v.row.CountsForRanking {
				p.add(volumes, 0, v.look.figure.Usage)
				p.unknown(v.look)
			}
		case v.look.err != nil && v.row.CountsForRanking:
			p.errs = append(p.errs, fmt.Errorf("volume %s: %w", v.row.Name, v.look.err))
		}
	}
	if p.rest != nil && p.rest.look.ok {
		p.add(volumes, 0, p.rest.look.figure.Usage)
		p.unknown(p.rest.look)
	}
}

// unknown records that the walk of a volume is not finished.
func (p *pod) unknown(l look) {
	p.hidden.Volumes, p.unfinished = p.hidden.Volumes || l.partial, p.unfinished || l.partial
}

// misplaced returns an error if the kubelet's directory of a pod that runs does not exist: kubeletRootDir
// is wrong or was unmounted, and the pod's volumes may hold any amount.
func (p *pod) misplaced() error {
	local := func(v eviction.Volume) bool { return p.call.meter.places.volume(p.row, &v) != "" }
	if !p.call.looks.Volumes || !p.row.Running || !slices.ContainsFunc(p.row.Volumes, local) {
		return nil
	}
	dir := p.call.meter.places.pod(p.row)
	if there, err := p.call.meter.places.exists(dir); there || err != nil {
		return err
	}
	return fmt.Errorf("%s does not exist", dir)
}

// fill writes the pod's figures into m.
func (p *pod) fill(m *eviction.Measurement) {
	c := p.call
	m.Time = p.oldest
	for _, s := range c.signals {
		var used walk.Usage
		for _, part := range p.parts {
			if part.on(&s) {
				used = sum(used, part.Usage)
			}
		}
		if s.Unit == eviction.UnitInodes {
			used.Bytes = used.Inodes
		}
		if s.Used > 0 { // blocks that files share count for each of them
			used.Bytes = min(used.Bytes, s.Used)
		}
		m.Usage = append(m.Usage, eviction.SignalUsage{Signal: s.Signal, Value: used.Bytes})
	}
	if c.looks == everything {
		m.EphemeralStorageUsedBytes = p.ephemeral()
	}
	if c.detailed {
		m.Volumes = p.measured
		m.Containers = slices.DeleteFunc(slices.Clone(p.containers), func(c eviction.ContainerMeasurement) bool { return c.Name == "" }) // not listed
	}
}

// ephemeral returns the usage that the kubelet compares with the pod's limit on ephemeral storage
// (stats/helper.go: calcEphemeralStorage): writable layers and logs of containers, volumes that
// live as long as the pod and are on the node's disk, other files beside the containers' logs,
// and the hosts file. Unlike the kubelet, it also counts deleted files. It is a lower bound if parts
// are hidden: containers that are not listed do not count, since one may be the sandbox.
func (p *pod) ephemeral() eviction.Figure {
	total := figures.Add(p.others.Bytes, p.deleted.Bytes)
	for i := range p.containers {
		c := &p.containers[i]
		if c.Name == "" {
			continue
		}
		total = figures.Add(total, figures.Add(c.RootfsUsedBytes.Value, c.LogsUsedBytes.Value))
	}
	for i := range p.volumes {
		if v := &p.volumes[i]; v.look.ok && ephemeral(v.row) {
			total = figures.Add(total, v.look.figure.Bytes)
		}
	}
	return eviction.Some(total)
}

// sampled records the time of a figure; the oldest one counts.
func (p *pod) sampled(at time.Time) {
	if !at.IsZero() && (p.oldest.IsZero() || at.Before(p.oldest)) {
		p.oldest = at
	}
}

// use is the use of a writable layer, as far as it is known.
type use struct{ bytes, inodes eviction.Figure }

func (u use) usage() walk.Usage { return walk.Usage{Bytes: u.bytes.Value, Inodes: u.inodes.Value} }

func sum(a, b walk.Usage) walk.Usage {
	return walk.Usage{Bytes: figures.Add(a.Bytes, b.Bytes), Inodes: figures.Add(a.Inodes, b.Inodes)}
}
