package supervisor

import (
	"log/slog"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/supervisor/sandbox"
	"github.com/evictd/evictd/shared/eviction"
)

// Options is what a Supervisor is made of. Log is required and, for plugins that
// are processes, Dir and SocketRoot.
type Options struct {
	// Dir is the plugin directory.
	Dir string
	// SocketRoot is a directory of the supervisor's own. Below it each start of a
	// plugin gets a directory with mode 0700, removed after the plugin's exit.
	SocketRoot string
	// Host and Node are told to each plugin.
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

// Settings are what the host's configuration says about one plugin.
type Settings struct {
	// Config is passed to the plugin as it is, JSON; empty when there is none.
	Config []byte
	// AutoMTLS is on unless it points to false.
	AutoMTLS *bool
	// Disabled keeps the plugin from being started.
	Disabled bool
	// Sandbox is how far it is trusted.
	Sandbox sandbox.Config
}

// everybody is where settings are that hold for plugins without settings of their
// own. No plugin can have that name.
const everybody = ""

// A startPolicy is what a process is started with, all of it: if that changes the plugin
// needs another one.
type startPolicy struct {
	sandbox.Policy

	mtls bool
}

// startPolicyFor returns the policy for the plugin of that name.
func startPolicyFor(all map[string]Settings, name string) startPolicy {
	s, ok := all[name]
	if !ok {
		s = Settings{Sandbox: all[everybody].Sandbox}
	}
	return startPolicy{sandbox.PolicyFor(name, s.Sandbox), s.AutoMTLS == nil || *s.AutoMTLS}
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
