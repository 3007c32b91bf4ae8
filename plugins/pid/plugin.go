package pid

import (
	"context"
	"errors"
	"fmt"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
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
		Ranker:     sdk.RankAsKubelet(),
	}
}

// plugin is shared by the capabilities. Each call uses the node as configured when the call
// begins until it ends.
type plugin struct {
	current sdk.Current[*node]
}

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	if facts.SummarySocket != "" {
		source := &summary.Source{Socket: facts.SummarySocket}
		p.current.Set(&node{summary: source}, source.Close)
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
	p.current.Set(&node{gauge: fs.PIDs(naming), pods: hierarchy.PodTasks(naming)}, nil)
	return nil
}
