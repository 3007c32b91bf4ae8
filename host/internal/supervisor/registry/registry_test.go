package registry

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// nobody has the methods of capabilities that are not called.
type nobody struct {
	eviction.Observer
	eviction.Measurer
	eviction.Watcher
	eviction.Ranker
	eviction.Reclaimer
}

func TestConflict(t *testing.T) {
	plugin := func(c eviction.Capability, signals ...eviction.SignalSpec) *eviction.Plugin {
		p := eviction.Plugin{Signals: signals}
		if c.Has(eviction.CanObserve) {
			p.Observer = nobody{}
		}
		if c.Has(eviction.CanRank) {
			p.Ranker = nobody{}
		}
		return &p
	}
	memory := eviction.SignalSpec{Signal: eviction.MemoryAvailable}
	instance := func(name string, p *eviction.Plugin) *Instance { return &Instance{Name: name, Plugin: p} }
	own := func(unit eviction.Unit) eviction.SignalSpec {
		return eviction.SignalSpec{Signal: "a.example/x", Definition: &eviction.Definition{Unit: unit}}
	}
	observer, ranker := plugin(eviction.CanObserve, memory), plugin(eviction.CanRank, memory)
	for name, c := range map[string]struct {
		a, b     *Instance
		assigned bool
		want     string
	}{
		"custom beside built-in":      {instance("memory", ranker), instance("oldest", ranker), false, ""},
		"different capabilities":      {instance("watcher", observer), instance("oldest", ranker), false, ""},
		"two custom":                  {instance("youngest", ranker), instance("oldest", ranker), false, `"oldest" and "youngest" both offer rank memory.available`},
		"two built-in":                {instance("memory", ranker), instance("pid", ranker), false, "both offer rank memory.available"},
		"the same custom signal":      {instance("a", plugin(eviction.CanObserve, own("u"))), instance("b", plugin(eviction.CanRank, own("u"))), false, ""},
		"a custom signal, two senses": {instance("a", plugin(eviction.CanObserve, own("u"))), instance("b", plugin(eviction.CanRank, own("v"))), false, "define a.example/x differently"},
		"two custom, assigned":        {instance("youngest", ranker), instance("oldest", ranker), true, ""},
		"two senses, assigned":        {instance("a", plugin(eviction.CanObserve, own("u"))), instance("b", plugin(eviction.CanRank, own("v"))), true, "define a.example/x differently"},
	} {
		assignment := Assignment{}
		for _, o := range offers(c.a.Plugin) {
			if c.assigned {
				assignment[o.signal] = map[string]string{o.capability.String(): c.a.Name}
			}
		}
		err := New([]Plugin{{Name: c.a.Name, Said: c.a.Plugin}}, assignment).Conflict(c.a, c.b)
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		} else if err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %q, want %q in it", name, err, c.want)
		}
	}
}

// Who observes by assignment is trusted with it; who is in charge because it is custom, or
// because the assigned one does not run, is not.
func TestOnlyWhoIsInChargeByTheConfigurationIsAssigned(t *testing.T) {
	observe := offer{eviction.MemoryAvailable, eviction.CanObserve}
	for to, want := range map[string]bool{"": false, "acme": true, "memory": true, "down": false} {
		r := New([]Plugin{serving("acme", observe), serving("memory", observe), {Name: "down"}}, Assignment{eviction.MemoryAvailable: {"observe": to}})
		if got := r.Assigned(eviction.MemoryAvailable, eviction.CanObserve); got != want {
			t.Errorf("assigned to %q: %v, want %v", to, got, want)
		}
	}
}

// serving returns a plugin that runs and offers some things.
func serving(name string, offers ...offer) Plugin {
	p := &eviction.Plugin{Name: name}
	for _, o := range offers {
		p.Signals = append(p.Signals, eviction.SignalSpec{Signal: o.signal, Capabilities: o.capability})
	}
	p.Observer, p.Ranker = nobody{}, nobody{}
	return Plugin{Name: name, Said: p, Instance: NewInstance(name, 1, 1, p)}
}

