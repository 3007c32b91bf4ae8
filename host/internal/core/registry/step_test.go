package registry

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// Who was in charge of reclaim was shown as if the steps of the others did not run.
func TestTheStepsOfAllAreShownWithWhoIsInCharge(t *testing.T) {
	const node, image = eviction.NodeFsAvailable, eviction.ImageFsAvailable
	reclaims := func(name string, s eviction.Signal, steps ...string) Plugin {
		p := &eviction.Plugin{Name: name, Reclaimer: struct{ eviction.Reclaimer }{}, Signals: []eviction.SignalSpec{{Signal: s}}}
		for _, step := range steps {
			p.Signals[0].ReclaimSteps = append(p.Signals[0].ReclaimSteps, eviction.ReclaimStep{Name: step})
		}
		return Plugin{Name: name, Said: p, Instance: &Instance{Name: name, Plugin: p}}
	}
	plugins := []Plugin{
		reclaims("acme", image, "acme.example/drop"), reclaims("disk", node, "container-gc", "image-gc"), reclaims("zeta", node, "zeta.example/trim", "image-gc"),
	}
	acme, zeta := RoleStep{"acme.example/drop", "acme"}, []RoleStep{{"zeta.example/trim", "zeta"}, {"image-gc", "zeta"}}
	containers := RoleStep{"container-gc", "disk"}
	for name, c := range map[string]struct {
		assign Assignment
		layout eviction.Layout
		charge string
		want   []RoleStep
	}{
		"all are one filesystem": {nil, eviction.LayoutShared, "acme", []RoleStep{acme, zeta[0], zeta[1], containers}},
		"images on their own":    {nil, eviction.LayoutImageFs, "zeta", []RoleStep{zeta[0], zeta[1], containers}},
		"who is assigned, first": {
			Assignment{node: {"reclaim": "disk"}},
			eviction.LayoutShared, "disk",
			[]RoleStep{containers, {"image-gc", "disk"}, acme, zeta[0]},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(plugins, c.assign)
			got := map[string][]RoleStep{}
			for _, p := range plugins {
				for _, s := range r.Served(p.Name, Layouts{Now: c.layout}) {
					for _, role := range s.Roles {
						if s.Signal == node && role.Steps != nil {
							got[p.Name] = role.Steps
						}
					}
				}
			}
			if diff := cmp.Diff(map[string][]RoleStep{c.charge: c.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
