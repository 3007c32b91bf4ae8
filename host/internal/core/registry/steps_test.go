package registry

import (
	"fmt"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

type noReclaimer struct{ eviction.Reclaimer }

func stepNames(layouts []eviction.Layout, names ...string) []eviction.ReclaimStep {
	var steps []eviction.ReclaimStep
	for _, name := range names {
		steps = append(steps, eviction.ReclaimStep{Name: name, Layouts: layouts})
	}
	return steps
}

func TestStepsOfOneFilesystem(t *testing.T) {
	const node, image, container = eviction.NodeFsAvailable, eviction.ImageFsAvailable, eviction.ContainerFsAvailable
	lists := func(of map[eviction.Signal][]eviction.ReclaimStep) *eviction.Plugin {
		p := &eviction.Plugin{Reclaimer: noReclaimer{}}
		for _, s := range eviction.BuiltinSignals() {
			if steps, ok := of[s]; ok {
				p.Signals = append(p.Signals, eviction.SignalSpec{Signal: s, ReclaimSteps: steps})
			}
		}
		return p
	}
	cache := lists(map[eviction.Signal][]eviction.ReclaimStep{
		node:  stepNames(nil, "cache", "containers", "images"),
		image: stepNames(nil, "containers", "images"), container: stepNames(nil, "containers", "images"),
	})
	layered := lists(map[eviction.Signal][]eviction.ReclaimStep{
		node: stepNames([]eviction.Layout{eviction.LayoutContainerFs}, "cache"), image: stepNames(nil, "images"),
	})
	observing := lists(map[eviction.Signal][]eviction.ReclaimStep{node: stepNames(nil, "cache"), image: nil})
	observing.Signals[0].Capabilities = eviction.CanObserve
	circle := lists(map[eviction.Signal][]eviction.ReclaimStep{node: stepNames(nil, "a", "b"), image: stepNames(nil, "b", "a", "c")})
	inodes := lists(map[eviction.Signal][]eviction.ReclaimStep{eviction.NodeFsInodesFree: stepNames(nil, "small files"), node: stepNames(nil, "cache")})

	for name, c := range map[string]struct {
		plugin *eviction.Plugin
		of     eviction.Signal
		layout eviction.Layout
		want   string
	}{
		"the vendor's stays first":            {cache, image, eviction.LayoutShared, "[{cache nodefs.available} {containers imagefs.available} {images imagefs.available}]"},
		"of its own name each once":           {cache, node, eviction.LayoutShared, "[{cache nodefs.available} {containers nodefs.available} {images nodefs.available}]"},
		"another filesystem is left alone":    {cache, image, eviction.LayoutImageFs, "[{containers imagefs.available} {images imagefs.available}]"},
		"writable layers with the kubelet's":  {cache, container, eviction.LayoutContainerFs, "[{cache nodefs.available} {containers containerfs.available} {images containerfs.available}]"},
		"unknown layout":                      {cache, image, 0, "[{containers imagefs.available} {images imagefs.available}]"},
		"not in this layout":                  {layered, container, eviction.LayoutShared, "[{images imagefs.available}]"},
		"in this layout":                      {layered, container, eviction.LayoutContainerFs, "[{cache nodefs.available}]"},
		"offered for the other name only":     {layered, container, eviction.LayoutImageFs, "[{images imagefs.available}]"},
		"listed, and reclaim not offered":     {observing, image, eviction.LayoutShared, "[]"},
		"two orders: the earlier list counts": {circle, node, eviction.LayoutShared, "[{a nodefs.available} {b nodefs.available} {c imagefs.available}]"},
		"inodes are not bytes":                {inodes, node, eviction.LayoutShared, "[{cache nodefs.available}]"},
		"bytes are not inodes":                {inodes, eviction.ContainerFsInodesFree, eviction.LayoutShared, "[{small files nodefs.inodesFree}]"},
		"memory has none":                     {cache, eviction.MemoryAvailable, eviction.LayoutShared, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			got := []string{}
			for _, s := range stepsOf(c.plugin, "", c.of, c.layout) {
				got = append(got, fmt.Sprintf("{%s %s}", s.Name, s.Signal))
			}
			if got := fmt.Sprint(got); got != c.want {
				t.Errorf("steps %s, want %s", got, c.want)
			}
		})
	}
}
