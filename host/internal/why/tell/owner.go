package tell

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// An OwnerView has all that the owner of an evicted pod may read: values of the pod itself, and of the threshold that
// was acted on. Amounts have their unit. Unknown values are missing.
type OwnerView struct {
	Time      time.Time  `json:"time"`
	Node      string     `json:"node"`
	Signal    string     `json:"signal,omitempty"`
	Threshold string     `json:"threshold,omitempty"`
	Available string     `json:"available,omitempty"`
	Use       OwnUse     `json:"use,omitzero"`
	Rank      OwnRank    `json:"rank,omitzero"`
	SparedBy  string     `json:"sparedBy,omitempty"`
	Volumes   []OwnUsage `json:"volumes,omitempty"`
	// Message stands in the pod's status, too. It names the pod's own containers and volumes.
	Message string `json:"message,omitempty"`
}

// OwnUse has a pod's use of a signal. Request is missing if the resource cannot be requested.
type OwnUse struct {
	Used    string `json:"used,omitempty"`
	Request string `json:"request,omitempty"`
}

// OwnRank has a pod's place in the order, from 1 on, and the number of pods that could go.
type OwnRank struct {
	Place int `json:"place"`
	Of    int `json:"of"`
}

// OwnUsage has the use of a disk by a volume of the pod, its logs or its writable layers.
type OwnUsage struct {
	Name string `json:"name"`
	Used string `json:"used"`
}

// Owner returns the view of the owner of the victim of d. It copies each value by name, so that a new field of records
// stays out of it.
func Owner(d *decision.Decision) OwnerView {
	v := d.Victim
	o := OwnerView{Time: d.Time, Node: d.Node, Signal: v.Signal, Message: strings.TrimSpace(v.Message)}
	t := d.Acted()
	if d.Kind == decision.KindLimit {
		o.SparedBy = v.Why // of its own use and limit alone
	}
	if t == nil || string(t.Signal) != v.Signal {
		return o // as for a limit of the pod's own
	}
	amount := func(n int64) string { return format.Amount(t.Custom, t.Signal, n) }
	o.Threshold = t.String()
	if seen := d.Observation(t.Signal); seen != nil && seen.State == decision.StateObserved {
		o.Available = amount(seen.Available)
	}
	place := slices.IndexFunc(d.Order, func(at int) bool { return d.Candidates[at].UID == v.UID && d.Candidates[at].Pod == v.Pod })
	if place < 0 {
		return o
	}
	own := &d.Candidates[d.Order[place]]
	o.Rank = OwnRank{place + 1, len(d.Candidates)}
	if own.State == "" {
		o.Use.Used = map[bool]string{true: "at least "}[own.AtMost > 0] + amount(own.Usage)
	}
	if b, builtin := eviction.Builtin(t.Signal); builtin && b.Unit == eviction.UnitBytes {
		as := own.Ranked(t.Signal)
		o.Use.Request = amount(rank.Request(&as, t.Signal))
	}
	for _, p := range own.Parts {
		o.Volumes = append(o.Volumes, OwnUsage{p.Name, amount(p.Used)})
	}
	if place == 0 {
		o.SparedBy = reason.Advise(d).Text // has numbers alone
	}
	return o
}

// lines returns the fields of o in words.
func (o *OwnerView) lines() [][2]string {
	use, place, volumes := o.Use.Used, "", make([]string, len(o.Volumes))
	if o.Use.Request != "" {
		use = cmp.Or(use, "not known") + ", request is " + o.Use.Request
	}
	if o.Rank != (OwnRank{}) {
		place = fmt.Sprintf("%d of %s that could go", o.Rank.Place, format.Counted(o.Rank.Of, "pod"))
	}
	for i, v := range o.Volumes {
		volumes[i] = v.Used + " in " + v.Name
	}
	all := [][2]string{
		{"time", format.Stamp(o.Time)},
		{"node", o.Node},
		{"signal", o.Signal},
		{"threshold", o.Threshold},
		{"available", o.Available},
		{"own use", use},
		{"rank", place},
		{"spared by", o.SparedBy},
		{"own volumes", strings.Join(volumes, ", ")},
		{"message", o.Message},
	}
	for i := range all {
		all[i][1] = printable.ClipText(cmp.Or(all[i][1], "-"))
	}
	return all
}

// Text returns o as ten lines.
func (o *OwnerView) Text() []byte {
	w := &text{}
	for _, l := range o.lines() {
		w.line(l[0], "%s", l[1])
	}
	return w.b.Bytes()
}

// HTML returns o as a page that loads nothing, headed with the name of the pod that was asked for.
func (o *OwnerView) HTML(pod string) []byte {
	var lines []pageLine
	for _, l := range o.lines() {
		lines = append(lines, pageLine{Label: show(l[0]), Text: show(l[1])})
	}
	return render("owner.html", struct {
		Title shown
		Lines []pageLine
	}{show("Eviction of " + pod), lines})
}
