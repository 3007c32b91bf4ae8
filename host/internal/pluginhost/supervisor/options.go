package supervisor

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// Options configures a Supervisor. Log is required, and for plugin processes also Dir and
// SocketRoot.
type Options struct {
	// Dir is the plugin directory. With DirOptional it may be missing.
	Dir         string
	DirOptional bool
	// Inside holds in-process plugins. A file in Dir replaces the one of its name.
	Inside InProcess
	// SocketRoot is a directory for the supervisor alone. Each start of a plugin gets a directory
	// below it with mode 0700, removed after the plugin's exit.
	SocketRoot string
	// Host and Node are sent to each plugin. The features of Host are the supervisor's.
	Host eviction.Host
	Node eviction.NodeFacts
	// Settings holds the settings of plugins by name. Those of the name "" define the confinement
	// of all other plugins.
	Settings map[string]Settings
	// Assign names the plugins in charge where precedence must not decide.
	Assign   registry.Assignment
	Timeouts client.Timeouts
	// ExpectBuiltins: a built-in plugin that is missing in Dir is an error. Otherwise its signals
	// are disabled.
	ExpectBuiltins bool
	// trial: a plugin on a socket is not configured, since it may serve a daemon.
	trial bool
	Log   *slog.Logger
	// Metrics may be nil.
	Metrics Metrics
}

// Settings is the host's configuration of one plugin.
type Settings struct {
	// Config is the plugin's configuration as JSON, passed unchanged; empty for none.
	Config []byte
	// Place is where Config stands, for errors.
	Place input.Place
	// WritablePaths must be writable directories.
	WritablePaths []string
	// AutoMTLS is on unless it points to false.
	AutoMTLS *bool
	// Expected: the host's start waits for it, also if it is not there yet.
	Expected bool
	// Disabled keeps the plugin from being started.
	Disabled bool
	// SHA256 is the required hash of its file in hexadecimal digits; "" for any.
	SHA256 string
	// RequirePin refuses a plugin without SHA256, unless it is built-in.
	RequirePin bool
	// Confine modifies the default confinement; it may be nil.
	Confine func(*sandbox.Policy)
}

func (s Settings) configuration(node eviction.NodeFacts) client.Configuration {
	return client.Configuration{ConfigureRequest: eviction.ConfigureRequest{Node: node, Config: s.Config}, Place: s.Place}
}

// expected reports whether the start waits for the plugin, also for a container that comes a moment later.
func (s Settings) expected() bool { return s.Expected && !s.Disabled }

// allPlugins is the key of the settings for plugins without own ones. No plugin has this name.
const allPlugins = ""

// A startPolicy holds the settings that require a new process when they change.
type startPolicy struct {
	sandbox.Policy

	// pin is the required hash of its file, "" for any; mustPin makes it mandatory.
	pin     string
	mustPin bool
	mtls    bool
	// writable are paths, each with a line feed.
	writable string
}

// builtinNeeds holds the capabilities of the built-in plugins. All of them lock their memory.
var builtinNeeds = map[string]sandbox.Capabilities{
	// Cgroup files and /proc/meminfo belong to root and are world-readable.
	"memory":   1 << unix.CAP_IPC_LOCK,
	"pressure": 1 << unix.CAP_IPC_LOCK,
	"pid":      1 << unix.CAP_IPC_LOCK,
	// It walks directory trees of any mode, removes logs in directories of other users, looks for
	// deleted files in /proc/PID/fd and queries project quotas.
	"disk": 1<<unix.CAP_IPC_LOCK | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN,
	// It walks directory trees of any mode, and reads the mounts of pods' processes.
	"mounts": 1<<unix.CAP_IPC_LOCK | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SYS_PTRACE,
}

// startPolicyFor returns the policy for the plugin of that name. Built-in plugins have other
// defaults than custom ones.
func startPolicyFor(all map[string]Settings, name string) startPolicy {
	s, ok := all[name]
	if !ok {
		s = Settings{RequirePin: all[allPlugins].RequirePin}
	}
	policy := sandbox.Usual()
	needs, builtin := builtinNeeds[name]
	if builtin {
		policy = sandbox.Policy{Capabilities: needs}
	}
	if s.Confine != nil {
		s.Confine(&policy)
	}
	return startPolicy{
		Policy: policy, pin: strings.ToLower(s.SHA256), mustPin: s.RequirePin && !builtin,
		mtls: s.AutoMTLS == nil || *s.AutoMTLS, writable: strings.Join(s.WritablePaths, "\n"),
	}
}

// unpinned reports whether a mandatory pin is missing.
func (p startPolicy) unpinned() bool { return p.mustPin && p.pin == "" }

// possible returns why no process can be started by the policy for the plugin of that name.
func (p startPolicy) possible(name string) error {
	var errs []error
	if p.unpinned() {
		errs = append(errs, fmt.Errorf("it has no pin, want its hash in plugins.%s.sha256: requirePins is on", name))
	}
	errs = append(errs, p.Possible())
	for path := range strings.SplitSeq(p.writable, "\n") {
		if path == "" {
			continue
		}
		if err := unix.Access(path, unix.W_OK); err != nil {
			errs = append(errs, fmt.Errorf("plugins.%s.writablePaths: %q: %w, want a directory that evictd may write to", name, path, err))
		}
	}
	return errors.Join(errs...)
}

// Metrics counts events of plugins. host/internal/face/metrics implements it.
type Metrics interface {
	PluginUp(plugin string, yes bool)
	PluginGone(plugin string)
	PluginRestarted(plugin string)
	PluginStandby(plugin string, yes bool)
	CallTook(plugin, call string, took time.Duration)
}

type noMetrics struct{}

func (noMetrics) PluginUp(string, bool)                  {}
func (noMetrics) PluginGone(string)                      {}
func (noMetrics) PluginRestarted(string)                 {}
func (noMetrics) PluginStandby(string, bool)             {}
func (noMetrics) CallTook(string, string, time.Duration) {}
