package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/output"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// Status of one plugin, whether it runs or not.
type Status struct {
	Name string `json:"name"`
	// Path of its file; empty for a plugin of the host's own process.
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

	// Standby is set while the plugin is asked after all others.
	Standby *Standby `json:"standby,omitempty"`

	// These are of a running plugin.
	PID        int    `json:"pid,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	// Confinement of its process.
	Confinement *Confinement `json:"confinement,omitempty"`

	// These are from the plugin's last description of itself, also if it does not run.
	Version string            `json:"version,omitempty"`
	Signals []registry.Served `json:"signals,omitempty"`

	// Log has the last lines that the plugin wrote, also before its end.
	Log []string `json:"log,omitempty"`
}

// A Confinement lists the limits of a process.
type Confinement struct {
	// Pinned: its file had the hash that it must have.
	Pinned bool `json:"pinned"`
	sandbox.Status
}

// A Standby says why a plugin is asked after all others that offer the same.
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

// A snapshot holds the state of the controller at one moment. It never changes.
type snapshot struct {
	registry *registry.Registry
	plugins  []Status
	logs     []*output.Log
}

// Status returns the state of every plugin, sorted by name, with roles as they are as
// long as the layout of the filesystems is not known.
func (s *Supervisor) Status() []Status { return s.StatusIn(0) }

// StatusIn returns Status where the filesystems are laid out as now says, 0 if that is not
// known, and may come to be as in one of possible.
func (s *Supervisor) StatusIn(now eviction.Layout, possible ...eviction.Layout) []Status {
	shown, in := s.shown.Load(), registry.Layouts{Now: now, Possible: possible}
	all := slices.Clone(shown.plugins)
	for n := range all {
		all[n].Signals = shown.registry.Served(all[n].Name, in)
		all[n].Log = shown.logs[n].Last()
	}
	return all
}

func (p *plugin) status() Status {
	st := p.Status
	st.Restarts = max(0, p.starts-1)
	if p.reason != nil {
		st.Reason = p.reason.Error()
	}
	if p.lastError != nil {
		st.LastError = p.lastError.Error()
	}
	if p.serving == nil {
		st.Replacement = nil
	}
	if slow := p.slowness; slow.Standby() {
		st.Standby = &Standby{slow.Since, slow.Until, fmt.Sprintf("its answers cost %v of %v", slow.Cost.Round(time.Millisecond), client.SlowWindow)}
	}
	if proc := p.serving; proc != nil {
		st.PID, st.Generation, st.Confinement = proc.PID, proc.Generation, proc.confinement()
	}
	if p.said != nil {
		st.Version = p.said.Version
	}
	return st
}
