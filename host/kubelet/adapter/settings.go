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
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/features"

	"github.com/evictd/evictd/host"
)

// What the environment of a kubelet says.
const (
	// EnvMode is "on" for evictd, which is the default, "off" for the kubelet's own
	// manager, and "auto" for evictd as long as it can.
	EnvMode = "EVICTD"
	// EnvConfig is evictd's configuration file. Without one its defaults hold.
	EnvConfig = "EVICTD_CONFIG"
)

// RunDir is where a kubelet's evictd has its sockets, unless its configuration says
// otherwise: a daemon's is another one.
const RunDir = "/run/kubelet-evictd"

// gaveUp: evictd could not run, or go on, and the kubelet's own manager does.
var gaveUp atomic.Bool

// Off reports whether the kubelet's own manager is to run, because it was asked for, or
// evictd's file is wrong or it cannot run, and the kubelet's may.
func Off() bool {
	if os.Getenv(EnvMode) == "off" || gaveUp.Load() {
		return true
	}
	_, err := file()
	return err != nil && auto()
}

// auto reports whether the kubelet's own manager is to run where evictd cannot.
func auto() bool { return os.Getenv(EnvMode) == "auto" }

// Failed handles an evictd that cannot go on. It returns if the kubelet's own manager is to
// take over, and else ends the kubelet: without an eviction manager it must not run.
func Failed(err error) {
	if auto() {
		gaveUp.Store(true)
		klog.ErrorS(err, "evictd cannot run, the kubelet's own eviction manager does", EnvMode, "auto")
		return
	}
	klog.ErrorS(err, "evictd cannot run; EVICTD=auto would have the kubelet's own eviction manager run")
	klog.FlushAndExit(klog.ExitFlushTimeout, 1)
}

// file is evictd's own file, which is read once.
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

// settings are those of evictd's file and, where a kubelet has them, the kubelet's.
func settings() (host.Config, error) {
	c, err := file()
	if err != nil {
		return c, err
	}
	if c.RunDir == host.DefaultConfig().RunDir {
		c.RunDir = RunDir
	}
	c.Pacing, c.Layout = "kubelet", "kubelet"
	c.FeatureGates = map[string]bool{
		string(features.PodLevelResources): utilfeature.DefaultFeatureGate.Enabled(features.PodLevelResources),
	}
	return c, nil
}

// knowsItsRuntime is an error if c names a runtime that is not there, which a kubelet's is when
// it comes so far: no filesystem would be known to evictd's own figures, and no pod evicted.
func knowsItsRuntime(c host.Config) error {
	if c.Source == sourceSummary {
		return nil
	}
	socket := strings.TrimPrefix(cmp.Or(c.ImageEndpoint, c.RuntimeEndpoint), "unix://")
	if _, err := os.Stat(socket); err != nil {
		return fmt.Errorf("%s: runtimeEndpoint: %w, want the kubelet's containerRuntimeEndpoint", EnvConfig, err)
	}
	return nil
}

// inCgroup has c look for pods where the kubelet has them: in root, such as /kubepods.slice,
// or below a cgroup root /node.slice/node-kubepods.slice. Without cgroups for its classes
// of pods the kubelet has none for them.
func inCgroup(c *host.Config, root string) {
	root = path.Join("/", root)
	driver, parts := "cgroupfs", strings.Split(root, "/")
	if slice, ok := strings.CutSuffix(path.Base(root), ".slice"); ok { // its name lists those that it lies in
		driver, parts = "systemd", strings.Split(slice, "-")
	}
	last := len(parts) - 1
	if parts[last] != "kubepods" {
		return
	}
	c.CgroupRoot, c.CgroupDriver = path.Join("/", path.Join(parts[:last]...)), driver
}
