package disk

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/shared/eviction"
)

// The steps of node-level reclaim.
const (
	// ContainerGC removes dead containers with their logs and writable layers.
	ContainerGC = "container-gc"
	// ImageGC removes images that no container uses.
	ImageGC = "image-gc"
)

// signals returns the signals, each with the steps that free its filesystem, by layout
// (buildSignalToNodeReclaimFuncs): container GC frees the filesystem of writable layers, image
// GC that of images.
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

// Reclaim implements eviction.Reclaimer.
func (p *plugin) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	h, err := p.current.Hold()
	if err != nil {
		return eviction.Reclaimed{}, fmt.Errorf("reclaim %s: %w", req.Step, err)
	}
	defer h.Release()
	if progress == nil {
		progress = func(eviction.Reclaimed) {}
	}
	released, err := p.run(ctx, h.Value, req, progress)
	if err != nil {
		err = fmt.Errorf("reclaim %s: %w", req.Step, err)
	}
	return released, err
}

func (p *plugin) run(ctx context.Context, n *node, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	for _, s := range p.steps {
		if s.Name == req.Step {
			return s.Run(ctx, req, progress)
		}
	}
	var want eviction.Reclaimed
	switch req.Signal {
	case eviction.NodeFsInodesFree, eviction.ImageFsInodesFree, eviction.ContainerFsInodesFree:
		want.Inodes = req.Shortfall
	default:
		want.Bytes = req.Shortfall
	}
	switch req.Step {
	case ContainerGC:
		n.meter.Removing()
		return n.collector.Containers(ctx, req.Pods, req.AllSourcesReady, progress)
	case ImageGC:
		n.meter.Removing()
		return n.collector.Images(ctx, want, progress)
	default:
		return eviction.Reclaimed{}, fmt.Errorf("there is no such step, want %s or %s", ContainerGC, ImageGC)
	}
}
