package wire

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func encodeConfigureRequest(r eviction.ConfigureRequest) *pluginv1.ConfigureRequest {
	return &pluginv1.ConfigureRequest{
		Node: &pluginv1.NodeFacts{
			NodeName:         text(r.Node.NodeName),
			RootDir:          text(r.Node.RootDir),
			CgroupRoot:       text(r.Node.CgroupRoot),
			CgroupDriver:     text(r.Node.CgroupDriver),
			KubeletRootDir:   text(r.Node.KubeletRootDir),
			PodLogsDir:       text(r.Node.PodLogsDir),
			RuntimeEndpoint:  text(r.Node.RuntimeEndpoint),
			ImageEndpoint:    text(r.Node.ImageEndpoint),
			DryRun:           r.Node.DryRun,
			ExcludeHugePages: r.Node.ExcludeHugePages,
			MemoryFigure:     text(r.Node.MemoryFigure),
		},
		Config: r.Config,
	}
}

func decodeConfigureRequest(w *pluginv1.ConfigureRequest) eviction.ConfigureRequest {
	n := w.GetNode()
	return eviction.ConfigureRequest{
		Node: eviction.NodeFacts{
			NodeName:         n.GetNodeName(),
			RootDir:          n.GetRootDir(),
			CgroupRoot:       n.GetCgroupRoot(),
			CgroupDriver:     n.GetCgroupDriver(),
			KubeletRootDir:   n.GetKubeletRootDir(),
			PodLogsDir:       n.GetPodLogsDir(),
			RuntimeEndpoint:  n.GetRuntimeEndpoint(),
			ImageEndpoint:    n.GetImageEndpoint(),
			DryRun:           n.GetDryRun(),
			ExcludeHugePages: n.GetExcludeHugePages(),
			MemoryFigure:     n.GetMemoryFigure(),
		},
		Config: w.GetConfig(),
	}
}
