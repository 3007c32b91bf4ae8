package supervisor

import (
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
)

// A process is one running process of a plugin, or one of the host's own.
type process struct {
	*registry.Instance

	client *client.Client
	// conn is nil for a plugin of the host's own process.
	conn *connection
	// policy is what its process was started with.
	policy startPolicy
	// file is what it was started from, looks the member's count of those.
	file  plugindir.ID
	looks int
	// out is closed when it is condemned.
	out chan struct{}

	// Below is guarded by the supervisor's mutex.
	condemned *sentence
	// revision is that of the settings that it was configured with.
	revision uint64
}

// newProcess makes another process of m. The mutex is held.
func (s *Supervisor) newProcess(m *member) *process {
	s.generation++
	i := &process{Instance: registry.NewInstance(m.name, s.generation, 0, nil), looks: m.looks, out: make(chan struct{})}
	i.client = client.New(client.Config{
		Name: m.name, Timeouts: s.timeouts, Doublings: m.late, Builtin: i.Builtin(), Ending: i.crashed,
		Owner: reports{s, i}, Asked: &s.asked, Log: s.log,
	})
	return i
}

// crashed returns how its process has ended, after a moment for it to do so.
func (i *process) crashed() string {
	if i.conn == nil || !i.conn.proc.WaitFor(launch.Farewell) {
		return ""
	}
	return i.conn.proc.Ending()
}

// outdated reports whether the settings of all plugins need a new process.
func (i *process) outdated(all map[string]Settings) bool {
	return i.conn != nil && i.policy != startPolicyFor(all, i.Name)
}

// A sentence is why the host takes an instance out of service and ends its
// process.
type sentence struct {
	why error
	// hung processes are not asked to leave.
	hung bool
}

// reports are what the calls of a process say about it.
type reports struct {
	supervisor *Supervisor
	of         *process
}

// Failed implements client.Owner.
func (r reports) Failed(err error) {
	s := r.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[r.of.Name]; m != nil {
		m.lastError = err
	}
}

// Unresponsive implements client.Owner. Ending a plugin of this process would end
// nothing: what hangs in it goes on, and the plugin is left alone as long as it does
// (client.Direct).
func (r reports) Unresponsive(err error) {
	s := r.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.of.conn != nil {
		s.condemn(r.of, sentence{why: err, hung: true})
	}
}

// Delayed implements client.Owner: it puts the plugin behind all others that offer
// the same when that is too much. What a pass has pinned stays.
func (r reports) Delayed(cost time.Duration) {
	s := r.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[r.of.Name]
	if m == nil || m.instance != r.of || !m.slowness.Add(time.Now(), cost) {
		return
	}
	s.log.Warn("plugin answers too slowly and is asked after all others", "plugin", m.name, "cost", m.slowness.Cost.String(), "within", client.SlowWindow.String(), "for", client.StandbyFor.String())
	s.metrics.PluginStandby(m.name, true)
	s.publish()
}

// A Pass keeps the instances of one moment alive: none of them is ended for its
// timeouts or replaced until Release. It cannot keep one from crashing.
type Pass struct {
	*registry.Pin

	supervisor *Supervisor
}

// Pin starts a pass. It must be released.
func (s *Supervisor) Pin() *Pass {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endStandbys(time.Now())
	return &Pass{s.current.Pin(), s}
}

// Awaited is registry.Pin's with what is known now.
func (p *Pass) Awaited(sig eviction.Signal) error {
	p.supervisor.refresh()
	return p.Pin.Awaited(sig)
}

// FirstStart is registry.Pin's with what is known now.
func (p *Pass) FirstStart(sig eviction.Signal) bool {
	p.supervisor.refresh()
	return p.Pin.FirstStart(sig)
}

// refresh publishes what is known of all plugins.
func (s *Supervisor) refresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Publish(s.newRegistry())
}

// endStandbys lets plugins have their place again whose time on standby is over. The
// mutex is held.
func (s *Supervisor) endStandbys(now time.Time) {
	ended := false
	for _, m := range s.members {
		if m.slowness.Over(now) {
			s.log.Info("plugin has its place again", "plugin", m.name)
			s.metrics.PluginStandby(m.name, false)
			ended = true
		}
	}
	if ended {
		s.publish()
	}
}
