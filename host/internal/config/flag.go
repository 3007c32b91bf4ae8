package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Flags are the command line's part of the configuration. Every field but
// plugins, requirePins, summary and mergeDefaultEvictionSettings has a flag, its name in kebab case;
// those of the kubelet have the kubelet's names and syntax.
type Flags struct {
	// file is --config, kubeletFile --kubelet-config.
	file, kubeletFile string
	// ignoreEviction is the kubelet's --experimental-allocatable-ignore-eviction,
	// which has no field in any file; housekeeping and statusUpdate are for their
	// users to find accepted.
	ignoreEviction bool
	housekeeping   metav1.Duration
	statusUpdate   metav1.Duration
	// values is where flags leave what they parsed, bound how it gets from there
	// into a Config, by field.
	values Config
	bound  map[string]*bound
	order  []string
	errs   []error
}

type bound struct {
	flag string
	set  bool
	bad  bool
	copy func(to, from *Config)
}

// AddFlags defines the flags on fs.
func AddFlags(fs *pflag.FlagSet) *Flags {
	f := &Flags{values: blank(), bound: map[string]*bound{}}
	fs.StringVar(&f.file, "config", "", "configuration file (YAML); flags beat it")
	fs.StringVar(&f.kubeletFile, "kubelet-config", "", "the kubelet's configuration file; --config beats it")
	f.addNode(fs)
	f.addHost(fs)
	f.addEviction(fs)
	f.addKubelet(fs)
	f.respell(fs, "kernel-memcg-notification", "experimental-kernel-memcg-notification")
	return f
}

func (f *Flags) addNode(fs *pflag.FlagSet) {
	add(f, fs, "nodeName", "name of this node (default the host name)", text, func(c *Config) *string { return &c.NodeName })
	add(f, fs, "mode", "how pods are found and killed: cri", text, func(c *Config) *string { return &c.Mode })
	add(f, fs, "podManifestDir", "directory of v1.Pod manifests", text, func(c *Config) *string { return &c.PodManifestDir })
	add(f, fs, "runtimeEndpoint", "CRI socket of the container runtime", text, func(c *Config) *string { return &c.RuntimeEndpoint })
	add(f, fs, "imageEndpoint", "CRI socket of the image service (default the runtime's)", text, func(c *Config) *string { return &c.ImageEndpoint })
	add(f, fs, "rootDir", "where the node's root filesystem is seen", text, func(c *Config) *string { return &c.RootDir })
	add(f, fs, "cgroupRoot", "parent of kubepods in each cgroup hierarchy", text, func(c *Config) *string { return &c.CgroupRoot })
	add(f, fs, "cgroupDriver", "how pod cgroups are named: cgroupfs or systemd; found out if not given", text, func(c *Config) *string { return &c.CgroupDriver })
	add(f, fs, "kubeletRootDir", "directory of the kubelet's pod directories", text, func(c *Config) *string { return &c.KubeletRootDir })
	add(f, fs, "podLogsDir", "directory of pod logs", text, func(c *Config) *string { return &c.PodLogsDir })
}

func (f *Flags) addHost(fs *pflag.FlagSet) {
	add(f, fs, "pluginDir", "directory of plugin executables", text, func(c *Config) *string { return &c.PluginDir })
	add(f, fs, "runDir", "directory for what survives a restart", text, func(c *Config) *string { return &c.RunDir })
	add(f, fs, "listenAddress", "IP:port of /healthz, /metrics and /status", text, func(c *Config) *string { return &c.ListenAddress })
	add(f, fs, "logLevel", "debug, info, warn or error", text, func(c *Config) *string { return &c.LogLevel })
	add(f, fs, "dryRun", "decide and log, kill nobody", boolean, func(c *Config) *bool { return &c.DryRun })
	add(f, fs, "pacing", "evictd: one victim at a time; kubelet: as the kubelet does", text, func(c *Config) *string { return &c.Pacing })
	add(f, fs, "monitoringInterval", "time between passes that nothing woke", duration, func(c *Config) *metav1.Duration { return &c.MonitoringInterval })
	add(f, fs, "requiredSignals", "signals without which evictd must not run, comma-separated", list, func(c *Config) *[]string { return &c.RequiredSignals })
	add(f, fs, "rankVeto", "under which thresholds a custom ranker may spare pods: soft, always or never", text, func(c *Config) *string { return &c.RankVeto })
	add(f, fs, "layout", "how often the node's filesystems are looked for: recheck, or kubelet for once", text, func(c *Config) *string { return &c.Layout })
	add(f, fs, "source", "where figures come from: native, or summary for the kubelet's", text, func(c *Config) *string { return &c.Source })
}

