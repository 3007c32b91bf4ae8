package supervisor

import (
	"fmt"
	"strings"
	"testing"

	"github.com/evictd/evictd/host/internal/supervisor/registry"
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
	roles("shadowed: assigned", "shadowed: assigned", "in charge: assigned")

	h.Reassign(ranks("memory"))
	if got := rankers(h.Pin()); got != "[memory rival-a rival-b]" {
		t.Errorf("rankers %s, want the built-in one first, since it is assigned", got)
	}
	h.Reassign(ranks("rival-b"))

	h.Reassign(nil)
	eventually(t, "one that was not in charge has to go", func() bool { return h.plugin("rival-a").State == Refused })
	if got := rankers(h.Pin()); got != "[rival-b memory]" {
		t.Errorf("rankers %s, want the one to stay that was in charge", got)
	}
	want(t, h.plugin("rival-a").Reason, `plugins "rival-a" and "rival-b" both offer rank memory.available`, `or assign["memory.available"].rank to one`)
	roles("shadowed: custom before built-in", "out: refused", "in charge: custom before built-in")

	h.Reassign(ranks("rival-a"))
	eventually(t, "the assigned one is in charge", func() bool { return rankers(h.Pin()) == "[rival-a rival-b memory]" })
}

func TestAnAssignmentToNobody(t *testing.T) {
	t.Parallel()
	dir := installed(t, "memory", "rival-a", "rival-b", "good")
	h := startHost(t, dir, assigning(ranks("rival-c")), plain("memory", "rival-a", "rival-b", "rival-c", "good"))
	for _, name := range []string{"rival-a", "rival-b"} {
		if s := h.plugin(name); s.State != Refused {
			t.Errorf("%s is %s, want both refused as if nothing were assigned", name, s.State)
		}
	}
	want(t, h.log.String(), `"msg":"assignment to a plugin has no effect","signal":"memory.available","capability":"rank","plugin":"rival-c","because":"it is not there"`)
	if got := role(h.plugin("memory")); got != "in charge: only provider; assigned to rival-c, which is not there" {
		t.Errorf("memory is %s", got)
	}
	h.Reassign(ranks("good"))
	if got := role(h.plugin("memory")); got != "in charge: only provider; assigned to good, which does not offer it" {
		t.Errorf("memory is %s", got)
	}
	h.Reassign(ranks("rival-c"))
	put(t, dir, "rival-c", "rival-c")
	eventually(t, "all serve once it is there", func() bool { return rankers(h.Pin()) == "[rival-c rival-a rival-b memory]" })
}

// What one plugin gives up another may have.
func TestARefusedPluginServesWhenTheOtherGivesWay(t *testing.T) {
	t.Parallel()
	dir := installed(t, "memory", "rival-a")
	h := startHost(t, dir, plain("memory", "rival-a", "rival-b"))
	put(t, dir, "rival-b", "rival-b")
	eventually(t, "the newcomer is refused", func() bool { return h.plugin("rival-b").State == Refused })
	if got := rankers(h.Pin()); got != "[rival-a memory]" {
		t.Errorf("rankers %s, want the incumbent", got)
	}
	put(t, dir, "rival-a", "fine")
	eventually(t, "the other one has what the new version does not want", func() bool { return rankers(h.Pin()) == "[rival-b memory]" })
	put(t, dir, "rival-a", "rival-a")
	eventually(t, "the next version comes too late", func() bool {
		r := h.plugin("rival-a").Replacement
		return r != nil && r.State == Refused && strings.Contains(r.Reason, "both offer rank memory.available")
	})
	if s := h.plugin("rival-a"); s.State != Running {
		t.Errorf("rival-a is %s, want its former version to run", s.State)
	}
}
