package registry

import (
	"errors"
	"strings"
	"testing"

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

// Of several custom plugins the first by name is in charge, also of the layout, and the others
// stand by before the built-in one.
func TestTheFirstByNameIsInCharge(t *testing.T) {
	observe := func(sig eviction.Signal) offer { return offer{sig, eviction.CanObserve} }
	var plugins []Plugin
	for _, name := range []string{"disk", "b", "a"} {
		p := serving(name, observe(eviction.NodeFsAvailable), observe(eviction.MemoryAvailable))
		p.Said.OwnsLayout = true
		plugins = append(plugins, p)
	}
	for assigned, want := range map[string]string{"": "a b disk", "b": "b a disk", "disk": "disk a b"} {
		r := New(plugins, Assignment{eviction.NodeFsAvailable: {"observe": assigned}})
		for what, who := range map[string][]*Instance{"layout": r.Layouts(), "nodefs": r.Providers(eviction.NodeFsAvailable, eviction.CanObserve)} {
			var names []string
			for _, i := range who {
				names = append(names, i.Name)
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("%s, assigned to %q: %s, want %s", what, assigned, got, want)
			}
		}
	}
}

// Who observes by assignment is trusted with it; who is in charge because it is custom, or
// because the assigned one does not run, is not.
func TestOnlyWhoIsInChargeByTheConfigurationIsAssigned(t *testing.T) {
	observe := offer{eviction.MemoryAvailable, eviction.CanObserve}
	for to, want := range map[string]bool{"": false, "acme": true, "memory": true, "down": false} {
		r := New([]Plugin{serving("acme", observe), serving("memory", observe), {Name: "down"}}, Assignment{eviction.MemoryAvailable: {"observe": to}})
		if got := r.Assignee(eviction.MemoryAvailable, eviction.CanObserve) != ""; got != want {
			t.Errorf("assigned to %q: %v, want %v", to, got, want)
		}
	}
}

// What is assigned to the summary comes from one source: no built-in plugin observes or measures it, as
// its fallback neither. A signal is off without its plugin, whatever the summary says of it.
func TestWhatTheSummaryServes(t *testing.T) {
	const observe, measure = eviction.CanObserve, eviction.CanMeasure
	all := func(name string) Plugin {
		var offers []offer
		for _, s := range eviction.BuiltinSignals() {
			if b, _ := eviction.Builtin(s); b.Plugin == name || name == Summary || name == "acme" {
				offers = append(offers, offer{s, observe | measure})
			}
		}
		p := serving(name, offers...)
		p.Said.Measurer = nobody{}
		p.Said.OwnsLayout = name == Summary || name == "disk"
		if name != Summary {
			p.Observes = p.Said.Observes()
		}
		return p
	}
	down, disabled := all("memory"), all("memory")
	down.Instance, down.Missing = nil, errors.New("it crashed")
	disabled.Instance, disabled.Unassignable = nil, "is disabled"
	memory, disk, both := Assignment{}, Assignment{}, Assignment{}
	for _, s := range eviction.BuiltinSignals() {
		to := map[string]string{"observe": Summary, "measure": Summary}
		both[s] = to
		if b, _ := eviction.Builtin(s); b.Plugin == "memory" {
			memory[s] = to
		} else if b.Plugin == "disk" {
			disk[s] = to
		}
	}
	for name, c := range map[string]struct {
		plugins                  []Plugin
		assigned                 Assignment
		memory, nodefs, layoutBy string
	}{
		"nothing assigned":           {[]Plugin{all("memory"), all("disk"), all(Summary)}, nil, "memory", "disk", "disk"},
		"all":                        {[]Plugin{all("memory"), all("disk"), all(Summary)}, both, Summary, Summary, Summary},
		"memory alone":               {[]Plugin{all("memory"), all("disk"), all(Summary)}, memory, Summary, "disk", "disk"},
		"disks alone":                {[]Plugin{all("memory"), all("disk"), all(Summary)}, disk, "memory", Summary, Summary},
		"all, no file of disk":       {[]Plugin{all("memory"), all(Summary)}, both, Summary, "", ""},
		"all, memory crashed":        {[]Plugin{down, all("disk"), all(Summary)}, both, Summary, Summary, Summary},
		"all, memory disabled":       {[]Plugin{disabled, all("disk"), all(Summary)}, both, "", Summary, Summary},
		"all, but there is none":     {[]Plugin{all("memory"), all("disk")}, both, "memory", "disk", "disk"},
		"all, with a custom plugin":  {[]Plugin{all("memory"), all("disk"), all("acme"), all(Summary)}, both, Summary + " acme", Summary + " acme", Summary},
		"none, with a custom plugin": {[]Plugin{all("memory"), all("disk"), all("acme"), all(Summary)}, nil, "acme memory", "acme disk", "disk"},
	} {
		r := New(c.plugins, c.assigned)
		who := func(all []*Instance) string {
			var names []string
			for _, i := range all {
				names = append(names, i.Name)
			}
			return strings.Join(names, " ")
		}
		for _, capability := range []eviction.Capability{observe, measure} {
			if got := who(r.Providers(eviction.MemoryAvailable, capability)); got != c.memory {
				t.Errorf("%s: %v of memory.available by %q, want %q", name, capability.Names(), got, c.memory)
			}
			if got := who(r.Providers(eviction.NodeFsAvailable, capability)); got != c.nodefs {
				t.Errorf("%s: %v of nodefs.available by %q, want %q", name, capability.Names(), got, c.nodefs)
			}
		}
		if got := who(r.Layouts()); got != c.layoutBy {
			t.Errorf("%s: the layout by %q, want %q", name, got, c.layoutBy)
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
