// Package config reads evictd's configuration, strictly: one YAML file, and a few flags that override
// it. It reports every mistake at once and by name.
//
// A field is one row: its line in Config, Summary or Plugin, whose tags flags, defaults, checks,
// errors, reload and the test of docs/configuration.md read. A new one needs its row, its line in
// the document, and its use.
//
// The package reads the file, validates it, applies defaults, and determines what may change while
// evictd runs. It does not decide anything with the values: the grammar of thresholds is in
// host/internal/core/policy, and whether a directory or a socket exists is for its users to check.
package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/node/programs"
	"github.com/evictd/evictd/host/internal/node/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// RecordsDir returns the directory of decision records in a state directory.
func RecordsDir(stateDir string) string { return filepath.Join(stateDir, "records") }

// Config is the configuration of evictd as it is in force: defaults filled in, flags applied. It is
// the table that all of this package reads: field.go says what the tags of a field mean,
// docs/configuration.md what the field is for. The keys named eviction*, enforceNodeAllocatable,
// kernelMemcgNotification, localStorageCapacityIsolation, cgroupsPerQOS, featureGates and
// mergeDefaultEvictionSettings are those of KubeletConfiguration.
type Config struct {
	// NodeName is the host name in lower case by default.
	NodeName           string          `json:"nodeName" is:"name" reload:"no" flag:"name of this node (default the host name)"`
	Mode               string          `json:"mode" oneof:"cri kubernetes" default:"cri" reload:"no"`
	Kubeconfig         string          `json:"kubeconfig" is:"path?" reload:"no"`
	NodeConditions     string          `json:"nodeConditions" oneof:"none conditions taints" default:"taints" reload:"no"`
	PluginDir          string          `json:"pluginDir" is:"path" default:"/usr/libexec/evictd/plugins" reload:"no"`
	RunDir             string          `json:"runDir" is:"path" default:"/run/evictd" reload:"no"`
	StateDir           string          `json:"stateDir" is:"path?" default:"/var/lib/evictd" reload:"no"`
	PodManifestDir     string          `json:"podManifestDir" is:"path" default:"/etc/evictd/manifests" reload:"no"`
	StaticPodPath      string          `json:"staticPodPath" kubelet:"staticPodPath" beside:"cri" is:"path?" reload:"no"`
	RootDir            string          `json:"rootDir" is:"path" default:"/" reload:"no"`
	CgroupRoot         string          `json:"cgroupRoot" kubelet:"cgroupRoot" is:"path" default:"/" reload:"no"`
	CgroupsPerQOS      bool            `json:"cgroupsPerQOS" kubelet:"cgroupsPerQOS" default:"true" reload:"no"`
	KubeletRootDir     string          `json:"kubeletRootDir" is:"path" default:"/var/lib/kubelet" reload:"no"`
	BesideKubelet      string          `json:"besideKubelet" is:"kubelet?"`
	BesideKubeletDir   string          `json:"besideKubeletDir" is:"path?"`
	PodLogsDir         string          `json:"podLogsDir" kubelet:"podLogsDir" is:"path" default:"/var/log/pods" reload:"no"`
	RuntimeEndpoint    string          `json:"runtimeEndpoint" kubelet:"containerRuntimeEndpoint" is:"socket" default:"unix:///run/containerd/containerd.sock" reload:"no"`
	ImageEndpoint      string          `json:"imageEndpoint" kubelet:"imageServiceEndpoint" is:"socket" reload:"no"`
	CgroupDriver       string          `json:"cgroupDriver" kubelet:"cgroupDriver" beside:"detected" oneof:"cgroupfs systemd" reload:"no"`
	HealthzBindAddress string          `json:"healthzBindAddress" is:"address?" reload:"no"`
	MetricsBindAddress string          `json:"metricsBindAddress" is:"address?" reload:"no"`
	TLSCertFile        string          `json:"tlsCertFile" is:"path?" reload:"no"`
	TLSPrivateKeyFile  string          `json:"tlsPrivateKeyFile" is:"path?" reload:"no"`
	LogLevel           string          `json:"logLevel" oneof:"debug info warn error" default:"info" flag:"debug, info, warn or error"`
	DryRun             bool            `json:"dryRun" flag:"decide and log, kill no pod"`
	Observe            bool            `json:"observe"`
	Pacing             string          `json:"pacing" oneof:"evictd kubelet" default:"evictd"`
	MemoryFigure       string          `json:"memoryFigure" oneof:"auto lower kubelet memAvailable" default:"auto"`
	MonitoringInterval metav1.Duration `json:"monitoringInterval" is:"interval" default:"10s"`
	RequiredSignals    []string        `json:"requiredSignals" is:"signals"`
	PodMetrics         int32           `json:"podMetrics" is:"top"`
	RankVeto           string          `json:"rankVeto" oneof:"soft always never" default:"soft"`
	Layout             string          `json:"layout" oneof:"recheck kubelet" default:"recheck" reload:"no"`
	Source             string          `json:"source" oneof:"native summary" default:"native" reload:"no"`
	Summary            Summary         `json:"summary" is:"summary" reload:"no"`

	EvictionHard                     map[string]string `json:"evictionHard" kubelet:"evictionHard" beside:"signals" is:"hard" pairs:"<" flag:"hard thresholds, such as memory.available<1Gi,nodefs.available<10%"`
	EvictionSoft                     map[string]string `json:"evictionSoft" kubelet:"evictionSoft" beside:"signals" is:"soft" pairs:"<" flag:"soft thresholds, such as memory.available<1.5Gi"`
	EvictionSoftGracePeriod          map[string]string `json:"evictionSoftGracePeriod" kubelet:"evictionSoftGracePeriod" beside:"signals" is:"graces" flag:"grace periods of soft thresholds, such as memory.available=1m30s"`
	EvictionMinimumReclaim           map[string]string `json:"evictionMinimumReclaim" kubelet:"evictionMinimumReclaim" is:"reclaim" flag:"what to free beyond a threshold, such as memory.available=0Mi"`
	EvictionMaxPodGracePeriod        int32             `json:"evictionMaxPodGracePeriod" kubelet:"evictionMaxPodGracePeriod" is:"seconds" flag:"longest grace period of pods under soft thresholds, in seconds"`
	EvictionPressureTransitionPeriod metav1.Duration   `json:"evictionPressureTransitionPeriod" kubelet:"evictionPressureTransitionPeriod" is:"period" default:"5m0s" flag:"how long a node condition outlasts its pressure"`
	MergeDefaultEvictionSettings     bool              `json:"mergeDefaultEvictionSettings" kubelet:"mergeDefaultEvictionSettings" beside:"signals"`
	EnforceNodeAllocatable           []string          `json:"enforceNodeAllocatable" kubelet:"enforceNodeAllocatable" is:"allocatables" default:"pods" flag:"with pods in it, hard memory thresholds hold for all pods together too"`
	KernelMemcgNotification          bool              `json:"kernelMemcgNotification" kubelet:"kernelMemcgNotification" kubelets:"false" default:"true" flag:"let the kernel wake evictd when memory runs short"`
	LocalStorageCapacityIsolation    bool              `json:"localStorageCapacityIsolation" kubelet:"localStorageCapacityIsolation" default:"true" flag:"evict pods that exceed their limits of local storage"`
	// Compatibility is the Kubernetes version whose kubelet decides the same way; see Kubernetes.
	Compatibility string `json:"compatibility" oneof:"auto 1.35 1.36 1.37 1.38" default:"auto" reload:"no"`
	// OfKubelet is not in the file.
	OfKubelet `json:"-"`
	// FeatureGates holds the kubelet's gates, as given; see Feature.
	FeatureGates map[string]bool `json:"featureGates" kubelet:"featureGates" is:"gates" reload:"no" flag:"the kubelet's feature gates, such as PodLevelResources=false"`

	// RecordsMaxSize and RecordsMaxAge bound the records in StateDir.
	RecordsMaxSize resource.Quantity `json:"recordsMaxSize" is:"records" default:"64Mi" reload:"no"`
	RecordsMaxAge  metav1.Duration   `json:"recordsMaxAge" is:"age" default:"720h0m0s" reload:"no"`

	// Plugins holds settings by plugin name: the executable's file name, or that of its socket without
	// .sock. A plugin needs no entry to run.
	Plugins map[string]Plugin `json:"plugins" is:"plugins"`
	// Assign names the plugin in charge by signal and capability, if several offer the same.
	Assign map[eviction.Signal]map[string]string `json:"assign" is:"assignment"`
	// RequirePins prevents custom plugins without Plugin.SHA256 from running.
	RequirePins bool `json:"requirePins"`
}