func (f *Flags) addEviction(fs *pflag.FlagSet) {
	add(f, fs, "evictionHard", "hard thresholds, such as memory.available<1Gi,nodefs.available<10%", pairs("<"),
		func(c *Config) *map[string]string { return &c.EvictionHard })
	add(f, fs, "evictionSoft", "soft thresholds, such as memory.available<1.5Gi", pairs("<"),
		func(c *Config) *map[string]string { return &c.EvictionSoft })
	add(f, fs, "evictionSoftGracePeriod", "grace periods of soft thresholds, such as memory.available=1m30s", pairs("="),
		func(c *Config) *map[string]string { return &c.EvictionSoftGracePeriod })
	add(f, fs, "evictionMinimumReclaim", "what to free beyond a threshold, such as memory.available=0Mi", pairs("="),
		func(c *Config) *map[string]string { return &c.EvictionMinimumReclaim })
	add(f, fs, "evictionMaxPodGracePeriod", "longest grace period of pods under soft thresholds, in seconds", seconds,
		func(c *Config) *int32 { return &c.EvictionMaxPodGracePeriod })
	add(f, fs, "evictionPressureTransitionPeriod", "how long a node condition outlasts its pressure", duration,
		func(c *Config) *metav1.Duration { return &c.EvictionPressureTransitionPeriod })
	add(f, fs, "enforceNodeAllocatable", "with pods in it, hard memory thresholds hold for all pods together too", list,
		func(c *Config) *[]string { return &c.EnforceNodeAllocatable })
	add(f, fs, "kernelMemcgNotification", "let the kernel wake evictd when memory runs short", boolean,
		func(c *Config) *bool { return &c.KernelMemcgNotification })
	add(f, fs, "localStorageCapacityIsolation", "evict pods that exceed their limits of local storage", boolean,
		func(c *Config) *bool { return &c.LocalStorageCapacityIsolation })
	add(f, fs, "featureGates", "the kubelet's feature gates, such as PodLevelResources=false", gates,
		func(c *Config) *map[string]bool { return &c.FeatureGates })
}

// addKubelet defines flags of the kubelet that are fields of no file.
func (f *Flags) addKubelet(fs *pflag.FlagSet) {
	add(f, fs, "experimentalAllocatableIgnoreEviction", "leave out what enforce-node-allocatable makes of hard memory thresholds", boolean,
		func(*Config) *bool { return &f.ignoreEviction })
	add(f, fs, "nodeStatusUpdateFrequency", "of the kubelet; without effect, as conditions are told when they change", duration,
		func(*Config) *metav1.Duration { return &f.statusUpdate })
	f.statusUpdate.Duration = defaultStatusUpdate
	f.housekeeping.Duration = defaultHousekeeping
	add(f, fs, "housekeepingInterval", "of the kubelet's cAdvisor; without effect, as evictd keeps no figures that could be old", duration,
		func(*Config) *metav1.Duration { return &f.housekeeping })
}

// respell defines a flag that is another one by the name that it had in former
// kubelets. What is wrong with it is told by the name that it has.
func (f *Flags) respell(fs *pflag.FlagSet, name, former string) {
	now := fs.Lookup(name)
	defined := fs.VarPF(now.Value, former, "", "former spelling of --"+name)
	defined.NoOptDefVal = now.NoOptDefVal
}

// Load reads the files that --kubelet-config and --config name, if they do, and
// lays the flags over them.
func (f *Flags) Load() (Config, error) {
	return sources{own: f.file, kubelet: f.kubeletFile}.load(f)
}

// LoadDaemon is Load with what CheckDaemon finds.
func (f *Flags) LoadDaemon() (Config, error) {
	return sources{own: f.file, kubelet: f.kubeletFile, also: (*Config).daemonProblems}.load(f)
}

// File returns what --config names, "" if it was not given.
func (f *Flags) File() string { return f.file }

func (f *Flags) problems() []error {
	if f == nil {
		return nil
	}
	errs := slices.Clone(f.errs)
	above0 := func(field string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s: %q: want %s", kebab(field), d, forms[field]))
		}
	}
	above0("housekeepingInterval", f.housekeeping.Duration)
	above0("nodeStatusUpdateFrequency", f.statusUpdate.Duration)
	return errs
}

func (f *Flags) apply(c *Config) {
	if f == nil {
		return
	}
	files := c.FeatureGates
	for _, field := range f.order {
		if b := f.bound[field]; b.set {
			b.copy(c, &f.values)
		}
	}
	if f.bound["featureGates"].set {
		// One by one, as in the kubelet (kubeletConfigFlagPrecedence).
		c.FeatureGates = make(map[string]bool, len(files)+len(f.values.FeatureGates))
		maps.Copy(c.FeatureGates, files)
		maps.Copy(c.FeatureGates, f.values.FeatureGates)
	}
	if f.ignoreEviction {
		c.EnforceNodeAllocatable = []string{}
	}
	if f.bound["evictionSoftGracePeriod"].bad {
		// What is wrong was reported; that periods are missing is its echo.
		c.EvictionSoft = nil
	}
}

// blame says where the value came from that err is about.
func (f *Flags) blame(err error, files layers) error {
	field := topField(err)
	missed := field == "evictionSoftGracePeriod" && files.giver(field) == nil && f.gives("evictionSoft")
	if f.gives(field) || missed {
		return fmt.Errorf("--%s%s", f.bound[field].flag, err.Error()[len(field):])
	}
	return files.blame(err)
}

func (f *Flags) gives(field string) bool {
	return f != nil && f.bound[field] != nil && f.bound[field].set
}

// kebab turns a field's name into its flag's.
func kebab(field string) string {
	var b strings.Builder
	for _, r := range field {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
