package supervisor

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/supervisor/sandbox"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
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
	Confinement *sandbox.Status `json:"confinement,omitempty"`

	// These are what the plugin last said of itself, also if it does not run.
	Version string            `json:"version,omitempty"`
	Signals []registry.Served `json:"signals,omitempty"`

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

// Status returns the state of every plugin, sorted by name, with roles as they are as
// long as the layout of the filesystems is not known.
func (s *Supervisor) Status() []Status { return s.StatusIn(0) }

// StatusIn is Status where the filesystems are laid out as now says, 0 if that is not
// known, and may come to be as in one of possible.
func (s *Supervisor) StatusIn(now eviction.Layout, possible ...eviction.Layout) []Status {
	in := registry.Layouts{Now: now, Possible: possible}
	s.mu.Lock()
	r := s.newRegistry()
	all := make([]Status, 0, len(s.members))
	logs := make(map[string]*lineLog, len(s.members))
	for name, m := range s.members {
		all = append(all, s.status(m, r, in))
		logs[name] = m.log
	}
	s.mu.Unlock()
	for n := range all {
		all[n].Log = logs[all[n].Name].kept.Last(launch.KeptLines)
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

func (s *Supervisor) status(m *member, r *registry.Registry, in registry.Layouts) Status {
	st := Status{Name: m.name, State: m.state, Since: m.since, Restarts: max(0, m.starts-1), Swaps: m.swaps}
	if s.inside == nil {
		st.Path = filepath.Join(s.dir, m.name)
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
	if slow := m.slowness; slow.Standby() {
		st.Standby = &Standby{slow.Since, slow.Until, fmt.Sprintf("its answers cost %v of %v", slow.Cost.Round(time.Millisecond), client.SlowWindow)}
	}
	said := m.described
	if i := m.instance; i != nil {
		st.PID, st.Generation, said = i.PID, i.Generation, i.Plugin
		if i.conn != nil {
			st.Confinement = i.conn.sandbox.Status()
		}
	}
	if said == nil {
		return st
	}
	st.Version = said.Version
	st.Signals = r.Served(m.name, in)
	return st
}
