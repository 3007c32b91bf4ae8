// Package mounts is the plugin for filesystems of the node that have no signal of the kubelet, such as a scratch
// disk: each configured mount has the signals evictd.io/NAME.available and evictd.io/NAME.inodesFree.
//
// Only pods that have files there may be evicted for them: pods whose containers, or whose volumes below the kubelet's
// directory, have a directory of the filesystem mounted. A mount that a container inherits, because it has the node's
// root directory, does not count, and neither do files that are deleted and open.
package mounts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/pace"
)

// New returns the mounts plugin.
func New() sdk.Plugin {
	p := new(plugin)
	return sdk.Plugin{
		Name:        "mounts",
		Version:     "1",
		Description: "makes mounts of the node signals, for which only pods that have files there go",
		SignalsFor:  signalsFor,
		Configurer:  sdk.ConfigureChecked(validate, p.configure),
		Observer:    p,
		Measurer:    p,
		Watcher:     p,
		Ranker:      ranker{},
	}
}

// config is the plugin's own configuration.
type config struct {
	// Paths has the mount points of the node by the names of their signals.
	Paths map[string]string `json:"paths"`
}

const (
	domain = "evictd.io/"
	// mostPaths leaves room for two signals of each.
	mostPaths = 16
)

var named = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}[a-z0-9]$`)

func validate(c *config, _ eviction.NodeFacts) error {
	var errs []error
	if n := len(c.Paths); n == 0 || n > mostPaths {
		errs = append(errs, fmt.Errorf("config: paths: %d mounts, want 1 to %d such as {scratch: /mnt/nvme}", n, mostPaths))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Paths)) {
		if !named.MatchString(name) {
			errs = append(errs, fmt.Errorf("config: paths: name %.40q, want 2 to 32 of a to z, 0 to 9 and '-', a letter first", name))
		}
		if at := c.Paths[name]; !path.IsAbs(at) || path.Clean(at) != at || at == "/" {
			errs = append(errs, fmt.Errorf("config: paths.%.40s: %.200q, want a mount point such as /mnt/nvme", name, at))
		}
	}
	return errors.Join(errs...)
}

// signalsFor returns the signals of a configuration.
func signalsFor(raw []byte) (specs []eviction.SignalSpec, err error) {
	var c config
	if err := errors.Join(sdk.DecodeConfig(raw, &c), validate(&c, eviction.NodeFacts{})); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Paths)) {
		d := eviction.Definition{
			Unit: eviction.UnitBytes, Format: eviction.FormatBinarySI, Resource: domain + name,
			Condition: eviction.Condition(domain + strings.ToUpper(name[:1]) + name[1:] + "Pressure"), Candidates: eviction.RankedPods,
		}
		inodes := d
		inodes.Unit, inodes.Format, inodes.Resource = eviction.UnitInodes, eviction.FormatDecimalSI, d.Resource+"-inodes"
		specs = append(specs, eviction.SignalSpec{Signal: bytesOf(name), Definition: &d}, eviction.SignalSpec{Signal: inodesOf(name), Definition: &inodes})
	}
	return specs, nil
}

func bytesOf(name string) eviction.Signal { return eviction.Signal(domain + name + ".available") }

func inodesOf(name string) eviction.Signal { return eviction.Signal(domain + name + ".inodesFree") }

func ofInodes(s eviction.Signal) bool { return strings.HasSuffix(string(s), ".inodesFree") }

// plugin is shared by the capabilities. Each call uses the node as configured when the call begins until it ends.
type plugin struct {
	current sdk.Current[*node]
}

// node has the mounts of one configuration.
type node struct {
	facts  eviction.NodeFacts
	fs     nodefs.FS
	naming *nodefs.Naming
	pods   nodefs.Hierarchy
	mounts map[eviction.Signal]*mount
	// left has the calls that hang, by mount.
	left hang.Left
}

// A mount is a directory of the node with a filesystem.
type mount struct{ path string }

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	n := &node{facts: facts, fs: nodefs.FS{Root: facts.RootDir}, mounts: map[eviction.Signal]*mount{}}
	var namingErr, hierarchyErr error
	n.naming, namingErr = n.fs.Naming(facts.CgroupRoot, facts.CgroupDriver)
	n.pods, hierarchyErr = n.fs.PodsHierarchy()
	// In a pid namespace of its own it would see no process of a pod, and take each for one without files.
	if err := errors.Join(n.fs.CheckPIDNamespace(true), namingErr, hierarchyErr); err != nil {
		return err
	}
	for name, at := range c.Paths {
		m := &mount{at}
		n.mounts[bytesOf(name)], n.mounts[inodesOf(name)] = m, m
	}
	p.current.Set(n, func() {})
	return nil
}

// Observe implements eviction.Observer.
func (p *plugin) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	h, err := p.current.Hold()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	defer h.Release()
	return eviction.ObserveReply{Observations: h.Value.observe(ctx, req.Signals)}, nil
}

// observeFor bounds the wait for a filesystem, which leaves the caller time for the answer.
const observeFor = 500 * time.Millisecond

func (n *node) observe(ctx context.Context, signals []eviction.Signal) []eviction.Observation {
	ctx, cancel := context.WithTimeout(ctx, observeFor)
	defer cancel()
	signals = slices.DeleteFunc(slices.Clone(signals), func(s eviction.Signal) bool { return n.mounts[s] == nil }) // of another configuration
	out := make([]eviction.Observation, len(signals))
	var wait hang.Group
	for i, s := range signals {
		m := n.mounts[s]
		wait.Go(func() {
			room, err := hang.DoAs(&n.left, m.path+string(s), ctx.Done(), func() (nodefs.FilesystemSample, error) { return n.room(m) })
			as := eviction.NodeFsAvailable
			if ofInodes(s) {
				as = eviction.NodeFsInodesFree
			}
			out[i] = figures.Filesystem(figures.At(as), m.path, room, err)
			out[i].Signal = s
		})
	}
	wait.Wait()
	return out
}

// room reads a filesystem. Where nothing is mounted the figures would be those of another one.
func (n *node) room(m *mount) (nodefs.FilesystemSample, error) {
	if _, _, err := n.device(m); err != nil {
		return nodefs.FilesystemSample{}, err
	}
	return n.fs.Statfs(m.path)
}

// device returns the device of a mount, and where it is mounted.
func (n *node) device(m *mount) (device uint64, point string, err error) {
	point = n.fs.Real(m.path)
	device, err = n.fs.Device(point)
	above, errAbove := n.fs.Device(path.Dir(point))
	if err = errors.Join(err, errAbove); err == nil && device == above {
		err = fmt.Errorf("nothing is mounted on %s", m.path)
	}
	return device, point, err
}

// The fastest rates at which a filesystem is expected to fill: of an NVMe disk.
const (
	bytesPerSecond  = 4e9
	inodesPerSecond = 100_000
)

// Watch implements eviction.Watcher: it looks at the filesystems, since the kernel does not notify.
func (p *plugin) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	return p.current.Watch(ctx, func(ctx context.Context, n *node) {
		rate := func(s eviction.Signal) float64 {
			switch {
			case n.mounts[s] == nil:
				return 0
			case ofInodes(s):
				return inodesPerSecond
			default:
				return bytesPerSecond
			}
		}
		pace.Watch(ctx, req, rate, func(signals []eviction.Signal) []eviction.Observation { return n.observe(ctx, signals) }, wake)
	})
}

// A ranker names pods that have files on the mount: lower priority first, then more.
type ranker struct{}

// Rank implements eviction.Ranker.
func (ranker) Rank(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	with := slices.DeleteFunc(slices.Clone(req.Candidates), func(c eviction.Candidate) bool { return c.Measurement.UsageFor(req.Signal) <= 0 })
	return rank.SortWithReason(with, rank.Chain(rank.Priority, rank.Usage(req.Signal)), func(c *eviction.Candidate) string {
		return fmt.Sprintf("has %d %s there", c.Measurement.UsageFor(req.Signal), req.Unit)
	}), nil
}