// A shadow is in charge of nothing, is nobody's rival, and ranks for what it offers, by any
// name of the filesystem.
func TestAShadowIsInChargeOfNothing(t *testing.T) {
	rank := func(s eviction.Signal) offer { return offer{s, eviction.CanRank} }
	mine, disk := serving("mine", rank(eviction.NodeFsAvailable), offer{eviction.MemoryAvailable, eviction.CanObserve}), serving("disk", rank(eviction.NodeFsAvailable))
	rival := serving("rival", rank(eviction.NodeFsAvailable))
	mine.Shadow = true
	r := New([]Plugin{mine, disk, rival}, Assignment{eviction.NodeFsAvailable: {"rank": "mine"}})
	if who := r.Serving(eviction.LayoutShared, eviction.NodeFsAvailable, eviction.CanRank); len(who) != 2 || who[0].Name != "rival" {
		t.Errorf("in charge: %v, want rival, then disk", who)
	}
	if who := r.Providers(eviction.MemoryAvailable, eviction.CanObserve); len(who) != 0 {
		t.Errorf("%s observes, want nobody", who[0].Name)
	}
	if err := r.Conflict(mine.Instance, rival.Instance); err != nil {
		t.Errorf("conflict: %v", err)
	}
	if who := r.Shadows(eviction.LayoutShared, eviction.ImageFsAvailable); len(who) != 1 || who[0].Instance != mine.Instance || who[0].As != eviction.NodeFsAvailable {
		t.Errorf("shadows %v, want mine, asked for nodefs.available", who)
	}
	if why := r.Ineffective(); len(why) != 1 || why[0].Because != "it is a shadow" {
		t.Errorf("ineffective: %+v, want the assignment to a shadow", why)
	}
	var roles []string
	for _, s := range r.Served("mine", Layouts{Now: eviction.LayoutShared}) {
		for _, role := range s.Roles {
			roles = append(roles, string(s.Signal)+" "+role.Capability+" "+role.Role)
		}
	}
	if got := strings.Join(roles, ", "); !strings.Contains(got, "nodefs.available rank shadow") || !strings.Contains(got, "memory.available observe none") {
		t.Errorf("roles: %s", got)
	}
}

// An instance that is replaced while a pass has it is used until the pass ends.
func TestAnInstanceIsUsedWhileItIsPublishedOrPinned(t *testing.T) {
	c := NewCurrent()
	p := serving("acme")
	unused := func() bool {
		select {
		case <-p.Instance.Unused():
			return true
		default:
			return false
		}
	}
	c.Pin().Release()
	c.Publish(New([]Plugin{p}, nil))
	one, two := c.Pin(), c.Pin()
	one.Release()
	one.Release()
	c.Publish(New([]Plugin{p}, nil))
	c.Publish(New(nil, nil))
	if unused() || len(two.Instances()) != 1 {
		t.Error("unused, and a pass has it")
	}
	later := c.Pin()
	two.Release()
	if !unused() || len(later.Instances()) != 0 {
		t.Error("used, and no pass has it")
	}
}

// What an assignment had let serve beside each other goes with it, but for whoever was
// in charge.
func TestWhoeverWasInChargeStays(t *testing.T) {
	rank := offer{eviction.MemoryAvailable, eviction.CanRank}
	plugins := []Plugin{serving("a", rank), serving("b", rank), serving("memory", rank)}
	former := New(plugins, Assignment{eviction.MemoryAvailable: {"rank": "b"}})
	if got := former.Conflicting(former); len(got) > 0 {
		t.Errorf("%v conflict, want none as long as they are assigned", got)
	}
	losers := New(plugins, nil).Conflicting(former)
	if len(losers) != 1 || losers[plugins[0].Instance] == nil {
		t.Errorf("%v go, want a, which was not in charge", losers)
	}
}

func TestAssignmentsWithoutEffect(t *testing.T) {
	rank := offer{eviction.MemoryAvailable, eviction.CanRank}
	r := New([]Plugin{serving("a", rank), {Name: "down"}, {Name: "off", Unassignable: "is disabled"}}, Assignment{
		eviction.MemoryAvailable: {"rank": "a", "observe": "a", "measure": "off"}, "acme.example/x": {"rank": "nobody", "observe": "down"},
	})
	want := []Ineffective{
		{"acme.example/x", "rank", "nobody", "it is not there"},
		{eviction.MemoryAvailable, "observe", "a", "it does not offer it"},
		{eviction.MemoryAvailable, "measure", "off", "it is disabled"},
	}
	if diff := cmp.Diff(want, r.Ineffective()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhoIsAwaited(t *testing.T) {
	missing := errors.New("does not run")
	memory := []eviction.Signal{eviction.MemoryAvailable}
	up := serving("memory").Instance
	for name, c := range map[string]struct {
		plugin         Plugin
		pinned         bool
		awaited, first bool
	}{
		"it is in its first start":  {Plugin{Missing: missing, Observes: memory, FirstStart: true}, false, true, true},
		"it came up since":          {Plugin{Missing: missing, Observes: memory, Instance: up}, false, true, true},
		"it serves in the pass":     {Plugin{Missing: missing, Observes: memory, Instance: up}, true, false, false},
		"it has failed":             {Plugin{Missing: missing, Observes: memory}, false, true, false},
		"it observes another":       {Plugin{Missing: missing, Observes: []eviction.Signal{eviction.PIDAvailable}, FirstStart: true}, false, false, false},
		"it is not wanted any more": {Plugin{Observes: memory, FirstStart: true}, false, false, false},
	} {
		current := NewCurrent()
		now := New([]Plugin{c.plugin}, nil)
		if c.pinned {
			current.Publish(now)
		}
		pass := current.Pin()
		current.Publish(now)
		if got := pass.MissingObserver(eviction.MemoryAvailable) != nil; got != c.awaited {
			t.Errorf("%s: awaited %v", name, got)
		}
		if got := pass.FirstStart(eviction.MemoryAvailable); got != c.first {
			t.Errorf("%s: first start %v", name, got)
		}
		pass.Release()
	}
}
