package adapter

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/crisocket"
)

// Environment variables of a kubelet.
const (
	// EnvMode is "on" for evictd, the default, "off" for the kubelet's own manager, and "auto" for
	// evictd unless it fails.
	EnvMode = "EVICTD"
	// EnvConfig is the path of evictd's configuration file. Without it the defaults apply.
	EnvConfig = "EVICTD_CONFIG"
)

// RunDir is the default run directory of evictd in a kubelet, different from a daemon's.
const RunDir = "/run/kubelet-evictd"

// gaveUp: evictd could not run or continue, and the kubelet's own manager runs.
var gaveUp atomic.Bool

// Off reports whether to run the kubelet's own manager: on request, or with mode auto because
// evictd's file is invalid or evictd cannot run.
func Off() bool {
	if os.Getenv(EnvMode) == "off" || gaveUp.Load() {
		return true
	}
	_, err := file()
	return err != nil && auto()
}

// auto reports whether the kubelet's own manager runs if evictd cannot.
func auto() bool { return os.Getenv(EnvMode) == "auto" }

// Failed handles an evictd that cannot continue. It returns if the kubelet's own manager takes
// over, and otherwise ends the kubelet, which must not run without an eviction manager.
func Failed(err error) {
	if auto() {
		gaveUp.Store(true)
		klog.ErrorS(err, "evictd cannot run, the kubelet's own eviction manager does", EnvMode, "auto")
		return
	}
	klog.ErrorS(err, "evictd cannot run; EVICTD=auto would have the kubelet's own eviction manager run")
	klog.FlushAndExit(klog.ExitFlushTimeout, 1)
}

// file returns evictd's own file, which is read once.
var file = sync.OnceValues(func() (host.Config, error) {
	switch mode := os.Getenv(EnvMode); mode {
	case "", "on", "auto", "off":
	default:
		return host.Config{}, fmt.Errorf("%s: %q: want on, auto or off", EnvMode, mode)
	}
	name := os.Getenv(EnvConfig)
	if name == "" {
		return host.DefaultConfig(), nil
	}
	c, err := host.LoadConfig(name)
	if err != nil {
		return c, fmt.Errorf("%s: %w", EnvConfig, err)
	}
	if d := host.DefaultConfig(); !maps.Equal(c.EvictionHard, d.EvictionHard) || len(c.EvictionSoft) > 0 {
		klog.InfoS("Eviction thresholds of the kubelet's signals are the kubelet's own, evictd's file counts for others only", EnvConfig, name)
	}
	return c, nil
})

// settings returns the settings of evictd's file, with the kubelet's own where it has them.
func settings() (host.Config, error) {
	c, err := file()
	if err != nil {
		return c, err
	}
	if c.RunDir == host.DefaultConfig().RunDir {
		c.RunDir = RunDir
	}
	c.Pacing, c.Layout = "kubelet", "kubelet"
	c.Compatibility = version.DefaultKubeBinaryVersion
	c.FeatureGates = gates("PodLevelResources", "PodLevelResourcesFixKubeletQOSClass", "HugepageAwareEviction", "InPlacePodVerticalScalingMemoryBackedVolumes")
	return c, nil
}

// gates returns which of the kubelet's feature gates are on, without those that its version does
// not have.
func gates(names ...featuregate.Feature) map[string]bool {
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	on := map[string]bool{}
	for _, name := range names {
		if _, ok := known[name]; ok {
			on[string(name)] = utilfeature.DefaultFeatureGate.Enabled(name)
		}
	}
	return on
}

// knowsItsRuntime returns an error if c names a runtime that does not exist: evictd's own figures
// would include no filesystem, and no pod would be evicted for disks.
func knowsItsRuntime(c host.Config) error {
	if c.Source == sourceSummary {
		return nil
	}
	socket := crisocket.Path(cmp.Or(c.ImageEndpoint, c.RuntimeEndpoint))
	if _, err := os.Stat(socket); err != nil {
		return fmt.Errorf("%s: runtimeEndpoint: %w, want the kubelet's containerRuntimeEndpoint", EnvConfig, err)
	}
	return nil
}

// inCgroup makes c look for pods where the kubelet puts them: in root, such as /kubepods.slice, or
// below a cgroup root /node.slice/node-kubepods.slice. Without cgroups per QoS class the kubelet
// creates none for pods.
func inCgroup(c *host.Config, root string) {
	root = path.Join("/", root)
	driver, parts := "cgroupfs", strings.Split(root, "/")
	if slice, ok := strings.CutSuffix(path.Base(root), ".slice"); ok { // its name lists its parents
		driver, parts = "systemd", strings.Split(slice, "-")
	}
	last := len(parts) - 1
	if parts[last] != "kubepods" {
		return
	}
	c.CgroupRoot, c.CgroupDriver = path.Join("/", path.Join(parts[:last]...)), driver
}
