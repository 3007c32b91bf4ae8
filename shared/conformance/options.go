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

// DefaultTimeout limits a whole run: a correct plugin takes less than half a minute on an idle
// machine.
const DefaultTimeout = 2 * time.Minute

// Options configure the checks. The zero Options make all checks that do no harm.
type Options struct {
	// Config is the plugin's configuration as JSON; empty for none.
	Config []byte
	// Locate returns the errors of a refused Config with their places in a file. Nil leaves the fields alone.
	Locate func(eviction.FieldErrors) error
	// Node describes the node to the plugin. Nil means this machine.
	Node *eviction.NodeFacts
	// RuntimeEndpoint of this machine, if it is not a usual one. Ignored if Node is set.
	RuntimeEndpoint string
	// Reclaim also runs the plugin's reclaim steps, which really free resources of this machine.
	Reclaim bool
	// NoTLS connects without certificates, like the host with autoMTLS: false.
	NoTLS bool
	// Timeout limits the whole run; 0 means DefaultTimeout.
	Timeout time.Duration
	// Sandbox confines the processes; nil leaves them all rights of the caller. Tell reports
	// limits that could not be set and files left behind.
	Sandbox *sandbox.Policy
	Tell    sandbox.Tell
	// Skip are names of checks not to run.
	Skip []string
	// Only are the groups of checks to run in addition to DescribeGroup; nil means all. Checks
	// of the process then judge only the calls of these groups.
	Only []string
	// Environment has variables for the process in addition to the host's.
	Environment []string

	// deadlineFactor multiplies all deadlines; 0 means 1.
	deadlineFactor time.Duration
}

// DescribeGroup is the group of checks that always runs, since all others depend on it.
const DescribeGroup = "describe"

// Groups returns the names of all groups of checks, in the order in which they run.
func Groups() []string {
	var names []string
	for _, g := range slices.Concat([]check.Group{describe.Group}, beside, apart, []check.Group{lifecycle.Group(nil, nil)}) {
		names = append(names, g.Name)
	}
	return names
}

// thisNode describes this machine. Directories of a node that are missing here are made in dir.
func (o *Options) thisNode(dir string) eviction.NodeFacts {
	name, err := os.Hostname()
	if err != nil {
		name = "localhost"
	}
	node := eviction.NodeFacts{
		NodeName: name, RootDir: "/", CgroupRoot: "/", CgroupDriver: "cgroupfs",
		KubeletRootDir: orMade("/var/lib/kubelet", filepath.Join(dir, "kubelet")),
		PodLogsDir:     orMade("/var/log/pods", filepath.Join(dir, "logs")),
		DryRun:         true, // the plugin must not change the machine
	}
	// As in the host's configuration, set it whether the runtime runs or not.
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

// orMade returns path if it is a readable directory, else it makes and returns other.
func orMade(path, other string) string {
	if _, err := os.ReadDir(path); err == nil {
		return path
	}
	_ = os.MkdirAll(other, 0o700) // if this fails, the plugin reports what is missing
	return other
}
