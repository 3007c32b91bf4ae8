package main

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// pluginTables has a table of the plugins, one of what is in whose charge and one of the
// steps of reclaim.
func pluginTables(t told) ([]byte, error) {
	var plugins []supervisor.Status
	if err := json.Unmarshal(t.Plugins, &plugins); err != nil {
		return nil, err
	}
	out := pluginTable(plugins)
	parts := partsOf(plugins, t.unobserved())
	if len(parts) > 0 {
		out = slices.Concat(out, []byte("\n"), table(signalRows(parts, t.Layout)))
	}
	return slices.Concat(out, reclaimLines(parts), layoutLines(t, parts)), nil
}

// pluginTable has a line for each plugin and signal; what is of the plugin
// stands in its first line.
func pluginTable(plugins []supervisor.Status) []byte {
	rows := [][]string{{"PLUGIN", "STATE", "PID", "VERSION", "RESTARTS", "SIGNAL", "OFFERS", "IN CHARGE OF", "WHY"}}
	for _, p := range plugins {
		if len(p.Signals) == 0 {
			p.Signals = []registry.Served{{}}
		}
		pid := ""
		if p.PID != 0 {
			pid = strconv.Itoa(p.PID)
		}
		own := []string{p.Name, string(p.State), pid, p.Version, strconv.Itoa(p.Restarts)}
		why := whyOf(p)
		for _, s := range p.Signals {
			if len(s.Offers)+len(s.InCharge) == 0 && s.Signal != "" {
				continue // asked for by another name, at most
			}
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
