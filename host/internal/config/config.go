package config

import (
	"log/slog"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config is the configuration of evictd as it is in force: defaults filled in,
// flags applied. The json tags are the keys of the file; the keys named
// eviction*, enforceNodeAllocatable, kernelMemcgNotification,
// localStorageCapacityIsolation, featureGates and mergeDefaultEvictionSettings
// are those of KubeletConfiguration.
type Config struct {
	// NodeName is the node's name in logs, events and facts for plugins. The
	// host name in lower case by default.
	NodeName string `json:"nodeName"`
	// Mode is how pods are found and killed; see ModeCRI.
	Mode string `json:"mode"`
	// PluginDir holds the plugin executables, RunDir what survives a restart.
	PluginDir string `json:"pluginDir"`
	RunDir    string `json:"runDir"`
	// PodManifestDir holds the v1.Pod manifests of mode cri.
	PodManifestDir string `json:"podManifestDir"`
	// RuntimeEndpoint and ImageEndpoint are CRI sockets, with unix://.
	RuntimeEndpoint string `json:"runtimeEndpoint"`
	ImageEndpoint   string `json:"imageEndpoint"`
	// RootDir is where the node's root filesystem is seen.
	RootDir string `json:"rootDir"`
	// CgroupRoot is the parent of "kubepods" inside each cgroup hierarchy,
	// CgroupDriver how pod cgroups are named, "" to have it found out.
	CgroupRoot     string `json:"cgroupRoot"`
	CgroupDriver   string `json:"cgroupDriver"`
	KubeletRootDir string `json:"kubeletRootDir"`
	PodLogsDir     string `json:"podLogsDir"`
	// ListenAddress serves /healthz, /metrics and /status.
	ListenAddress string `json:"listenAddress"`
	LogLevel      string `json:"logLevel"`
	// DryRun decides and logs, and kills nobody.
	DryRun bool   `json:"dryRun"`
	Pacing string `json:"pacing"`
	// MonitoringInterval is the time between passes that nothing woke.
	MonitoringInterval metav1.Duration `json:"monitoringInterval"`
	// RequiredSignals are those without which evictd must not run.
	RequiredSignals []string `json:"requiredSignals"`
	// RankVeto says when a pod that a custom ranker left out is safe.
	RankVeto string `json:"rankVeto"`
	// Layout says how often the node's filesystems are looked for.
	Layout string `json:"layout"`
	// Source is where plugins take their figures from; Summary says where a
	// summary is.
	Source  string  `json:"source"`
	Summary Summary `json:"summary"`

	EvictionHard                     map[string]string `json:"evictionHard"`
	EvictionSoft                     map[string]string `json:"evictionSoft"`
	EvictionSoftGracePeriod          map[string]string `json:"evictionSoftGracePeriod"`
	EvictionMinimumReclaim           map[string]string `json:"evictionMinimumReclaim"`
	EvictionMaxPodGracePeriod        int32             `json:"evictionMaxPodGracePeriod"`
	EvictionPressureTransitionPeriod metav1.Duration   `json:"evictionPressureTransitionPeriod"`
	MergeDefaultEvictionSettings     bool              `json:"mergeDefaultEvictionSettings"`
	EnforceNodeAllocatable           []string          `json:"enforceNodeAllocatable"`
	KernelMemcgNotification          bool              `json:"kernelMemcgNotification"`
	LocalStorageCapacityIsolation    bool              `json:"localStorageCapacityIsolation"`
	// FeatureGates are the kubelet's, as given; see Feature.
	FeatureGates map[string]bool `json:"featureGates"`

	// Plugins are settings by plugin name, which is the executable's file name.
	// A plugin needs no entry to run.
	Plugins map[string]Plugin `json:"plugins"`
	// Assign names the plugin in charge by signal and capability, for what more
	// than one offers.
	Assign map[string]map[string]string `json:"assign"`
	// RequirePins keeps custom plugins without Plugin.SHA256 from running.
	RequirePins bool `json:"requirePins"`
}

// Summary says where the kubelet's stats summary is, as Options of
// host/internal/summary do, and what it does not tell.
type Summary struct {
	Address            string `json:"address"`
	TokenFile          string `json:"tokenFile"`
	CertFile           string `json:"certFile"`
	KeyFile            string `json:"keyFile"`
	CAFile             string `json:"caFile"`
	ServerName         string `json:"serverName"`
	InsecureSkipVerify bool   `json:"insecureSkipVerify"`
	// Timeout is how long a fetch may take in all.
	Timeout metav1.Duration `json:"timeout"`
	// Layout says which filesystems the node has, "" if nobody said so.
	Layout string `json:"layout"`
}

// The values of the fields that have few.
const (
	// ModeCRI takes pods from the container runtime and kills through it.
	ModeCRI = "cri"

	// DriverCgroupfs and DriverSystemd are the kubelet's cgroup drivers.
	DriverCgroupfs = "cgroupfs"
	DriverSystemd  = "systemd"

	// PacingEvictd has one victim at a time; PacingKubelet lets each pass act.
	PacingEvictd  = "evictd"
	PacingKubelet = "kubelet"

	// VetoSoft lets a custom ranker spare pods under soft thresholds only.
	VetoSoft   = "soft"
	VetoAlways = "always"
	VetoNever  = "never"

	// LayoutKubelet asks once which filesystems the node has, and reads an error
	// about the one of containers as not split; LayoutRecheck asks again.
	LayoutKubelet = "kubelet"
	LayoutRecheck = "recheck"

	// SourceNative has plugins read the machine, SourceSummary the kubelet's stats
	// summary.
	SourceNative  = "native"
	SourceSummary = "summary"

	// LayoutShared, LayoutImageFs and LayoutContainerFs are layouts of a node: all
	// on one filesystem; images and writable layers on their own; images on their
	// own, and writable layers with the kubelet's files.
	LayoutShared      = "shared"
	LayoutImageFs     = "imagefs"
	LayoutContainerFs = "containerfs"
)

var levels = map[string]slog.Level{
	"debug": slog.LevelDebug,
	"info":  slog.LevelInfo,
	"warn":  slog.LevelWarn,
	"error": slog.LevelError,
}

// Level is LogLevel as log/slog has it.
func (c *Config) Level() slog.Level { return levels[c.LogLevel] }
