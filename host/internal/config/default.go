package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/policy"
)

// defaultTransitionPeriod also replaces an explicit 0, as the kubelet's
// defaulting does: with 0 a condition would never be reported
// (pkg/kubelet/apis/config/v1beta1/defaults.go).
const defaultTransitionPeriod = 5 * time.Minute

// defaultSummaryTimeout leaves a plugin some of the second that it has for an
// observation.
const defaultSummaryTimeout = 800 * time.Millisecond

// Default returns the configuration that neither a file nor a flag has changed,
// for programs that fill one in themselves. NodeName is empty if the host has no
// name.
func Default() Config {
	c := blank()
	c.mergeHard()
	_ = c.complete(os.Hostname) // only the name may be missing
	return c
}

// defaultStatusUpdate is the kubelet's (pkg/kubelet/apis/config/v1beta1/defaults.go).
const defaultStatusUpdate = 10 * time.Second

// defaultHousekeeping is the kubelet's (pkg/kubelet/cadvisor/cadvisor_linux.go).
const defaultHousekeeping = 10 * time.Second

// blank is what a field has that neither the file nor a flag names. Fields whose
// default depends on others stay empty until complete.
func blank() Config {
	return Config{
		Mode:                             ModeCRI,
		PluginDir:                        "/usr/libexec/evictd/plugins",
		RunDir:                           "/run/evictd",
		PodManifestDir:                   "/etc/evictd/manifests",
		RuntimeEndpoint:                  "unix:///run/containerd/containerd.sock",
		RootDir:                          "/",
		CgroupRoot:                       "/",
		KubeletRootDir:                   "/var/lib/kubelet",
		PodLogsDir:                       "/var/log/pods",
		ListenAddress:                    "127.0.0.1:10269",
		LogLevel:                         "info",
		Pacing:                           PacingEvictd,
		MonitoringInterval:               metav1.Duration{Duration: 10 * time.Second},
		RankVeto:                         VetoSoft,
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: defaultTransitionPeriod},
		EnforceNodeAllocatable:           []string{"pods"},
		KernelMemcgNotification:          true,
		LocalStorageCapacityIsolation:    true,
		Layout:                           LayoutRecheck,
		Source:                           SourceNative,
		Summary:                          Summary{Timeout: metav1.Duration{Duration: defaultSummaryTimeout}},
	}
}

// mergeHard gives the files' hard thresholds the kubelet's defaults. It runs
// before flags are applied: as in the kubelet, a flag replaces all of them
// (cmd/kubelet/app/server.go:loadConfigFile).
func (c *Config) mergeHard() {
	switch {
	case c.EvictionHard == nil:
		c.EvictionHard = policy.DefaultHard()
	case c.MergeDefaultEvictionSettings:
		merged := policy.DefaultHard()
		maps.Copy(merged, c.EvictionHard)
		c.EvictionHard = merged
	}
}

// complete fills in what depends on other fields or the machine.
func (c *Config) complete(hostname func() (string, error)) error {
	c.ImageEndpoint = cmp.Or(c.ImageEndpoint, c.RuntimeEndpoint)
	if c.EvictionPressureTransitionPeriod.Duration == 0 {
		c.EvictionPressureTransitionPeriod.Duration = defaultTransitionPeriod
	}
	c.Summary.Timeout.Duration = cmp.Or(c.Summary.Timeout.Duration, defaultSummaryTimeout)
	for _, path := range c.paths() {
		if filepath.IsAbs(*path.value) {
			*path.value = filepath.Clean(*path.value)
		}
	}
	if c.NodeName != "" {
		return nil
	}
	name, err := hostname()
	if err != nil {
		return fmt.Errorf("nodeName: not given, and the host name cannot be read: %w", err)
	}
	c.NodeName = strings.ToLower(name)
	return nil
}

// A textField is a field of a Config, by name.
type textField struct {
	name  string
	value *string
}

func (c *Config) paths() []textField {
	return []textField{
		{"pluginDir", &c.PluginDir},
		{"runDir", &c.RunDir},
		{"podManifestDir", &c.PodManifestDir},
		{"rootDir", &c.RootDir},
		{"cgroupRoot", &c.CgroupRoot},
		{"kubeletRootDir", &c.KubeletRootDir},
		{"podLogsDir", &c.PodLogsDir},
	}
}