// OfKubelet holds facts about the node's kubelet.
type OfKubelet struct {
	// KubeletVersion is its version, such as v1.36.3, empty if unknown.
	KubeletVersion string
	// UnknownKeys names the keys of its files that no kubelet knows, each with its file.
	UnknownKeys []string
}

// Summary configures the source of the kubelet's stats summary, with what it does not contain.
type Summary = summary.Options

// Plugin is the configuration of one plugin. A nil pointer is a field that was not set.
type Plugin struct {
	// Config is passed to the plugin unchanged, as JSON; nil for none.
	Config json.RawMessage `json:"config,omitempty" is:"any"`
	// Place is where Config stands in the file.
	Place input.Place `json:"-"`
	// AutoMTLS encrypts the calls to the plugin; nil means yes.
	AutoMTLS *bool `json:"autoMTLS,omitempty"`
	// Disabled prevents the plugin from being started.
	Disabled bool `json:"disabled,omitempty"`
	// Required makes the host not ready while the plugin does not serve; nil means yes, but for a built-in one whose
	// file was removed.
	Required *bool `json:"required,omitempty"`
	// SHA256 is the hash of its file, in hexadecimal digits.
	SHA256 *string `json:"sha256,omitempty" is:"sha256"`
	// User and Group of the plugin process, by name or number.
	User  *string `json:"user,omitempty" is:"user"`
	Group *string `json:"group,omitempty" is:"group"`
	// Capabilities that the plugin keeps of the host's; nil means the default.
	Capabilities []string `json:"capabilities,omitempty" is:"capabilities"`
	// WritablePaths are directories of the node that the plugin writes to. It is refused where they are missing or
	// read-only.
	WritablePaths []string `json:"writablePaths,omitempty" is:"paths"`
	// MemoryLimit and CPULimit apply to the plugin with its children; 0 means no limit.
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty" is:"memory"`
	CPULimit    *resource.Quantity `json:"cpuLimit,omitempty" is:"cpu"`
}

