package pid

import (
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/nodefs"
)

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
