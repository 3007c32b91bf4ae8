package conformance

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/describe"
	"github.com/evictd/evictd/shared/conformance/internal/lifecycle"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// DefaultTimeout bounds a whole run: that of a right plugin takes less than half a minute on an
// idle machine.
const DefaultTimeout = 2 * time.Minute

// Options say how to check. The zero Options check all that does no harm.
type Options struct {
	// Config is the plugin's configuration as JSON; empty for none.
	Config []byte
	// Node describes the node to the plugin. Nil is this machine.
	Node *eviction.NodeFacts
	// RuntimeEndpoint of this machine, if it is not a usual one. It counts when Node is nil.
	RuntimeEndpoint string
	// Reclaim also runs the plugin's reclaim steps, which free what they free on
	// this machine.
	Reclaim bool
	// NoTLS talks without certificates, as the host does with autoMTLS: false.
	NoTLS bool
	// Timeout limits the whole run, DefaultTimeout when zero.
	Timeout time.Duration
	// Sandbox confines the processes; nil leaves them all our rights. Limits that could not be
	// set, and files left behind, are reported to Tell.
	Sandbox *sandbox.Policy
	Tell    sandbox.Tell
	// Skip are names of checks not to run.
	Skip []string
	// Only are the groups of checks to run after the first one, DescribeGroup; nil is all.
	// What checks of the process have seen of the calls is then that of these groups.
	Only []string
	// Environment has variables for the process beyond those of the host.
	Environment []string

	// deadlineFactor multiplies all deadlines, 0 is 1.
	deadlineFactor time.Duration
}

// DescribeGroup is the group of checks that always runs: all others depend on it.
const DescribeGroup = "describe"

// Groups are the names of the groups of checks, in their order.
func Groups() []string {
	var names []string
	for _, g := range slices.Concat([]check.Group{describe.Group}, beside, apart, []check.Group{lifecycle.Group(nil, nil)}) {
		names = append(names, g.Name)
	}
	return names
}

// runs reports whether a group of checks is wanted.
func (o *Options) runs(group string) bool {
	return o.Only == nil || group == DescribeGroup || slices.Contains(o.Only, group)
}

func (o *Options) skips(name string) bool { return slices.Contains(o.Skip, name) }

// thisNode describes this machine. What a node has and this machine may not is
// in dir.
func (o *Options) thisNode(dir string) eviction.NodeFacts {
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	node := eviction.NodeFacts{
		NodeName: name, RootDir: "/", CgroupRoot: "/", CgroupDriver: "cgroupfs",
		KubeletRootDir: orMade("/var/lib/kubelet", filepath.Join(dir, "kubelet")),
		PodLogsDir:     orMade("/var/log/pods", filepath.Join(dir, "logs")),
		DryRun:         true, // it is not to change the machine
	}
	// As in the host's configuration, there is one whether it runs or not.
	socket := "/run/containerd/containerd.sock"
	if other := "/run/crio/crio.sock"; !there(socket) && there(other) {
		socket = other
	}
	node.RuntimeEndpoint = cmp.Or(o.RuntimeEndpoint, "unix://"+socket)
	node.ImageEndpoint = node.RuntimeEndpoint
	return node
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// orMade returns path if it is there for us, else makes other.
func orMade(path, other string) string {
	if _, err := os.ReadDir(path); err == nil {
		return path
	}
	_ = os.MkdirAll(other, 0o700) // without it the plugin says what it misses
	return other
}