// Wanted reports whether the plugin of that name must serve. there: it has a file. A built-in one is switched off by
// removing its file, whatever settings are left.
func (p Plugin) Wanted(name string, there bool) bool {
	return !p.Disabled && ptr.Deref(p.Required, there || len(eviction.SignalsOf(name)) == 0)
}

// kubeletFlags holds flags of the kubelet without a field in a file. All but the first are only
// accepted for compatibility. The defaults are the kubelet's
// (pkg/kubelet/apis/config/v1beta1/defaults.go, pkg/kubelet/cadvisor/cadvisor_linux.go).
type kubeletFlags struct {
	IgnoreEviction bool            `json:"experimentalAllocatableIgnoreEviction" flag:"leave out what enforce-node-allocatable makes of hard memory thresholds"`
	Housekeeping   metav1.Duration `json:"housekeepingInterval" is:"frequency" default:"10s" flag:"of the kubelet's cAdvisor; without effect, as evictd keeps no figures that could be old"`
	StatusUpdate   metav1.Duration `json:"nodeStatusUpdateFrequency" is:"frequency" default:"10s" flag:"of the kubelet; without effect, as conditions are told when they change"`
}

// The values of fields with a few.
const (
	// ModeCRI finds and kills pods through the container runtime.
	ModeCRI = "cri"
	// ModeKubernetes finds pods through the API server and kills beside a kubelet.
	ModeKubernetes = "kubernetes"

	// NodeConditionsNone writes nothing to the node, NodeConditionsTaints writes taints as well as
	// conditions.
	NodeConditionsNone       = "none"
	NodeConditionsConditions = "conditions"
	NodeConditionsTaints     = "taints"

	// PacingKubelet lets each pass act; otherwise there is one victim at a time.
	PacingKubelet = "kubelet"

	// LayoutKubelet asks once for the layout of the filesystems, and treats an error about the one
	// of containers as not split; otherwise it is asked again.
	LayoutKubelet = "kubelet"

	// SourceNative makes plugins read the machine, SourceSummary the kubelet's stats summary.
	SourceNative  = "native"
	SourceSummary = registry.Summary
)

