package disk

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/shared/eviction"
)

// The steps of node-level reclaim.
const (
	// ContainerGC removes dead containers, and their logs and writable layers.
	ContainerGC = "container-gc"
	// ImageGC removes images that no container uses.
	ImageGC = "image-gc"
)

// signals lists the signals, each with what frees its filesystem in each layout
// (buildSignalToNodeReclaimFuncs): containers' leavings are where the writable
// layers are, images where the images are.
func signals() []eviction.SignalSpec {
	const shared, imageFs, containerFs = eviction.LayoutShared, eviction.LayoutImageFs, eviction.LayoutContainerFs
	nodeFs := steps([]eviction.Layout{shared, containerFs}, []eviction.Layout{shared})
	images := steps([]eviction.Layout{shared, imageFs}, []eviction.Layout{shared, imageFs, containerFs})
	layers := steps([]eviction.Layout{shared, imageFs, containerFs}, []eviction.Layout{shared, imageFs})
	return []eviction.SignalSpec{
		{Signal: eviction.NodeFsAvailable, ReclaimSteps: nodeFs},
		{Signal: eviction.NodeFsInodesFree, ReclaimSteps: nodeFs},
		{Signal: eviction.ImageFsAvailable, ReclaimSteps: images},
		{Signal: eviction.ImageFsInodesFree, ReclaimSteps: images},
		{Signal: eviction.ContainerFsAvailable, ReclaimSteps: layers},
		{Signal: eviction.ContainerFsInodesFree, ReclaimSteps: layers},
	}
}

func steps(containers, images []eviction.Layout) []eviction.ReclaimStep {
	return []eviction.ReclaimStep{{Name: ContainerGC, Layouts: containers}, {Name: ImageGC, Layouts: images}}
}

// Reclaim implements eviction.Reclaimer. A summary is only read, so each step is
// refused: the program that embeds the host and gives the summary stands in.
func (p *plugin) Reclaim(_ context.Context, req eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	if _, err := p.Source(); err != nil {
		return eviction.Reclaimed{}, fmt.Errorf("reclaim %s: %w", req.Step, err)
	}
	return eviction.Reclaimed{}, fmt.Errorf("reclaim %s: nothing can be freed with source: summary; the embedding program's own function has to stand in", req.Step)
}
