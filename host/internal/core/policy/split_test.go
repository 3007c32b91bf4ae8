package policy

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

func TestAnAssignmentMustNotSplitAFilesystem(t *testing.T) {
	const node, image, container = eviction.NodeFsAvailable, eviction.ImageFsAvailable, eviction.ContainerFsAvailable
	for name, c := range map[string]struct {
		assigned map[eviction.Signal]string // "CAPABILITY PLUGIN"
		splits   string                     // the layouts in which it does
	}{
		"kubelet and images":               {map[eviction.Signal]string{node: "rank a", image: "rank b"}, "shared"},
		"images and layers":                {map[eviction.Signal]string{image: "measure a", container: "measure b"}, "shared imagefs"},
		"kubelet and layers":               {map[eviction.Signal]string{node: "reclaim a", container: "reclaim b"}, "shared containerfs"},
		"layers and both others":           {map[eviction.Signal]string{node: "rank a", image: "rank a", container: "rank b"}, "shared imagefs containerfs"},
		"one plugin":                       {map[eviction.Signal]string{node: "rank a", image: "rank a", container: "rank a"}, ""},
		"one signal":                       {map[eviction.Signal]string{container: "rank b"}, ""},
		"other capabilities":               {map[eviction.Signal]string{node: "rank a", image: "measure b"}, ""},
		"bytes and inodes":                 {map[eviction.Signal]string{node: "rank a", eviction.ImageFsInodesFree: "rank b"}, ""},
		"figures of kubelet and images":    {map[eviction.Signal]string{node: "observe a", image: "observe b"}, ""},
		"figures of images and layers":     {map[eviction.Signal]string{image: "observe a", container: "observe b"}, "imagefs"},
		"wakes":                            {map[eviction.Signal]string{node: "watch a", container: "watch b"}, ""},
		"memory is no filesystem":          {map[eviction.Signal]string{eviction.MemoryAvailable: "rank a", eviction.AllocatableMemoryAvailable: "rank b"}, ""},
		"inodes of images and layers, too": {map[eviction.Signal]string{eviction.ImageFsInodesFree: "rank a", eviction.ContainerFsInodesFree: "rank b"}, "shared imagefs"},
	} {
		t.Run(name, func(t *testing.T) {
			assigned := func(s eviction.Signal, capability eviction.Capability) string {
				word, plugin, _ := strings.Cut(c.assigned[s], " ")
				if word != capability.String() {
					return ""
				}
				return plugin
			}
			var splits []string
			for _, l := range eviction.Layouts() {
				err := Split(assigned, l)
				if err == nil {
					continue
				}
				splits = append(splits, l.String())
				if !strings.Contains(err.Error(), `"a"`) || !strings.Contains(err.Error(), `"b"`) {
					t.Errorf("%v, want both plugins named", err)
				}
			}
			if got := strings.Join(splits, " "); got != c.splits {
				t.Errorf("split with %q, want %q", got, c.splits)
			}
			if err := Split(assigned, eviction.Layouts()...); (err != nil) != (len(splits) == 3) {
				t.Errorf("in any layout: %v, want an error if it splits in all of them", err)
			}
			if err := Split(assigned, 0); err != nil {
				t.Errorf("unknown layout: %v", err)
			}
		})
	}
}
