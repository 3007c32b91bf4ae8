package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// A part is one capability of a signal and who is there for it.
type part struct {
	signal        eviction.Signal
	capability    string
	inCharge, why string
	others        []string
	// layouts are those with which each plugin is in charge, where that depends on the
	// layout.
	layouts []inLayouts
	// steps are what runs to reclaim, in this order.
	steps []registry.RoleStep
}

type inLayouts struct {
	plugin  string
	layouts []string
}

// partsOf says of each signal and capability who is in charge, why, and what of the
// others. Signals of thresholds that nobody offers to observe are in it, too.
func partsOf(plugins []supervisor.Status, unobserved []eviction.Signal) []*part {
	var parts []*part
	find := func(s eviction.Signal, capability string) *part {
		n := slices.IndexFunc(parts, func(p *part) bool { return p.signal == s && p.capability == capability })
		if n < 0 {
			n = len(parts)
			parts = append(parts, &part{signal: s, capability: capability, why: "nobody offers it"})
		}
		return parts[n]
	}
	for _, s := range unobserved {
		find(s, eviction.CanObserve.String())
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

// add takes what a plugin is to p.
func (p *part) add(plugin supervisor.Status, r registry.Role) {
	switch r.Role {
	case registry.RoleInCharge:
		p.inCharge, p.why, p.steps = plugin.Name, r.Why, r.Steps
	case registry.RoleShadowed:
		p.others = append(p.others, plugin.Name+" (shadowed)")
	case registry.RoleNone:
	default:
		p.others = append(p.others, plugin.Name+" ("+string(plugin.State)+")")
	}
	if len(r.Layouts) > 0 {
		p.layouts = append(p.layouts, inLayouts{plugin.Name, r.Layouts})
	}
}

// signalRows has a line for each of the parts.
func signalRows(parts []*part, layout string) [][]string {
	rows := [][]string{{"SIGNAL", "CAPABILITY", "IN CHARGE", "WHY", "OTHERS"}}
	byLayout := slices.ContainsFunc(parts, func(p *part) bool { return p.otherwise(layout) != "" })
	if byLayout {
		rows[0] = append(rows[0], "WITH OTHER LAYOUTS")
	}
	var former eviction.Signal
	for _, p := range parts {
		if p.inCharge == "" && len(p.others) > 0 {
			p.why = "nobody who offers it serves"
		}
		signal := string(p.signal)
		if p.signal == former {
			signal = same
		}
		former = p.signal
		row := []string{signal, p.capability, p.inCharge, p.why, strings.Join(p.others, ", ")}
		if byLayout {
			row = append(row, p.otherwise(layout))
		}
		rows = append(rows, row)
	}
	return rows
}

// otherwise is who is in charge with other layouts than that of now, where it is
// somebody else.
func (p *part) otherwise(now string) string {
	var all []string
	for _, l := range p.layouts {
		if others := slices.DeleteFunc(slices.Clone(l.layouts), func(s string) bool { return s == now }); l.plugin != p.inCharge && len(others) > 0 {
			all = append(all, l.plugin+" ("+strings.Join(others, ", ")+")")
		}
	}
	return strings.Join(all, ", ")
}

// reclaimLines say of each signal which steps run before a pod has to go.
func reclaimLines(parts []*part) []byte {
	rows := [][]string{{"SIGNAL", "STEPS OF RECLAIM, IN THEIR ORDER UNTIL ENOUGH IS FREE"}}
	for _, p := range parts {
		var steps []string
		for _, s := range p.steps {
			steps = append(steps, s.Step+" ("+s.By+")")
		}
		if len(steps) > 0 {
			rows = append(rows, []string{string(p.signal), strings.Join(steps, ", ")})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	return slices.Concat([]byte("\n"), table(rows))
}

// layoutLines say how the filesystems are laid out, if that matters to one of the
// parts, and which assignments do not go with it.
func layoutLines(t told, parts []*part) []byte {
	var b strings.Builder
	ofFilesystem := func(p *part) bool { return len(eviction.LayoutShared.SameFilesystem(p.signal)) > 1 }
	if slices.ContainsFunc(parts, ofFilesystem) {
		layout := strings.Map(oneLine, cmp.Or(t.Layout, "not known, each name of a filesystem is for itself"))
		b.WriteString("\nlayout of the filesystems: " + layout + "\n")
	}
	for _, problem := range t.AssignProblems {
		b.WriteString("warning: " + strings.Map(oneLine, problem) + "\n")
	}
	return []byte(b.String())
}
