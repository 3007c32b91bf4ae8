// Command acme-disk is an evictd plugin for nodes whose pods write to a disk of
// their own: evictd's disk plugin, with the two things that are Acme's.
//
// The scratch disk is mounted at /scratch, its directory pods is bound to
// /var/lib/kubelet/pods, and a cache lies beside that. The kubelet looks at the
// disk of /var/lib/kubelet, so that it never sees scratch fill up. Here
// nodefs.available and nodefs.inodesFree are scratch's (the other disk is still
// seen as imagefs.*; containerfs.*, which the kubelet has no threshold of its own
// for, goes with the one of both that its threshold follows from), and before
// containers, images or pods go, the oldest files of the cache do, until as much is
// free as is configured.
//
//	evictionHard: {nodefs.available: 10%, imagefs.available: 15%}
//	plugins:
//	  acme-disk:
//	    # A custom plugin has no capabilities unless configured. These are what evictd's
//	    # disk plugin has: pods' directories and the cache may be anybody's.
//	    capabilities: [IPC_LOCK, DAC_READ_SEARCH, DAC_OVERRIDE, SYS_PTRACE, SYS_ADMIN]
//	    config:
//	      mountPoint: /scratch
//	      cacheDir: cache      # below mountPoint
//	      freePercent: 20      # more than the threshold, or pods go all the same
//	      disk: {minAge: 1m}   # what evictd's disk plugin understands
//
// All else, measuring and ranking pods too, is the disk plugin's. A custom plugin
// goes before a built-in one, so both may be in the plugin directory.
package main

import (
	"context"
	"encoding/json"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// dropCache has a domain in its name so that it is no other plugin's step.
const dropCache = "acme.example/drop-cache"

func main() { sdk.Serve(plugin()) }

func plugin() sdk.Plugin {
	s := new(scratch)
	nodeFs := []eviction.Signal{eviction.NodeFsAvailable, eviction.NodeFsInodesFree}
	p := disk.New(
		disk.WithObserver(s, nodeFs...),
		disk.WithStep(disk.Step{
			// In all layouts: the cache is where pods write, wherever images are.
			ReclaimStep: eviction.ReclaimStep{Name: dropCache},
			Signals:     nodeFs,
			Run:         s.dropCache,
		}),
	)
	p.Name, p.Version = "acme-disk", "1.0.0"
	p.Configurer = configurer(s, p.Configurer)
	return p
}

// config has our settings beside those of the disk plugin, which is strict about
// fields that it does not know.
type config struct {
	settings
	Disk json.RawMessage `json:"disk"`
}

// configurer configures both halves, or neither: ours is only checked before the
// other has accepted its own.
func configurer(s *scratch, inner eviction.Configurer) eviction.Configurer {
	return sdk.ConfigureChecked((*config).complete, func(ctx context.Context, node eviction.NodeFacts, c config) error {
		if err := inner.Configure(ctx, eviction.ConfigureRequest{Node: node, Config: c.Disk}); err != nil {
			return err
		}
		s.current.Store(&c.settings)
		return nil
	})
}
