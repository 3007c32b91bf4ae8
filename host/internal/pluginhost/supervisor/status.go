package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/output"
	"github.com/evictd/evictd/host/internal/pluginhost/roles"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
)

// Status describes one plugin, running or not.
type Status struct {
	Name string `json:"name"`
	// Path of its file; empty for an in-process plugin.
	Path  string    `json:"path,omitempty"`
	State State     `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Until is the end of backoff and quarantine.
	Until *time.Time `json:"until,omitempty"`
	// Reason is why the plugin does not run.
	Reason string `json:"reason,omitempty"`
	// LastError is the latest error, also of a running plugin.
	LastError string `json:"lastError,omitempty"`
	Restarts  int    `json:"restarts"`
	// Swaps counts the processes that replaced a serving one; Replacement describes the attempt
	// under way, or the last failed one.
	Swaps       int          `json:"swaps,omitempty"`
	Replacement *Replacement `json:"replacement,omitempty"`

	// Standby is set while the plugin is asked after all others.
	Standby *Standby `json:"standby,omitempty"`

	// These describe a running plugin.
	PID        int    `json:"pid,omitempty"`
	Generation uint64 `json:"generation,omitempty"`
	// Confinement of its process.
	Confinement *Confinement `json:"confinement,omitempty"`

	// These are from the plugin's last description of itself, even if it does not run.
	Version string `json:"version,omitempty"`
	// Description, Vendor and Licence are the plugin's own words.
	Description string         `json:"description,omitempty"`
	Vendor      string         `json:"vendor,omitempty"`
	Licence     string         `json:"licence,omitempty"`
	Signals     []roles.Served `json:"signals,omitempty"`

	// Log holds the last lines that the plugin wrote, including before its end.
	Log []string `json:"log,omitempty"`
}

// A Confinement lists the limits of a process.
type Confinement struct {
	// Pinned: its file has the required hash.
	Pinned bool `json:"pinned"`
	// Outside: another program has started it, evictd sets no limits. Only User is known.
	Outside bool `json:"outside,omitempty"`
	sandbox.Status
}

// A Standby explains why a plugin is asked after all others that offer the same.
type Standby struct {
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason"`
}

// A Replacement is an attempt to replace the process of a running plugin.
type Replacement struct {
	// State is Starting; Waiting for the file to be complete; or Refused, if it has failed and the
	// former process stays.
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Reason is why it waits or has failed.
	Reason string `json:"reason,omitempty"`
}

// A snapshot holds the state of the controller at one moment. It is immutable.
type snapshot struct {
	registry *registry.Registry
	plugins  []Status
	logs     []*output.Log
}

// Status returns the state of every plugin, sorted by name, with the roles for an unknown layout of
// the filesystems.
func (s *Supervisor) Status() []Status { return s.StatusIn(0) }

// StatusIn returns Status with the roles for the present layout of the filesystems, 0 if unknown.
func (s *Supervisor) StatusIn(layout eviction.Layout) []Status {
	shown := s.shown.Load()
	all := slices.Clone(shown.plugins)
	for n := range all {
		all[n].Signals = roles.Of(shown.registry, all[n].Name, layout)
		all[n].Log = shown.logs[n].Last(launch.KeptLines)
	}
	return all
}

func (p *plugin) status() Status {
	st := p.Status
	st.Path = p.file.Path
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
		st.Version, st.Description, st.Vendor, st.Licence = p.said.Version, p.said.Description, p.said.Vendor, p.said.Licence
	}
	return st
}
