package supervisor

import (
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/shared/eviction"
)

// An Instance is one running process of a plugin, or one of the host's own.
type Instance struct {
	// Name is the plugin's name, that of its file or of its place in a map.
	Name string
	// Generation is different for each start of any plugin and grows.
	Generation uint64
	// PID is 0 for a plugin of the host's own process.
	PID int
	// Plugin is what the plugin said of itself, its capabilities being calls that
	// have deadlines of their own and whose replies are checked. They may be used
	// as long as the instance is pinned, and fail afterwards at the latest.
	Plugin *eviction.Plugin

	supervisor *Supervisor
	// conn is nil for a plugin of the host's own process.
	conn *connection
	// remote is the plugin without guards.
	remote eviction.Plugin
	// policy is what its process was started with.
	policy startPolicy
	// doublings is how often the limits of its start were doubled.
	doublings int
	// file is what it was started from, looks the member's count of those.
	file  plugindir.ID
	looks int
	// out is closed when it is condemned, doom when its process is to be ended:
	// condemned, and not pinned.
	out, doom chan struct{}

	// Below is guarded by the supervisor's mutex.
	pins      int
	condemned *sentence
	misses    misses
	blamed    string
	// revision is that of the settings that it was configured with, told is what it
	// was configured with last.
	revision uint64
	told     *eviction.ConfigureRequest
}

// newInstance makes another instance of m. The mutex is held.
func (s *Supervisor) newInstance(m *member) *Instance {
	s.generation++
	return &Instance{
		Name: m.name, Generation: s.generation, supervisor: s, looks: m.looks,
		out: make(chan struct{}), doom: make(chan struct{}),
	}
}

// Builtin reports whether the plugin is one of those that come with the host, by
// its name. All others are custom and go before them.
func (i *Instance) Builtin() bool { return builtin(i.Name) }

// relays reports whether the plugin's figures are those of the kubelet's summary.
func (i *Instance) relays() bool {
	i.supervisor.mu.Lock()
	defer i.supervisor.mu.Unlock()
	return i.Builtin() && i.supervisor.node.SummarySocket != ""
}

// outdated reports whether the settings of all plugins need a new process.
func (i *Instance) outdated(all map[string]Settings) bool {
	return i.conn != nil && i.policy != startPolicyFor(all, i.Name)
}

// A sentence is why the host takes an instance out of service and ends its
// process.
type sentence struct {
	why error
	// hung processes are not asked to leave.
	hung bool
}

// A Pass keeps the instances of one moment alive: none of them is ended for its
// timeouts or replaced until Release. It cannot keep one from crashing.
type Pass struct {
	supervisor *Supervisor
	roster     *roster
}

// Pin starts a pass. It must be released.
func (s *Supervisor) Pin() *Pass {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endStandbys(time.Now())
	for _, i := range s.roster.instances {
		i.pins++
	}
	return &Pass{supervisor: s, roster: s.roster}
}

// Providers returns who offers c for sig: the one in charge first, its fallbacks
// after it. The slice must not be changed.
func (p *Pass) Providers(sig eviction.Signal, c eviction.Capability) []*Instance {
	return p.roster.providers[offer{sig, c}]
}

// Assigned reports whether who is in charge of c for sig is so by the configuration.
func (p *Pass) Assigned(sig eviction.Signal, c eviction.Capability) bool {
	return p.roster.assigned[offer{sig, c}] != ""
}

// Layouts returns who reports the node's filesystem layout: the one in charge
// first, as for signals. Their Observe reports the layout whatever signals it is
// asked for. The slice must not be changed.
func (p *Pass) Layouts() []*Instance { return p.roster.layouts }

// Instances returns all running instances, custom ones first. The slice must not
// be changed.
func (p *Pass) Instances() []*Instance { return p.roster.instances }

// Release ends the pass. Releasing twice is harmless.
func (p *Pass) Release() {
	s := p.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range p.roster.instances {
		i.pins--
		i.execute()
	}
	p.roster = &roster{}
}

// execute lets the end of a condemned instance begin when no pass needs it. The
// supervisor's mutex is held.
func (i *Instance) execute() {
	if i.condemned == nil || i.pins > 0 {
		return
	}
	select {
	case <-i.doom:
	default:
		close(i.doom)
	}
}
