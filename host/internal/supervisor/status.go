package supervisor

import (
	"cmp"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Status is what is known of one plugin, whether it runs or not.
type Status struct {
	Name string `json:"name"`
	// Path is that of its file; empty for a plugin of the host's own process.
	Path  string    `json:"path,omitempty"`
	State State     `json:"state"`
	Since time.Time `json:"since"`
	// Reason is why the plugin does not run.
	Reason string `json:"reason,omitempty"`
	// LastError is the last thing that went wrong, also with one that runs.
	LastError string `json:"lastError,omitempty"`
	Restarts  int    `json:"restarts"`

	// The rest is of a running plugin.
	PID        int      `json:"pid,omitempty"`
	Generation uint64   `json:"generation,omitempty"`
	Version    string   `json:"version,omitempty"`
	Signals    []Served `json:"signals,omitempty"`

	// Log has the last lines that the plugin wrote, also before its end.
	Log []string `json:"log,omitempty"`
}

// Served is what a plugin offers for a signal and what of it it is in charge of.
type Served struct {
	Signal   eviction.Signal `json:"signal"`
	Offers   []string        `json:"offers"`
	InCharge []string        `json:"inCharge,omitempty"`
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
	st := Status{Name: m.name, State: m.state, Since: m.since, Restarts: max(0, m.starts-1)}
	if s.inside == nil {
		st.Path = pathOf(s.dir, m.name)
	}
	if m.reason != nil {
		st.Reason = m.reason.Error()
	}
	if m.lastError != nil {
		st.LastError = m.lastError.Error()
	}
	i := m.instance
	if i == nil {
		return st
	}
	st.PID, st.Generation, st.Version = i.PID, i.Generation, i.Plugin.Version
	for _, o := range offers(i.Plugin) {
		n := slices.IndexFunc(st.Signals, func(g Served) bool { return g.Signal == o.signal })
		if n < 0 {
			n = len(st.Signals)
			st.Signals = append(st.Signals, Served{Signal: o.signal})
		}
		st.Signals[n].Offers = append(st.Signals[n].Offers, o.verb())
		if who := s.roster.providers[o]; len(who) > 0 && who[0] == i {
			st.Signals[n].InCharge = append(st.Signals[n].InCharge, o.verb())
		}
	}
	return st
}
