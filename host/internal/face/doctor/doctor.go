// Package doctor describes a node for evictctl check: what it is, and where the figures of each signal come from. It changes
// nothing. Package inspect has the problems.
package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
	"github.com/evictd/evictd/host/internal/ground/features"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/fallback"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// A Diagnosis describes a node as seen by evictd.
type Diagnosis struct {
	Node     []NodeFact         `json:"node"`
	Features []features.Feature `json:"features"`
	Signals  []SignalSource     `json:"signals"`
}

// A NodeFact is one property of this node.
type NodeFact struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	// Detail is the source of the value, or why there is none.
	Detail string `json:"detail,omitempty"`
}

// A SignalSource names the plugin that observes a signal with a threshold, and its source.
type SignalSource struct {
	Signal eviction.Signal `json:"signal"`
	By     string          `json:"by"`
	How    string          `json:"how"`
	// Available and Capacity are the host's own figures, nil if it cannot read them.
	Available *int64 `json:"available,omitempty"`
	Capacity  *int64 `json:"capacity,omitempty"`
}

// Diagnose examines this node with c and changes nothing.
func Diagnose(ctx context.Context, c *config.Config) Diagnosis {
	fs := c.Node()
	running, _ := criclient.Dial(fs, c.RuntimeEndpoint) // an invalid endpoint is a finding of package inspect
	images, _ := criclient.Dial(fs, c.ImageEndpoint)    // both end with the command
	var u unix.Utsname
	errKernel := unix.Uname(&u)
	memory, errCgroups := fs.MemoryHierarchy()
	share, errShare := nodefs.OwnCPUShare(fs)
	version, errRuntime := criclient.Probe(ctx, runtimeapi.NewRuntimeServiceClient(running))
	late, stop := context.WithTimeout(ctx, 5*time.Second) // for the layout of the filesystems
	defer stop()
	layout, errLayout := hang.Do(late.Done(), func() (eviction.Layout, error) {
		layout, _, err := criclient.Layout(ctx, runtimeapi.NewImageServiceClient(images), fs, c.KubeletRootDir)
		return layout, err
	}, nil)
	plugins, errPlugins := plugindir.Names(c.PluginDir)
	plugins = slices.DeleteFunc(plugins, func(name string) bool { return c.Plugins[name].Disabled })
	driver := parts.Cgroups(c, running).Find(ctx)
	return Diagnosis{
		Node: []NodeFact{
			fact("kernel", unix.ByteSliceToString(u.Sysname[:])+" "+unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), errKernel),
			fact("cgroups", fmt.Sprintf("version %d", memory.Version), memory.Path("/"), errCgroups),
			fact("CPU shares", strconv.FormatInt(share.Shares, 10), share.File, errShare),
			fact("runtime", version, c.RuntimeEndpoint, errRuntime),
			fact("cgroup driver", driver.Driver, driver.By, driver.Err),
			fact("layout", layout.String(), "directories of "+c.ImageEndpoint+" and kubeletRootDir "+c.KubeletRootDir, errLayout),
			fact("plugins", strings.Join(plugins, ", "), c.PluginDir, errPlugins),
		},
		Features: features.Find(fs),
		Signals:  signalSources(ctx, c, plugins, layout, driver.InUse(c.CgroupDriver)),
	}
}

// fact returns a fact with its value, or with the reason why there is none.
func fact(name, value, detail string, err error) NodeFact {
	if status.Code(err) == codes.Unavailable { // Run says more
		return NodeFact{Name: name, Detail: "container runtime does not answer"}
	}
	if err != nil {
		return NodeFact{Name: name, Detail: err.Error()}
	}
	return NodeFact{name, value, detail}
}

// signalSources returns a row for each signal with a threshold, with the host's own figures.
func signalSources(ctx context.Context, c *config.Config, plugins []string, layout eviction.Layout, driver string) (all []SignalSource) {
	reader := fallback.New(parts.NodeFacts(c, driver))
	read := slices.DeleteFunc(eviction.BuiltinSignals(), func(s eviction.Signal) bool { return !reader.Reads(s) })
	figures := map[eviction.Signal]eviction.Observation{}
	for _, o := range reader.Observe(ctx, read) {
		for _, same := range append(layout.SameFilesystem(o.Signal), o.Signal) {
			figures[same] = o
		}
	}
	seen := map[eviction.Signal]bool{}
	thresholds, _ := c.Thresholds() // an invalid configuration is not examined
	for _, t := range thresholds {
		s := t.Signal
		if seen[s] {
			continue
		}
		seen[s] = true
		row := SignalSource{Signal: s, How: "in each pass, one in " + c.MonitoringInterval.Duration.String()}
		b, builtin := eviction.Builtin(s)
		assigned, figure := c.Assigned(s, eviction.CanObserve), figures[s]
		switch {
		case assigned != "" && (assigned != config.SourceSummary || slices.Contains(plugins, b.Plugin)):
			row.By = "plugin " + assigned
		case builtin && slices.Contains(plugins, b.Plugin):
			row.By = "plugin " + b.Plugin
		case builtin: // it is off
			row.By, row.How = "none", "plugin "+b.Plugin+" is not in pluginDir"
		default:
			row.By = "the plugin that brings it"
		}
		if how := watched(c, c.Node(), b.Condition); builtin && how != "" && row.By == "plugin "+b.Plugin {
			row.How = how
		}
		if figure.State == eviction.Observed {
			row.Available, row.Capacity = &figure.Available, &figure.Capacity
		}
		all = append(all, row)
	}
	return all
}

// watched returns how a built-in plugin looks at its signals between passes, empty if it does not.
func watched(c *config.Config, fs nodefs.FS, of eviction.Condition) string {
	const how = "looked at all the time, the closer the more often"
	if of != eviction.MemoryPressure {
		return how
	}
	h, err := fs.MemoryHierarchy()
	switch {
	case !c.KernelMemcgNotification:
		return ""
	case err == nil && h.Version == nodefs.V1:
		return "memory events, and " + how
	default:
		return how
	}
}