// Memory returns how memory.available is computed: with memoryFigure auto as by the kubelet where evictd acts at its pace,
// in its place.
func (c *Config) Memory() string {
	switch {
	case c.MemoryFigure != "auto":
		return c.MemoryFigure
	case c.Pacing == PacingKubelet:
		return nodefs.KubeletMemory
	}
	return "lower"
}

// MetricsElsewhere reports whether other machines can reach MetricsBindAddress.
func (c *Config) MetricsElsewhere() bool {
	at, err := netip.ParseAddrPort(c.MetricsBindAddress)
	return c.MetricsBindAddress != "" && (err != nil || !at.Addr().IsLoopback())
}

// Node returns the node's file tree.
func (c *Config) Node() nodefs.FS { return nodefs.FS{Root: c.RootDir} }

// BesideRunning as BesideKubelet is the kubelet that runs on the node, wherever its settings are.
const BesideRunning = "running"

// KubeletOf returns where the settings of the kubelet are that c is compared with, and false if it is with none.
func KubeletOf(c *Config) (s programs.Kubelet, named bool, err error) {
	if c.BesideKubelet != BesideRunning {
		return programs.Kubelet{File: c.BesideKubelet, Dir: c.BesideKubeletDir}, c.BesideKubelet+c.BesideKubeletDir != "", nil
	}
	s, err = programs.RunningKubelet(c.Node(), c.KubeletRootDir)
	s.Dir = cmp.Or(c.BesideKubeletDir, s.Dir)
	return s, true, err
}

// ID returns an id that is equal for equal configurations and reveals nothing else.
func (c *Config) ID() string {
	text, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// Level returns LogLevel as a slog.Level.
func (c *Config) Level() slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(c.LogLevel)) // what is none was reported
	return l
}

// Thresholds parses the configured thresholds by the kubelet's grammar. They include those of
// custom signals, whose plugins and definitions are known only at run time, and may change.
func (c *Config) Thresholds() ([]policy.Threshold, error) {
	return policy.ParseThresholds(policy.ThresholdConfig{
		Hard:                   c.EvictionHard,
		Soft:                   c.EvictionSoft,
		SoftGracePeriod:        c.EvictionSoftGracePeriod,
		MinReclaim:             c.EvictionMinimumReclaim,
		EnforceNodeAllocatable: c.EnforceNodeAllocatable,
	}, c.CustomSignals()...)
}

