package supervisor

import (
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

func ranks(plugin string) registry.Assignment {
	return registry.Assignment{eviction.MemoryAvailable: {"rank": plugin}}
}

func assigning(a registry.Assignment) func(*Options) { return func(o *Options) { o.Assign = a } }

// rankers returns the rankers by memory.available, the one in charge first.
func rankers(p *registry.Pin) string {
	defer p.Release()
	var names []string
	for _, i := range p.Providers(eviction.MemoryAvailable, eviction.CanRank) {
		names = append(names, i.Name)
	}
	return fmt.Sprint(names)
}

// role returns the role of a plugin's ranking, from the status.
func role(of Status) string {
	for _, s := range of.Signals {
		for _, r := range s.Roles {
			if r.Capability == "rank" {
				return r.Role + ": " + r.Why
			}
		}
	}
	return ""
}

func TestAnAssignmentSettlesWhoIsInCharge(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "memory", "rival-a", "rival-b"), assigning(ranks("rival-b")), plain("memory", "rival-a", "rival-b"))
	roles := func(of ...string) {
		t.Helper()
		for n, name := range []string{"memory", "rival-a", "rival-b"} {
			if got := role(h.plugin(name)); got != of[n] {
				t.Errorf("%s is %s, want %s", name, got, of[n])
			}
		}
	}
	if got := rankers(h.Pin()); got != "[rival-b rival-a memory]" {
		t.Errorf("rankers %s, want the assigned one first", got)
	}
	roles("fallback: assigned", "fallback: assigned", "in charge: assigned")

	h.Reassign(ranks("memory"))
	if got := rankers(h.Pin()); got != "[memory rival-a rival-b]" {
		t.Errorf("rankers %s, want the built-in one first, since it is assigned", got)
	}
	h.Reassign(ranks("rival-b"))

	h.Reassign(nil)
	if got := rankers(h.Pin()); got != "[rival-a rival-b memory]" {
		t.Errorf("rankers %s, want the first by name in charge", got)
	}
	roles("fallback: first by name", "in charge: first by name", "fallback: first by name")
}

func TestAnAssignmentToAnAbsentPlugin(t *testing.T) {
	t.Parallel()
	dir := installed(t, "memory", "rival-a", "rival-b", "good")
	h := startHost(t, dir, assigning(ranks("rival-c")), plain("memory", "rival-a", "rival-b", "rival-c", "good"))
	if got := rankers(h.Pin()); got != "[rival-a rival-b memory]" {
		t.Errorf("rankers %s, want them as if nothing were assigned", got)
	}
	want(t, h.log.String(), `"msg":"assignment to a plugin has no effect","signal":"memory.available","capability":"rank","plugin":"rival-c","because":"it is not there"`)
	if got := role(h.plugin("memory")); got != "fallback: first by name; assigned to rival-c, which is not there" {
		t.Errorf("memory is %s", got)
	}
	h.Reassign(ranks("good"))
	if got := role(h.plugin("memory")); got != "fallback: first by name; assigned to good, which does not offer it" {
		t.Errorf("memory is %s", got)
	}
	h.Reassign(ranks("rival-c"))
	put(t, dir, "rival-c", "rival-c")
	eventually(t, "it is in charge once it is there", func() bool { return rankers(h.Pin()) == "[rival-c rival-a rival-b memory]" })
}

func TestTheFirstByNameIsInCharge(t *testing.T) {
	t.Parallel()
	p := defaultRestartPolicy()
	p.first, p.longest = time.Hour, 2*time.Hour // what crashes stays away
	dir := installed(t, "memory", "rival-b")
	h := startWithPolicy(t, p, dir)
	second := h.plugin("rival-b").PID
	put(t, dir, "rival-a", "rival-a")
	eventually(t, "one that comes later takes charge", func() bool { return rankers(h.Pin()) == "[rival-a rival-b memory]" })
	put(t, dir, "rival-a", "fine")
	eventually(t, "the second one has what its next version does not offer", func() bool { return rankers(h.Pin()) == "[rival-b memory]" })
	put(t, dir, "rival-a", "rival-a")
	eventually(t, "it takes charge again", func() bool { return rankers(h.Pin()) == "[rival-a rival-b memory]" })
	disable := func(is bool) {
		if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"rival-a": {Disabled: is}}); err != nil {
			t.Fatal(err)
		}
	}
	disable(true)
	eventually(t, "the second one stands in for one that is disabled", func() bool { return rankers(h.Pin()) == "[rival-b memory]" })
	disable(false)
	eventually(t, "it is back", func() bool { return rankers(h.Pin()) == "[rival-a rival-b memory]" })
	kill(t, h.plugin("rival-a").PID)
	eventually(t, "the second one stands in for one that crashes", func() bool { return rankers(h.Pin()) == "[rival-b memory]" })
	if s := h.plugin("rival-b"); s.PID != second {
		t.Errorf("%+v, want rival-b left alone with process %d", s, second)
	}
}
