package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/features"
	"github.com/evictd/evictd/host/internal/observe/fallback"
	"github.com/evictd/evictd/host/internal/parts"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// A Diagnosis describes a node as evictd sees it.
type Diagnosis struct {
	Node     []NodeFact         `json:"node"`
	Features []features.Feature `json:"features"`
	Signals  []SignalSource     `json:"signals"`
}

// A NodeFact is one thing that is so on this node.
type NodeFact struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	// Detail says where that is from, or why there is no value.
	Detail string `json:"detail,omitempty"`
}

// A SignalSource says which plugin would observe a signal that has a threshold, and how.
type SignalSource struct {
	Signal eviction.Signal `json:"signal"`
	By     string          `json:"by"`
	How    string          `json:"how"`
	// Available and Capacity are as the host reads them by itself, nil where it cannot.
	Available *int64 `json:"available,omitempty"`
	Capacity  *int64 `json:"capacity,omitempty"`
}

// Amounts returns Available and Capacity as quantities, empty where they are nil.
func (s *SignalSource) Amounts() (available, capacity string) {
	if s.Available == nil || s.Capacity == nil {
		return "", ""
	}
	return amount(s.Signal, *s.Available), amount(s.Signal, *s.Capacity)
}

// amount writes an amount of a signal as a quantity.
func amount(s eviction.Signal, n int64) string {
	b, _ := eviction.Builtin(s)
	return resource.NewQuantity(n, resource.Format(b.Format)).String()
}

// Diagnose looks at this node with c and changes nothing. Run says what is wrong.
func Diagnose(ctx context.Context, c *config.Config) (Diagnosis, error) {
	thresholds, err := c.Thresholds()
	if err != nil {
		return Diagnosis{}, err
	}
	d := Diagnosis{Features: features.Find(nodefs.FS{Root: c.RootDir})}
	d.Node = append(d.Node, kernel(), cgroupVersion(c), cpuShare(c))
	d.Node = append(d.Node, askRuntime(ctx, c)...)
	names, err := plugindir.Names(c.PluginDir)
	names = slices.DeleteFunc(names, func(name string) bool { return c.Plugins[name].Disabled })
	d.Node = append(d.Node, fact("plugins", strings.Join(names, ", "), c.PluginDir, err))
	d.Signals = signalSources(ctx, c, thresholds, names)
	return d, nil
}

// fact returns a fact with a value, or with the reason why there is none.
func fact(name, value, detail string, err error) NodeFact {
	if status.Code(err) == codes.Unavailable { // Run says more
		return NodeFact{Name: name, Detail: "container runtime does not answer"}
	}
	if err != nil {
		return NodeFact{Name: name, Detail: err.Error()}
	}
	return NodeFact{name, value, detail}
}

func kernel() NodeFact {
	var u unix.Utsname
	err := unix.Uname(&u)
	return fact("kernel", unix.ByteSliceToString(u.Sysname[:])+" "+unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), err)
}

func cgroupVersion(c *config.Config) NodeFact {
	h, err := nodefs.FS{Root: c.RootDir}.MemoryHierarchy()
	return fact("cgroups", fmt.Sprintf("version %d", h.Version), h.Path("/"), err)
}

func cpuShare(c *config.Config) NodeFact {
	share, err := nodefs.OwnCPUShare(nodefs.FS{Root: c.RootDir})
	return fact("CPU shares", strconv.FormatInt(share.Shares, 10), share.File, err)
}

// askRuntime has what the container runtime says, and what is seen where it does not.
func askRuntime(ctx context.Context, c *config.Config) []NodeFact {
	runtime, err := criclient.Dial(c.RuntimeEndpoint)
	if err != nil {
		return []NodeFact{fact("runtime", "", "", err)}
	}
	defer func() { _ = runtime.Close() }() // nothing is lost
	version, err := criclient.Probe(ctx, runtimeapi.NewRuntimeServiceClient(runtime))
	driver := parts.Cgroups(c, runtime).Find(ctx)
	return []NodeFact{
		fact("runtime", version, c.RuntimeEndpoint, err),
		fact("cgroup driver", driver.Driver, driver.By, driver.Err),
		layoutFact(ctx, c),
	}
}

func layoutFact(ctx context.Context, c *config.Config) NodeFact {
	images, err := criclient.Dial(c.ImageEndpoint)
	if err != nil {
		return fact("layout", "", "", err)
	}
	defer func() { _ = images.Close() }() // nothing is lost
	layout, err := criclient.Layout(ctx, runtimeapi.NewImageServiceClient(images), nodefs.FS{Root: c.RootDir}, c.KubeletRootDir)
	if err != nil {
		return fact("layout", "", "", err)
	}
	return fact("layout", layout.String(), "directories of "+c.ImageEndpoint+" and kubeletRootDir "+c.KubeletRootDir, nil)
}

func signalSources(ctx context.Context, c *config.Config, thresholds []policy.Threshold, plugins []string) []SignalSource {
	var signals []eviction.Signal
	for _, t := range thresholds {
		if !slices.Contains(signals, t.Signal) {
			signals = append(signals, t.Signal)
		}
	}
	reader := fallback.New(parts.NodeFacts(c, parts.Cgroups(c, nil).Find(ctx).InUse(c.CgroupDriver), ""))
	figures := map[eviction.Signal]eviction.Observation{}
	for _, o := range reader.Observe(ctx, slices.DeleteFunc(slices.Clone(signals), func(s eviction.Signal) bool { return !reader.Reads(s) })) {
		figures[o.Signal] = o
	}
	all := make([]SignalSource, 0, len(signals))
	for _, s := range signals {
		row := SignalSource{Signal: s, How: "in each pass, one in " + c.MonitoringInterval.Duration.String()}
		b, builtin := eviction.Builtin(s)
		assigned := c.Assigned(s, eviction.CanObserve)
		switch {
		case assigned != "":
			row.By = "plugin " + assigned
		case builtin && slices.Contains(plugins, b.Plugin):
			row.By = "plugin " + b.Plugin
		case builtin && reader.Reads(s):
			row.By = "evictd itself"
		case builtin:
			row.By = "nobody"
		default:
			row.By = "the plugin that brings it"
		}
		if b.Condition == eviction.MemoryPressure && c.KernelMemcgNotification && row.By == "plugin "+b.Plugin {
			row.How = howMemory(c)
		}
		if o := figures[s]; o.State == eviction.Observed {
			row.Available, row.Capacity = &o.Available, &o.Capacity
		}
		if c.Source == config.SourceSummary {
			row.How += ", from the kubelet's summary"
		}
		all = append(all, row)
	}
	return all
}

func howMemory(c *config.Config) string {
	looks := "looked at all the time, the closer the more often"
	if h, err := (nodefs.FS{Root: c.RootDir}).MemoryHierarchy(); err == nil && h.Version == nodefs.V1 {
		return "memory events, and " + looks
	}
	return looks
}