// CustomSignals lists the configured signals that are not the kubelet's and could be a vendor's, by
// name.
func (c *Config) CustomSignals() []eviction.Signal {
	own := map[eviction.Signal]bool{}
	for _, m := range []map[string]string{c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim} {
		for name := range m {
			if s := eviction.Signal(name); s.ValidCustom() == nil {
				own[s] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(own))
}

// Assigned returns the plugin assigned to a capability of a signal, "" if there is none. Source
// "summary" assigns the kubelet's signals, unless Assign does for one of the same filesystem.
func (c *Config) Assigned(s eviction.Signal, capability eviction.Capability) string {
	to := c.Assign[s][capability.String()]
	if _, builtin := eviction.Builtin(s); to != "" || !builtin || c.Source != SourceSummary || capability&(eviction.CanObserve|eviction.CanMeasure) == 0 {
		return to
	}
	for _, same := range eviction.LayoutNamed(c.Summary.Layout).ServedWith(s, capability) {
		to = cmp.Or(to, c.Assign[same][capability.String()])
	}
	return cmp.Or(to, registry.Summary)
}

// Assignment returns what is assigned to plugins, by Assign and by Source.
func (c *Config) Assignment() registry.Assignment {
	all := registry.Assignment{}
	for _, s := range slices.Concat(eviction.BuiltinSignals(), slices.Collect(maps.Keys(c.Assign))) {
		for capability := range eviction.AllCapabilities().Each() {
			if to := c.Assigned(s, capability); to != "" {
				if all[s] == nil {
					all[s] = map[string]string{}
				}
				all[s][capability.String()] = to
			}
		}
	}
	return all
}

// UsesSummary reports whether anything is assigned to the kubelet's summary.
func (c *Config) UsesSummary() bool {
	for _, of := range c.Assignment() {
		for _, to := range of {
			if to == registry.Summary {
				return true
			}
		}
	}
	return false
}

// SubtractHugePages reports whether the kubelet's summary counts huge pages as available that are not.
func (c *Config) SubtractHugePages() bool {
	return c.Feature(FeatureHugePages) && c.KubeletVersion != "" && Minor(c.KubeletVersion) < Kubernetes137
}

// PossibleLayouts returns the possible layouts of the node's filesystems.
func (c *Config) PossibleLayouts() []eviction.Layout {
	if c.Assigned(eviction.NodeFsAvailable, eviction.CanObserve) == registry.Summary {
		if l := eviction.LayoutNamed(c.Summary.Layout); l != 0 {
			return []eviction.Layout{l}
		}
	}
	return eviction.Layouts()
}

// Values of Compatibility.
const (
	CompatibilityAuto = "auto"
	Kubernetes135     = "1.35"
	Kubernetes137     = "1.37"
	Kubernetes138     = "1.38"
)

// Kubernetes returns the minor version of Kubernetes whose kubelet decides the same way:
// Compatibility, or with "auto" that of the node's kubelet.
func (c *Config) Kubernetes() string {
	if c.Compatibility == CompatibilityAuto {
		return Minor(c.KubeletVersion)
	}
	return c.Compatibility
}

// Minor returns the value of Compatibility that is nearest to a kubelet's version. It is the newest
// if the version is empty or invalid.
func Minor(kubelet string) string {
	v, err := version.ParseGeneric(kubelet)
	switch {
	case err != nil || v.AtLeast(version.MustParseGeneric(Kubernetes138)):
		return Kubernetes138
	case v.LessThan(version.MustParseGeneric(Kubernetes135)):
		return Kubernetes135
	}
	return fmt.Sprintf("%d.%d", v.Major(), v.Minor())
}

// Since reports whether decisions are those of a minor version or a later one.
func (c *Config) Since(version string) bool { return c.Kubernetes() >= version }

// Feature reports whether a feature of warn.go is on: by its gate, else by AllAlpha or AllBeta,
// else because beta features are on in the kubelet. A feature newer than Kubernetes is off.
func (c *Config) Feature(name string) bool {
	f := newFeatures[name]
	if !c.Since(f.since) {
		return false
	}
	if on, ok := c.FeatureGates[name]; ok {
		return on
	}
	if f.alpha {
		return c.FeatureGates[allAlpha]
	}
	on, ok := c.FeatureGates[allBeta]
	return on || !ok
}
