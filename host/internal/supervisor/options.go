package supervisor

import (
	"fmt"
	"log/slog"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// Options configures a Supervisor. Log is required and, for plugins that are processes, Dir and
// SocketRoot.
type Options struct {
	// Dir is the plugin directory.
	Dir string
	// SocketRoot is a directory of the supervisor's own. Below it each start of a
	// plugin gets a directory with mode 0700, removed after the plugin's exit.
	SocketRoot string
	// Host and Node are sent to each plugin.
	Host eviction.Host
	Node eviction.NodeFacts
	// Settings are the plugins' own settings, by name. Those of the name "" say how
	// plugins without any are confined.
	Settings map[string]Settings
	// Assign names who is in charge of what, where that is not left to precedence.
	Assign   registry.Assignment
	Timeouts client.Timeouts
	// ExpectBuiltins: a plugin that comes with the host and is not in Dir is missed.
	// Else its signals are switched off.
	ExpectBuiltins bool
	Log            *slog.Logger
	// Metrics may be nil.
	Metrics Metrics
}

// Settings is the host's configuration of one plugin.
type Settings struct {
	// Config is passed to the plugin as it is, JSON; empty when there is none.
	Config []byte
	// AutoMTLS is on unless it points to false.
	AutoMTLS *bool
	// Disabled keeps the plugin from being started.
	Disabled bool
	// Shadow has the plugin rank beside the plugin in charge, and nothing else.
	Shadow bool
	// SHA256 is the hash that its file must have, in hexadecimal digits; "" for any.
	SHA256 string
	// RequirePin refuses it without SHA256, unless it is built-in.
	RequirePin bool
	// Confine changes what is usual of its confinement; it may be nil.
	Confine func(*sandbox.Policy)
}

// allPlugins is the key of the settings for plugins without settings of their own. No plugin can
// have that name.
const allPlugins = ""

// A startPolicy holds all the settings that a process is started with: if one changes the plugin
// needs another process.
type startPolicy struct {
	sandbox.Policy

	// pin is the hash of its file, "" for any; mustPin: there must be one.
	pin     string
	mustPin bool
	mtls    bool
}

// builtinNeeds are the capabilities that the plugins which come with the host use.
// All of them keep their memory from being paged out.
var builtinNeeds = map[string]sandbox.Capabilities{
	// Cgroup files and /proc/meminfo belong to root and are readable by all.
	"memory": 1 << unix.CAP_IPC_LOCK,
	"pid":    1 << unix.CAP_IPC_LOCK,
	// It walks trees whatever their modes, removes logs in directories of others,
	// looks for deleted files in /proc/PID/fd and asks for quotas of projects.
	"disk": 1<<unix.CAP_IPC_LOCK | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_ADMIN,
}

// startPolicyFor returns the policy for the plugin of that name. Those that come with
// the host have other defaults than custom ones.
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
		mtls: s.AutoMTLS == nil || *s.AutoMTLS,
	}
}

// unpinned reports whether a pin is missing that there must be.
func (p startPolicy) unpinned() bool { return p.mustPin && p.pin == "" }

// checkPin checks the pin of the plugin of that name.
func (p startPolicy) checkPin(name string) error {
	if p.unpinned() {
		return fmt.Errorf("it has no pin, want its hash in plugins.%s.sha256: requirePins is on", name)
	}
	return nil
}

// Metrics counts what happens to plugins. host/internal/metrics has one.
type Metrics interface {
	PluginUp(plugin string, yes bool)
	PluginGone(plugin string)
	PluginRestarted(plugin string)
	PluginStandby(plugin string, yes bool)
}

type noMetrics struct{}

func (noMetrics) PluginUp(string, bool)      {}
func (noMetrics) PluginGone(string)          {}
func (noMetrics) PluginRestarted(string)     {}
func (noMetrics) PluginStandby(string, bool) {}
