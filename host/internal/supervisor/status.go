package supervisor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Status is what is known of one plugin, whether it runs or not.
type Status struct {
	Name string `json:"name"`
	// Path is that of its file; empty for a plugin of the host's own process.
	Path  string    `json:"path,omitempty"`
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Until is the end of backoff and quarantine.
	Until *time.Time `json:"until,omitempty"`
	// Reason is why the plugin does not run.
	Reason string `json:"reason,omitempty"`
	// LastError is the last thing that went wrong, also with one that runs.
	LastError string `json:"lastError,omitempty"`
	Restarts  int    `json:"restarts"`
	// Swaps counts the processes that took over from one that served, Replacement
	// is how the present attempt at that goes, or how the last one failed.
	Swaps       int          `json:"swaps,omitempty"`
	Replacement *Replacement `json:"replacement,omitempty"`

	// Standby is that the plugin is asked after all others, for a while.
	Standby *Standby `json:"standby,omitempty"`

	// These are of a running plugin.
	PID        int    `json:"pid,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	// Confinement is what its process is confined to.
	Confinement *Confined `json:"confinement,omitempty"`

	// These are what the plugin last said of itself, also if it does not run.
	Version string   `json:"version,omitempty"`
	Signals []Served `json:"signals,omitempty"`

	// Log has the last lines that the plugin wrote, also before its end.
	Log []string `json:"log,omitempty"`
}

// A Standby is why a plugin is asked after all others that offer the same.
type Standby struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// A Replacement is an attempt at replacing the process of a plugin that runs.
type Replacement struct {
	// State is Starting; Waiting, for its file to be complete; or Refused, if it
	// has failed and the former process stays.
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Reason is why it waits or has failed.
	Reason string `json:"reason,omitempty"`
}

// Served is what a plugin offers for a signal and what of it it is in charge of.
type Served struct {
	Signal   eviction.Signal `json:"signal"`
	Offers   []string        `json:"offers"`
	InCharge []string        `json:"inCharge,omitempty"`
	Roles    []Role          `json:"roles"`
}

// The roles of a plugin for one capability of a signal.
const (
	RoleInCharge = "in charge"
	// RoleShadowed is one that runs and is asked when the one in charge fails.
	RoleShadowed = "shadowed"
	// RoleOut is one that does not run.
	RoleOut = "out"
)

// A Role is what becomes of one thing that a plugin offers, and why.
type Role struct {
	Capability string `json:"capability"`
	Role       string `json:"role"`
	Why        string `json:"why"`
}

// Status returns the state of every plugin, sorted by name.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	all := make([]Status, 0, len(s.members))
	logs := make(map[string]*lineLog, len(s.members))
	for name, m := range s.members {
		all = append(all, s.status(m))
		logs[name] = m.log
	}
	s.mu.Unlock()
	for n := range all {
		all[n].Log = logs[all[n].Name].last(keptLines)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (s *Supervisor) status(m *member) Status {
	st := Status{Name: m.name, State: m.state, Since: m.since, Restarts: max(0, m.starts-1), Swaps: m.swaps}
	if s.inside == nil {
		st.Path = pathOf(s.dir, m.name)
	}
	if !m.until.IsZero() {
		until := m.until
		st.Until = &until
	}
	if m.reason != nil {
		st.Reason = m.reason.Error()
	}
	if m.lastError != nil {
		st.LastError = m.lastError.Error()
	}
	if m.replacement != nil && m.instance != nil {
		r := *m.replacement
		st.Replacement = &r
	}
	if slow := m.slowness; slow.standby() {
		st.Standby = &Standby{slow.since, slow.until, fmt.Sprintf("its answers cost %v of %v", slow.cost.Round(time.Millisecond), slowWindow)}
	}
	said := m.described
	if i := m.instance; i != nil {
		st.PID, st.Generation, said = i.PID, i.Generation, i.Plugin
		st.Confinement = i.confined()
	}
	if said == nil {
		return st
	}
	st.Version = said.Version
	for _, o := range offers(said) {
		n := slices.IndexFunc(st.Signals, func(g Served) bool { return g.Signal == o.signal })
		if n < 0 {
			n = len(st.Signals)
			st.Signals = append(st.Signals, Served{Signal: o.signal})
		}
		role := s.role(m, o)
		st.Signals[n].Offers = append(st.Signals[n].Offers, o.verb())
		st.Signals[n].Roles = append(st.Signals[n].Roles, role)
		if role.Role == RoleInCharge {
			st.Signals[n].InCharge = append(st.Signals[n].InCharge, o.verb())
		}
	}
	return st
}

// role is what becomes of an offer of m. The mutex is held.
func (s *Supervisor) role(m *member, o offer) Role {
	r := Role{Capability: o.verb(), Role: RoleOut, Why: string(m.state)}
	who := s.roster.providers[o]
	if m.instance == nil || !slices.Contains(who, m.instance) {
		return r
	}
	r.Role = RoleInCharge
	if who[0] != m.instance {
		r.Role = RoleShadowed
	}
	r.Why = s.why(o, who)
	return r
}

// why is the reason for the first of who to be in charge of o.
func (s *Supervisor) why(o offer, who []*Instance) string {
	why := "custom before built-in"
	switch assigned := s.assignment[o.signal][o.verb()]; {
	case assigned == who[0].Name:
		return "assigned"
	case len(who) == 1:
		why = "only provider"
	case waitedFor(o.capability) && slices.ContainsFunc(who, s.slow) && !s.slow(who[0]):
		why = "others answer too slowly"
	case o.capability == eviction.CanObserve && policy.WantsSecondLook(o.signal) && !who[0].Builtin():
		why = "custom before built-in; both are asked, the worse figure counts"
	case who[0].Builtin() == who[1].Builtin():
		why = "by name" // beside an assigned plugin that does not run now
	}
	if assigned := s.assignment[o.signal][o.verb()]; assigned != "" {
		not := s.absent(assigned, o)
		if not == "" {
			not = "does not run"
		}
		why += "; assigned to " + assigned + ", which " + not
	}
	return why
}
