package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// pluginTables has a table of the plugins and one of what is in whose charge.
func pluginTables(t told) ([]byte, error) {
	var plugins []supervisor.Status
	if err := json.Unmarshal(t.Plugins, &plugins); err != nil {
		return nil, err
	}
	out := pluginTable(plugins)
	if rows := signalRows(plugins, t.unobserved()); len(rows) > 1 {
		out = slices.Concat(out, []byte("\n"), table(rows))
	}
	return out, nil
}

// pluginTable has a line for each plugin and signal; what is of the plugin
// stands in its first line.
func pluginTable(plugins []supervisor.Status) []byte {
	rows := [][]string{{"PLUGIN", "STATE", "PID", "VERSION", "RESTARTS", "SIGNAL", "OFFERS", "IN CHARGE OF", "WHY"}}
	for _, p := range plugins {
		if len(p.Signals) == 0 {
			p.Signals = []supervisor.Served{{}}
		}
		pid := ""
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		own := []string{p.Name, string(p.State), pid, p.Version, strconv.Itoa(p.Restarts)}
		why := whyOf(p)
		for _, s := range p.Signals {
			row := slices.Concat(own, []string{string(s.Signal), strings.Join(s.Offers, ","), strings.Join(s.InCharge, ","), why})
			rows = append(rows, row)
			own, why = []string{same, same, same, same, same}, same
		}
	}
	return table(rows)
}

// whyOf is what there is to say of a plugin's state.
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

// capabilityOrder is that of the columns.
var capabilityOrder = []string{"observe", "measure", "watch", "rank", "reclaim"}

// A part is one capability of a signal and who is there for it.
type part struct {
	signal        eviction.Signal
	capability    string
	inCharge, why string
	others        []string
}

// signalRows says of each signal and capability who is in charge, why, and what of
// the others. Signals of thresholds that nobody offers to observe are in it, too.
func signalRows(plugins []supervisor.Status, unobserved []eviction.Signal) [][]string {
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
		find(s, capabilityOrder[0])
	}
	for _, p := range plugins {
		for _, s := range p.Signals {
			for _, r := range s.Roles {
				at := find(s.Signal, r.Capability)
				switch r.Role {
				case supervisor.RoleInCharge:
					at.inCharge, at.why = p.Name, r.Why
				case supervisor.RoleShadowed:
					at.others = append(at.others, p.Name+" (shadowed)")
				default:
					at.others = append(at.others, p.Name+" ("+string(p.State)+")")
				}
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b *part) int {
		return cmp.Or(compareSignals(a.signal, b.signal),
			cmp.Compare(slices.Index(capabilityOrder, a.capability), slices.Index(capabilityOrder, b.capability)))
	})
	rows := [][]string{{"SIGNAL", "CAPABILITY", "IN CHARGE", "WHY", "OTHERS"}}
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
		rows = append(rows, []string{signal, p.capability, p.inCharge, p.why, strings.Join(p.others, ", ")})
	}
	return rows
}

// compareSignals has the kubelet's signals first, in their order, and others by
// name.
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
