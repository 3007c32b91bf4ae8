package pid

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

var errNotConfigured = errors.New("not configured yet: Configure comes first")

// New returns the pid plugin.
func New() sdk.Plugin {
	p := newPlugin()
	return sdk.Plugin{
		Name:       "pid",
		Version:    "1",
		Signals:    sdk.Signals(eviction.PIDAvailable),
		Configurer: sdk.Configure(p.configure),
		Observer:   p,
		Measurer:   p,
		Ranker:     sdk.RankAsKubelet(),
	}
}

// plugin is what the capabilities share. Each call takes the node as configured
// when it begins and stays with it.
type plugin struct {
	current atomic.Pointer[node]
	buffers sync.Pool
}

func newPlugin() *plugin {
	return &plugin{buffers: sync.Pool{New: func() any { return new(nodefs.Buffer) }}}
}

// config is the plugin's own configuration.
type config struct {
	// NestedNode says that the node is a container itself (kind, LXC), so that its
	// processes are not in the machine's first pid namespace. It is needed only
	// where the node's root directory is "/".
	NestedNode bool `json:"nestedNode"`
}

// node is the machine as one configuration describes it. Its descriptors are
// closed by the garbage collector once it is replaced and no call uses it.
type node struct {
	// summary stands in for all of the machine if it is not nil.
	summary *summary.Source

	gauge *nodefs.PIDGauge
	pods  *nodefs.PodCgroups[int64]
}

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	if facts.SummarySocket != "" {
		p.turnTo(&node{summary: &summary.Source{Socket: facts.SummarySocket}})
		return nil
	}
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
	p.turnTo(&node{gauge: fs.PIDs(), pods: hierarchy.PodTasks(naming)})
	return nil
}

func (p *plugin) turnTo(next *node) {
	if old := p.current.Swap(next); old != nil && old.summary != nil {
		old.summary.Close()
	}
}

func (p *plugin) configured() (*node, error) {
	if n := p.current.Load(); n != nil {
		return n, nil
	}
	return nil, errNotConfigured
}

func (p *plugin) buffer() (b *nodefs.Buffer, release func()) {
	b, _ = p.buffers.Get().(*nodefs.Buffer)
	return b, func() { p.buffers.Put(b) }
}
