package disk

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

// The threshold of writable layers follows from another signal's. They were acted on by the plugin's
// own figure, whatever the vendor saw of the same filesystem.
func TestWritableLayersHaveTheFigureOfTheirFilesystem(t *testing.T) {
	layouts := map[string]*eviction.LayoutReport{"shared": {}, "imagefs": {ImageFs: true}, "containerfs": {ImageFs: true, ContainerFs: true}}
	for layout, want := range map[string]map[eviction.Signal]string{
		"shared":      {eviction.NodeFsAvailable: "nodefs.available containerfs.available", eviction.ImageFsAvailable: "imagefs.available"},
		"imagefs":     {eviction.NodeFsAvailable: "nodefs.available", eviction.ImageFsAvailable: "imagefs.available containerfs.available"},
		"containerfs": {eviction.NodeFsAvailable: "nodefs.available containerfs.available", eviction.ImageFsAvailable: "imagefs.available"},
	} {
		for vendors, want := range want {
			for _, asked := range [][]eviction.Signal{
				{eviction.NodeFsAvailable, eviction.ImageFsAvailable, eviction.ContainerFsAvailable}, {eviction.ContainerFsAvailable},
			} {
				p := &plugin{observers: []observer{{signals: []eviction.Signal{vendors}}}}
				own := eviction.ObserveReply{Layout: layouts[layout]}
				for _, s := range asked {
					if !p.isOthers(s) {
						own.Observations = append(own.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Available: 1})
					}
				}
				got := p.together(asked, []eviction.Observation{{Signal: vendors, State: eviction.Observed, Available: 77}}, own)
				if len(got) != len(asked) {
					t.Errorf("%s, %s: %+v, want each signal that was asked for, once", layout, vendors, got)
				}
				for _, o := range got {
					if of := strings.Contains(want, string(o.Signal)); (o.Available == 77) != of {
						t.Errorf("%s, %s: %+v, want the vendor's figure: %v", layout, vendors, o, of)
					}
				}
			}
		}
	}
}
