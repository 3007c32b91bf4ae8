package registry

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

func TestWhoServesAFilesystem(t *testing.T) {
	const node, image, container = eviction.NodeFsAvailable, eviction.ImageFsAvailable, eviction.ContainerFsAvailable
	const shared, imageFs, containerFs = eviction.LayoutShared, eviction.LayoutImageFs, eviction.LayoutContainerFs
	for name, c := range map[string]struct {
		offers     map[eviction.Signal]string // names, for every capability
		assigned   map[eviction.Signal]string
		of         eviction.Signal
		layout     eviction.Layout
		capability eviction.Capability
		want       string
	}{
		"writable layers are with the images": {
			offers: map[eviction.Signal]string{image: "acme disk", container: "disk", node: "disk"}, of: container,
			layout: imageFs, capability: eviction.CanRank, want: "acme(imagefs.available) disk(containerfs.available)",
		},
		"writable layers are with the kubelet's": {
			offers: map[eviction.Signal]string{image: "acme disk", container: "disk", node: "disk"}, of: container,
			layout: containerFs, capability: eviction.CanRank, want: "disk(containerfs.available)",
		},
		"all are one": {
			offers: map[eviction.Signal]string{image: "acme disk", container: "disk", node: "disk"}, of: node,
			layout: shared, capability: eviction.CanReclaim, want: "acme(imagefs.available) disk(nodefs.available)",
		},
		"unknown layout": {
			offers: map[eviction.Signal]string{image: "acme disk", container: "disk", node: "disk"}, of: container,
			capability: eviction.CanRank, want: "disk(containerfs.available)",
		},
		"the figure of the kubelet's is its own where images share it": {
			offers: map[eviction.Signal]string{image: "acme disk", container: "disk", node: "disk"}, of: node,
			layout: shared, capability: eviction.CanObserve, want: "disk(nodefs.available)",
		},
		"the figure for writable layers is that of the threshold they have": {
			offers: map[eviction.Signal]string{image: "acme disk", container: "disk", node: "disk"}, of: container,
			layout: imageFs, capability: eviction.CanObserve, want: "acme(imagefs.available) disk(containerfs.available)",
		},
		"wakes are by name": {
			offers: map[eviction.Signal]string{image: "acme disk", container: "disk"}, of: container,
			layout: imageFs, capability: eviction.CanWatch, want: "disk(containerfs.available)",
		},
		"one of two vendors, whatever the name": {
			offers: map[eviction.Signal]string{image: "zeta disk", node: "acme disk", container: "disk"}, of: image,
			layout: shared, capability: eviction.CanRank, want: "acme(nodefs.available) zeta(imagefs.available) disk(imagefs.available)",
		},
		"an assignment for one name is for all": {
			offers: map[eviction.Signal]string{image: "acme disk", node: "disk", container: "disk"}, assigned: map[eviction.Signal]string{container: "disk"}, of: image,
			layout: imageFs, capability: eviction.CanRank, want: "disk(imagefs.available) acme(imagefs.available)",
		},
		"an assignment for another filesystem is none": {
			offers: map[eviction.Signal]string{image: "acme disk", node: "disk", container: "disk"}, assigned: map[eviction.Signal]string{node: "disk"}, of: image,
			layout: imageFs, capability: eviction.CanRank, want: "acme(imagefs.available) disk(imagefs.available)",
		},
		"of two assignments that of nodefs counts": {
			offers: map[eviction.Signal]string{image: "acme disk", node: "disk zeta", container: "disk"}, assigned: map[eviction.Signal]string{image: "acme", node: "disk"}, of: image,
			layout: shared, capability: eviction.CanRank, want: "disk(imagefs.available) acme(imagefs.available) zeta(nodefs.available)",
		},
		"memory is no filesystem": {
			offers: map[eviction.Signal]string{eviction.MemoryAvailable: "acme", image: "disk"}, of: eviction.MemoryAvailable,
			layout: shared, capability: eviction.CanRank, want: "acme(memory.available)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			said := map[string]*eviction.Plugin{}
			for _, sig := range eviction.BuiltinSignals() {
				for name := range strings.FieldsSeq(c.offers[sig]) {
					if said[name] == nil {
						said[name] = &eviction.Plugin{Observer: nobody{}, Measurer: nobody{}, Watcher: nobody{}, Ranker: nobody{}, Reclaimer: nobody{}}
					}
					said[name].Signals = append(said[name].Signals, eviction.SignalSpec{Signal: sig})
				}
			}
			var plugins []Plugin
			for name, p := range said {
				plugins = append(plugins, Plugin{Name: name, Said: p, Instance: NewInstance(name, 1, 1, p)})
			}
			assignment := Assignment{}
			for sig, name := range c.assigned {
				assignment[sig] = map[string]string{c.capability.String(): name}
			}
			for _, p := range New(plugins, assignment).Serving(c.layout, c.of, c.capability) {
				got = append(got, p.Name+"("+string(p.As)+")")
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%s, want %s", strings.Join(got, " "), c.want)
			}
		})
	}
}
