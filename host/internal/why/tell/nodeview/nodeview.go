// Package nodeview presents a node as its running evictd sees it.
package nodeview

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/host/internal/why/tell"
)

// evictionsShown bounds the evictions shown, the last ones.
const evictionsShown = 5

// A View decodes the fields of the daemon's status that are shown.
type View struct {
	Version    string                 `json:"version"`
	NodeName   string                 `json:"nodeName"`
	DryRun     bool                   `json:"dryRun"`
	NotReady   string                 `json:"notReady"`
	Time       time.Time              `json:"time"`
	Conditions []string               `json:"conditions"`
	Thresholds []decision.Threshold   `json:"thresholds"`
	Signals    []observe.SignalStatus `json:"signals"`
	Evictions  []struct {
		Time   time.Time `json:"time"`
		Pod    string    `json:"pod"`
		Signal string    `json:"signal"`
		State  string    `json:"state"`
	} `json:"evictions"`
	Plugins []Plugin `json:"plugins"`
}

// A Plugin is the state of a plugin's process.
type Plugin struct {
	Name, State, Version, Reason string
	Restarts                     int
}

// Text formats the view, with the order in which pods would be evicted, or why there is none.
func (s *View) Text(now time.Time, ranking *decision.Decision, noRanking error) []byte {
	conditions := cmp.Or(strings.Join(s.Conditions, ", "), "none")
	head := fmt.Sprintf("%s  evictd %s  %s  conditions: %s", s.NodeName, s.Version, now.UTC().Format(time.TimeOnly), conditions)
	if s.DryRun {
		head += "  dry run"
	}
	if s.NotReady != "" {
		head += "\nNOT READY: " + s.NotReady
	}
	out := [][]byte{[]byte(head + "\n\n"), tell.Table(s.thresholds(now))}
	switch {
	case errors.Is(noRanking, context.Canceled):
	case noRanking != nil:
		out = append(out, []byte("\nwho would go is not known: "+noRanking.Error()+"\n"))
	default:
		out = append(out, []byte("\n"), tell.Order(ranking))
	}
	out = append(out, tell.FurtherTable([]string{"EVICTED", "POD", "SIGNAL", "STATE"}, s.evicted()), tell.FurtherTable([]string{"PLUGIN", "STATE", "VERSION", "RESTARTS", "WHY"}, s.plugins()))
	return slices.Concat(out...)
}

func (s *View) thresholds(now time.Time) [][]string {
	rows := [][]string{{"SIGNAL", "AVAILABLE", "OF", "THRESHOLD", "GRACE PERIOD", "MET FOR", "SEEN"}}
	for _, t := range s.Thresholds {
		row := []string{string(t.Signal), "", "", "<" + t.Value, t.GracePeriod, "", ""}
		if at := slices.IndexFunc(s.Signals, func(o observe.SignalStatus) bool { return o.Signal == t.Signal }); at >= 0 {
			o := &s.Signals[at]
			row[1], row[6] = o.State, ago(now, o.Time)
			if o.State == decision.StateObserved {
				row[1], row[2] = format.Amount(t.Custom, o.Signal, o.Available)+format.Figure(&o.Observation), format.Amount(t.Custom, o.Signal, o.Capacity)
			}
		}
		if t.Since != nil {
			row[5] = max(0, now.Sub(*t.Since)).Round(time.Second).String()
		}
		rows = append(rows, row)
	}
	return rows
}

func ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return max(0, now.Sub(then)).Round(time.Second).String() + " ago"
}

func (s *View) evicted() (rows [][]string) {
	for _, e := range slices.Backward(s.Evictions[max(0, len(s.Evictions)-evictionsShown):]) {
		rows = append(rows, []string{e.Time.UTC().Format(time.DateTime), e.Pod, e.Signal, e.State})
	}
	return rows
}

func (s *View) plugins() (rows [][]string) {
	for _, p := range s.Plugins {
		rows = append(rows, []string{p.Name, p.State, p.Version, fmt.Sprint(p.Restarts), p.Reason})
	}
	return rows
}
