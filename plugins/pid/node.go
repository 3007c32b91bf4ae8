package pid

import (
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/nodefs"
)

// config is the plugin's own configuration.
type config struct {
	// NestedNode means that the node is itself a container (kind, LXC), so that its
	// processes are not in the machine's initial pid namespace. It is needed only if
	// the node's root directory is "/".
	NestedNode bool `json:"nestedNode"`
}

// node holds the sources of one configuration. The garbage collector closes its descriptors
// after it has been replaced and no call uses it any more.
type node struct {
	// summary, if not nil, replaces all native sources.
	summary *summary.Source

	gauge *nodefs.PIDGauge
	pods  *nodefs.PodCgroups[int64]
}
