// Package pid is the plugin for pid.available: it observes the signal and watches for crossings,
// measures the tasks of pods and ranks by the kubelet's rule. Its figures come from /proc, by the kubelet's formula, and from
// the pids controller of cgroup version 1 and 2. pid.available is the number of tasks that pods can
// still start: below the machine's limit, or below that of the cgroup of all pods or of one above it
// if that is closer.
//
// pid.available counts tasks, which are threads, and so does the pids controller:
// pods rank by their tasks. The kubelet's process_count sums up the
// processes of a pod's containers instead: a pod of few processes with thousands
// of threads looks small to it, and the sandbox's one process is left out.
//
// It can be served as it is (host/cmd/evictd) or be modified: the plugin is a value, and
// a vendor may replace or clear its fields.
package pid

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/pace"
)

// New returns the pid plugin.
func New() sdk.Plugin {
	p := new(plugin)
	return sdk.Plugin{
		Name:       "pid",
		Version:    "1",
		Signals:    sdk.Signals(eviction.PIDAvailable),
		Configurer: sdk.Configure(p.configure),
		Observer:   p,
		Measurer:   p,
		Watcher:    p,
		Ranker:     sdk.RankAsKubelet(),
	}
}

// plugin is shared by the capabilities. Each call uses the node as configured when the call
// begins until it ends.
type plugin struct {
	current sdk.Current[*node]
}

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	fs := nodefs.FS{Root: facts.RootDir}
	naming, namingErr := fs.Naming(facts.CgroupRoot, facts.CgroupDriver)
	hierarchy, hierarchyErr := fs.PIDsHierarchy()
	namespaceErr := fs.CheckPIDNamespace(c.NestedNode)
	if errors.Is(namespaceErr, nodefs.ErrNestedPIDNamespace) {
		namespaceErr = fmt.Errorf("%w, or set config.nestedNode if the node is a container itself (kind, LXC)", namespaceErr)
	}
	if err := errors.Join(namespaceErr, namingErr, hierarchyErr); err != nil {
		return err
	}
	next := &node{gauge: fs.PIDs(naming), pods: hierarchy.PodTasks(naming)}
	p.current.Set(next, func() { next.gauge.Close(); next.pods.Close() })
	return nil
}

// config is the plugin's own configuration.
type config struct {
	// NestedNode means that the node is itself a container (kind, LXC), so that its
	// processes are not in the machine's initial pid namespace. It is needed only if
	// the node's root directory is "/".
	NestedNode bool `json:"nestedNode"`
}

// node holds the sources of one configuration. Its descriptors are closed after it has been replaced
// and no call uses it any more.
type node struct {
	gauge *nodefs.PIDGauge
	pods  *nodefs.PodCgroups[int64]
}

// Observe implements eviction.Observer.
func (p *plugin) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	h, err := p.current.Hold()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	defer h.Release()
	n := h.Value
	b, release := nodefs.BorrowBuffer()
	defer release()
	var reply eviction.ObserveReply
	if slices.Contains(req.Signals, eviction.PIDAvailable) {
		o := figures.At(eviction.PIDAvailable)
		sample, err := n.gauge.Read(b)
		reply.Observations = []eviction.Observation{figures.PIDs(o, sample, err)}
	}
	n.pods.Probe(nodefs.ProbesPerPass, b)
	return reply, nil
}

// forksPerSecond is the fastest rate at which tasks are expected to start: some 50,000 on large machines.
const forksPerSecond = 50_000

// Watch implements eviction.Watcher: it looks at the tasks, since the kernel does not notify. It ignores
// thresholds of other signals.
func (p *plugin) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	rate := func(s eviction.Signal) float64 {
		if s == eviction.PIDAvailable {
			return forksPerSecond
		}
		return 0
	}
	return p.current.Watch(ctx, func(ctx context.Context, n *node) {
		var b nodefs.Buffer
		pace.Watch(ctx, req, rate, func([]eviction.Signal) []eviction.Observation {
			sample, err := n.gauge.Read(&b)
			return []eviction.Observation{figures.PIDs(eviction.Observation{Signal: eviction.PIDAvailable}, sample, err)}
		}, wake)
	})
}

// Measure implements eviction.Measurer. It has no figures of containers, since the
// kubelet's messages about PIDs name none.
func (p *plugin) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	h, err := p.current.Hold()
	if err != nil {
		return err
	}
	defer h.Release()
	n := h.Value
	b, release := nodefs.BorrowBuffer()
	defer release()
	tasks, _ := n.gauge.Read(b)       // else any number that the kernel allows can be
	var usages []eviction.SignalUsage // one allocation for all pods
	if slices.Contains(req.Signals, eviction.PIDAvailable) {
		usages = make([]eviction.SignalUsage, 0, len(req.Pods))
	}
	for i := range req.Pods {
		if err := ctx.Err(); err != nil {
			return err // answers emitted before count
		}
		m := figures.PodTasks(n.pods, &req.Pods[i], tasks.Whole(), b)
		if m.State == eviction.Measured && usages != nil {
			usages = append(usages, eviction.SignalUsage{Signal: eviction.PIDAvailable, Value: m.Processes.Value})
			m.Usage = usages[len(usages)-1 : len(usages) : len(usages)]
		}
		emit(m)
	}
	return nil
}
