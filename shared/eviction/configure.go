package eviction

import (
	"context"
	"strings"
)

// Configurer receives the facts of the node and the plugin's own configuration.
type Configurer interface {
	// Configure is called once before the first observation and again whenever the facts or
	// the configuration change. An error, such as FieldErrors, leaves the former configuration in force.
	Configure(ctx context.Context, req ConfigureRequest) error
}

// ConfigureRequest is the input of Configurer.
type ConfigureRequest struct {
	Node NodeFacts
	// Config is the plugin's section of the host's configuration as JSON; empty if there is
	// none. The plugin must refuse a field that it does not know.
	Config []byte
}

// FieldErrors say which fields of a configuration are wrong. Configure may return them: the host adds the lines of its file.
type FieldErrors []FieldError

// A FieldError has the path of a wrong field, of names and indexes of lists, and a text: the fault, and a right value.
type FieldError struct {
	Path []string
	Text string
}

// Error implements error.
func (e FieldErrors) Error() string {
	lines := make([]string, len(e))
	for i, f := range e {
		lines[i] = strings.TrimPrefix(strings.Join(f.Path, ".")+": "+f.Text, ": ")
	}
	return strings.Join(lines, "\n")
}

// NodeFacts describes the host's node to plugins.
type NodeFacts struct {
	NodeName string
	// RootDir is where the node's root filesystem is mounted, "/" outside of containers. /proc and /sys are below it.
	RootDir string
	// CgroupRoot is the kubelet's --cgroup-root, the parent of "kubepods" in each cgroup hierarchy. "/" by default.
	CgroupRoot string
	// CgroupDriver, "cgroupfs" or "systemd", determines the names of pod cgroups. It is empty
	// until the host knows it, which takes a first pod; meanwhile detect it from the cgroups,
	// as nodefs.Naming does. The host calls Configure again when it knows.
	CgroupDriver string
	// KubeletRootDir holds the directories of pods, /var/lib/kubelet by default.
	KubeletRootDir string
	// PodLogsDir holds the logs of pods, /var/log/pods by default.
	PodLogsDir string
	// RuntimeEndpoint and ImageEndpoint are the CRI sockets, as unix:// URLs.
	RuntimeEndpoint string
	ImageEndpoint   string
	// DryRun: the host only decides and logs, and changes nothing on the node. A plugin must
	// not remove or change anything on its own initiative either.
	DryRun bool
	// ExcludeHugePages: the node's huge pages, in use or not, are neither part of memory.available
	// nor of its capacity, as in the kubelet since v1.37.
	ExcludeHugePages bool
	// MemoryFigure selects memory.available of the node: "kubelet", "memAvailable", or else the lower of both.
	MemoryFigure string
}
