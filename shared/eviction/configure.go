package eviction

import "context"

// Configurer takes the facts of the node and the plugin's own configuration.
type Configurer interface {
	// Configure is called once before the first observation and again when
	// either changes. An error leaves the former configuration in force.
	Configure(ctx context.Context, req ConfigureRequest) error
}

// ConfigureRequest is the input of Configurer.
type ConfigureRequest struct {
	Node NodeFacts
	// Config is the plugin's part of the host's configuration as JSON; empty
	// when there is none. An unknown field in it must be an error.
	Config []byte
}

// NodeFacts describes the host's node to plugins.
type NodeFacts struct {
	NodeName string
	// RootDir is where the node's root filesystem is seen, "/" outside of
	// containers. /proc and /sys are looked for below it.
	RootDir string
	// CgroupRoot is the kubelet's --cgroup-root: the parent of "kubepods", as a
	// path inside each cgroup hierarchy. "/" by default.
	CgroupRoot string
	// CgroupDriver is "cgroupfs" or "systemd": how pod cgroups are named. Empty as
	// long as the host does not know, since no pod has run yet: the cgroups show it
	// then, as nodefs.Naming sees. The host configures again when it knows.
	CgroupDriver string
	// KubeletRootDir holds the directories of pods, /var/lib/kubelet by default.
	KubeletRootDir string
	// PodLogsDir holds the logs of pods, /var/log/pods by default.
	PodLogsDir string
	// RuntimeEndpoint and ImageEndpoint are the CRI sockets, with unix://.
	RuntimeEndpoint string
	ImageEndpoint   string
	// SummarySocket is the private socket on which the host serves the kubelet's
	// stats summary; empty when plugins read their native sources.
	SummarySocket string
	// DryRun: the host only decides and tells, and changes nothing on the node. A
	// plugin that removes or changes something of its own accord does not either.
	DryRun bool
}
