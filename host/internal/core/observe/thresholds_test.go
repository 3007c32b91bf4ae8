package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// Thresholds for writable layers are derived after the first observation. If it
// had left their signals out, the second pass would take figures that have not
// changed for new ones, and evict once more.
func TestWritableLayersAreObservedBeforeTheirThresholdsAreThere(t *testing.T) {
	for name, c := range map[string]struct{ signals, more []eviction.Signal }{
		"no disks":             {[]eviction.Signal{eviction.MemoryAvailable, eviction.PIDAvailable}, nil},
		"bytes, once":          {[]eviction.Signal{eviction.NodeFsAvailable, eviction.ImageFsAvailable}, []eviction.Signal{eviction.ContainerFsAvailable}},
		"inodes":               {[]eviction.Signal{eviction.ImageFsInodesFree}, []eviction.Signal{eviction.ContainerFsInodesFree}},
		"not what is there":    {[]eviction.Signal{eviction.ContainerFsAvailable, eviction.NodeFsAvailable}, nil},
		"configured by itself": {[]eviction.Signal{eviction.ContainerFsAvailable}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			want := append(append([]eviction.Signal{}, c.signals...), c.more...)
			if diff := cmp.Diff(want, withContainerFs(c.signals)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
