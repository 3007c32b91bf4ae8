// Package plugintable presents which plugins run and what each is in charge of.
package plugintable

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/pluginhost/roles"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/shared/eviction"
)

// A Status is the part of the daemon's status about plugins.
type Status struct {
	Plugins    json.RawMessage `json:"plugins"`
	Thresholds []struct {
		Signal     eviction.Signal `json:"signal"`
		Unobserved bool            `json:"unobserved"`
	} `json:"thresholds"`
	Layout         string   `json:"layout"`
	AssignProblems []string `json:"assignProblems"`
}

// Text returns tables of the plugins, of the plugin in charge of each capability and of the steps
// of reclaim.
func Text(t *Status) ([]byte, error) {
	var plugins []supervisor.Status
	if err := json.Unmarshal(t.Plugins, &plugins); err != nil {
		return nil, err
	}
	out := pluginTable(plugins)
	parts := partsOf(plugins, t)
	if len(parts) > 0 {
		out = slices.Concat(out, []byte("\n"), tell.Table(signalRows(parts)))
	}
	return slices.Concat(out, reclaimTable(parts), layoutLines(t, parts)), nil
}

// pluginTable has a line for each plugin and signal; facts about the plugin are in its first line.
func pluginTable(plugins []supervisor.Status) []byte {
	rows := [][]string{{"PLUGIN", "STATE", "PID", "VERSION", "RESTARTS", "SIGNAL", "OFFERS", "IN CHARGE OF", "WHY"}}
	for _, p := range plugins {
		if len(p.Signals) == 0 {
			p.Signals = []roles.Served{{}}
		}
		pid := ""
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		own := []string{p.Name, string(p.State), pid, p.Version, strconv.Itoa(p.Restarts)}
		why := whyOf(p)
		for _, s := range p.Signals {
			if len(s.Offers)+len(s.InCharge) == 0 && s.Signal != "" {
				continue // asked for under another signal, at most
			}
			row := slices.Concat(own, []string{string(s.Signal), strings.Join(s.Offers, ","), strings.Join(s.InCharge, ","), why})
			rows = append(rows, row)
			own, why = []string{tell.Same, tell.Same, tell.Same, tell.Same, tell.Same}, tell.Same
		}
	}
	return tell.Table(rows)
}

func whyOf(p supervisor.Status) string {
	var parts []string
	if r := p.Replacement; r != nil {
		switch r.State {
		case supervisor.Refused:
			parts = append(parts, "replacement failed: "+r.Reason)
		case supervisor.Waiting:
			parts = append(parts, "replacement: "+r.Reason)
		default:
			parts = append(parts, "replacement is starting")
		}
	}
	if c := p.Confinement; c != nil && c.Outside {
		parts = append(parts, "behind a socket, of uid "+c.User+": rights and limits are those of its own pod")
	}
	if p.Standby != nil {
		parts = append(parts, "asked after all others until "+p.Standby.Until.Format(time.RFC3339)+": "+p.Standby.Reason)
	}
	if p.Until != nil {
		parts = append(parts, "until "+p.Until.Format(time.RFC3339))
	}
	if last := cmp.Or(p.Reason, p.LastError); last != "" {
		parts = append(parts, last)
	}
	return strings.Join(parts, "; ")
}

// compareSignals sorts the kubelet's signals first, in their order, and others by name.
func compareSignals(a, b eviction.Signal) int {
	known := eviction.BuiltinSignals()
	place := func(s eviction.Signal) int {
		if n := slices.Index(known, s); n >= 0 {
			return n
		}
		return len(known)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

// A part is one capability of a signal with the plugins that offer it.
type part struct {
	signal        eviction.Signal
	capability    string
	inCharge, why string
	others        []string
	// steps lists the steps of reclaim in their order.
	steps []roles.Step
}

// partsOf returns for each signal and capability which plugin is in charge, why, and the role of
// the others. It includes signals of thresholds that no plugin observes.
func partsOf(plugins []supervisor.Status, t *Status) []*part {
	var parts []*part
	find := func(s eviction.Signal, capability string) *part {
		n := slices.IndexFunc(parts, func(p *part) bool { return p.signal == s && p.capability == capability })
		if n < 0 {
			n = len(parts)
			parts = append(parts, &part{signal: s, capability: capability, why: "no plugin offers it"})
		}
		return parts[n]
	}
	for _, th := range t.Thresholds {
		if th.Unobserved {
			find(th.Signal, eviction.CanObserve.String())
		}
	}
	for _, p := range plugins {
		for _, s := range p.Signals {
			for _, r := range s.Roles {
				find(s.Signal, r.Capability).add(p, r)
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b *part) int {
		return cmp.Or(compareSignals(a.signal, b.signal),
			cmp.Compare(eviction.CapabilityNamed(a.capability), eviction.CapabilityNamed(b.capability)))
	})
	return parts
}

func (p *part) add(plugin supervisor.Status, r roles.Role) {
	if r.Role == roles.InCharge {
		p.inCharge, p.why, p.steps = plugin.Name, r.Why, r.Steps
		return
	}
	as := r.Role
	if r.Role == roles.Out {
		as = string(plugin.State)
	}
	p.others = append(p.others, plugin.Name+" ("+as+")")
	if p.inCharge == "" {
		p.why = "no plugin that offers it serves"
	}
}

func signalRows(parts []*part) [][]string {
	rows := [][]string{{"SIGNAL", "CAPABILITY", "IN CHARGE", "WHY", "OTHERS"}}
	var former eviction.Signal
	for _, p := range parts {
		signal := string(p.signal)
		if p.signal == former {
			signal = tell.Same
		}
		former = p.signal
		rows = append(rows, []string{signal, p.capability, p.inCharge, p.why, strings.Join(p.others, ", ")})
	}
	return rows
}

// reclaimTable shows for each signal which steps run before a pod is evicted.
func reclaimTable(parts []*part) []byte {
	var rows [][]string
	for _, p := range parts {
		var steps []string
		for _, s := range p.steps {
			steps = append(steps, s.Step+" ("+s.By+")")
		}
		if len(steps) > 0 {
			rows = append(rows, []string{string(p.signal), strings.Join(steps, ", ")})
		}
	}
	return tell.FurtherTable([]string{"SIGNAL", "STEPS OF RECLAIM, IN THEIR ORDER UNTIL ENOUGH IS FREE"}, rows)
}

// layoutLines shows the layout of the filesystems, if one of the parts depends on it, and which
// assignments conflict with it.
func layoutLines(t *Status, parts []*part) []byte {
	var b strings.Builder
	ofFilesystem := func(p *part) bool { return len(eviction.LayoutShared.SameFilesystem(p.signal)) > 1 }
	if slices.ContainsFunc(parts, ofFilesystem) {
		b.WriteString("\nlayout of the filesystems: " + printable.Text(cmp.Or(t.Layout, "not known, each name of a filesystem is for itself")) + "\n")
	}
	for _, problem := range t.AssignProblems {
		b.WriteString("warning: " + printable.Text(problem) + "\n")
	}
	return []byte(b.String())
}
