package roles

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// Who was in charge of reclaim was shown as if the steps of the others did not run.
func TestTheStepsOfAllAreShownWithWhoIsInCharge(t *testing.T) {
	const node, image = eviction.NodeFsAvailable, eviction.ImageFsAvailable
	reclaims := func(name string, s eviction.Signal, steps ...string) registry.Plugin {
		p := &eviction.Plugin{Name: name, Reclaimer: struct{ eviction.Reclaimer }{}, Signals: []eviction.SignalSpec{{Signal: s}}}
		for _, step := range steps {
			p.Signals[0].ReclaimSteps = append(p.Signals[0].ReclaimSteps, eviction.ReclaimStep{Name: step})
		}
		return registry.Plugin{Name: name, Said: p, Instance: &registry.Instance{Name: name, Plugin: p}}
	}
	plugins := []registry.Plugin{
		reclaims("acme", image, "acme.example/drop"), reclaims("disk", node, "container-gc", "image-gc"), reclaims("zeta", node, "zeta.example/trim", "image-gc"),
	}
	disk := &plugins[1].Said.Signals[0] // with a step that is off
	disk.ReclaimSteps, plugins[1].Config = append(disk.ReclaimSteps, eviction.ReclaimStep{Name: "trim", EnabledBy: "trim"}), `{"trim":false}`
	acme, zeta := Step{"acme.example/drop", "acme"}, []Step{{"zeta.example/trim", "zeta"}, {"image-gc", "zeta"}}
	containers := Step{"container-gc", "disk"}
	for name, c := range map[string]struct {
		assign registry.Assignment
		layout eviction.Layout
		charge string
		want   []Step
	}{
		"all are one filesystem": {nil, eviction.LayoutShared, "acme", []Step{acme, zeta[0], zeta[1], containers}},
		"images on their own":    {nil, eviction.LayoutImageFs, "zeta", []Step{zeta[0], zeta[1], containers}},
		"who is assigned, first": {
			registry.Assignment{node: {"reclaim": "disk"}},
			eviction.LayoutShared, "disk",
			[]Step{containers, {"image-gc", "disk"}, acme, zeta[0]},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := registry.New(plugins, c.assign)
			got := map[string][]Step{}
			for _, p := range plugins {
				for _, s := range Of(r, p.Name, c.layout) {
					for _, role := range s.Roles {
						if s.Signal == node && role.Steps != nil {
							got[p.Name] = role.Steps
						}
					}
				}
			}
			if diff := cmp.Diff(map[string][]Step{c.charge: c.want}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// uncalled has the methods of capabilities that are not called.
type uncalled struct {
	eviction.Observer
	eviction.Ranker
}

// serving returns a plugin that runs and offers some things.
func serving(name string, offers ...offer) registry.Plugin {
	p := &eviction.Plugin{Name: name, Observer: uncalled{}, Ranker: uncalled{}}
	for _, o := range offers {
		p.Signals = append(p.Signals, eviction.SignalSpec{Signal: o.signal, Capabilities: o.capability})
	}
	return registry.Plugin{Name: name, Said: p, Instance: registry.NewInstance(name, 1, 1, p)}
}

func TestConflict(t *testing.T) {
	plugin := func(name, unit string) registry.Plugin {
		p := serving(name)
		p.Said.Signals = []eviction.SignalSpec{{Signal: "a.example/x", Definition: &eviction.Definition{Unit: eviction.Unit(unit)}}}
		return p
	}
	rank := offer{eviction.MemoryAvailable, eviction.CanRank}
	for name, c := range map[string]struct {
		running, other registry.Plugin
		want           string
	}{
		"the same offer":                    {serving("a", rank), serving("b", rank), ""},
		"the same sense":                    {plugin("a", "u"), plugin("b", "u"), ""},
		"two senses":                        {plugin("a", "u"), plugin("b", "v"), `plugins "a" and "b" define a.example/x differently`},
		"two senses, but the first by name": {plugin("b", "u"), plugin("a", "v"), ""},
		"another sense than it had before":  {plugin("a", "u"), plugin("a", "v"), ""},
	} {
		err := Conflict(registry.New([]registry.Plugin{c.running}, nil), c.other.Instance)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestWhyAPluginIsInCharge(t *testing.T) {
	observes := []offer{{eviction.NodeFsAvailable, eviction.CanObserve}, {eviction.MemoryAvailable, eviction.CanObserve}}
	r := registry.New([]registry.Plugin{serving("disk", observes...), serving("b", observes...), serving("a", observes...)}, nil)
	for sig, want := range map[eviction.Signal]string{
		eviction.NodeFsAvailable: "first by name", eviction.MemoryAvailable: "first by name; the built-in one is asked too, the worse figure counts",
	} {
		for _, s := range Of(r, "a", eviction.LayoutShared) {
			if s.Signal == sig && s.Roles[0].Why != want {
				t.Errorf("%s: %q, want %q", sig, s.Roles[0].Why, want)
			}
		}
	}
}

func TestAssignmentsWithoutEffect(t *testing.T) {
	rank := offer{eviction.MemoryAvailable, eviction.CanRank}
	r := registry.New([]registry.Plugin{serving("a", rank), {Name: "down"}, {Name: "off", Unassignable: "is disabled"}}, registry.Assignment{
		eviction.MemoryAvailable: {"rank": "a", "observe": "a", "measure": "off"}, "acme.example/x": {"rank": "nobody", "observe": "down"},
	})
	want := []Ineffective{
		{"acme.example/x", "rank", "nobody", "it is not there"},
		{eviction.MemoryAvailable, "observe", "a", "it does not offer it"},
		{eviction.MemoryAvailable, "measure", "off", "it is disabled"},
	}
	if diff := cmp.Diff(want, WithoutEffect(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
