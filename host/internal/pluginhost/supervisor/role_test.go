package supervisor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/roles"
	"github.com/evictd/evictd/shared/eviction"
)

// ranking returns a plugin that observes and ranks by some signals.
func ranking(signals ...eviction.Signal) eviction.Plugin {
	p := inside{rank: inOrder, observe: func(context.Context) (eviction.ObserveReply, error) { return eviction.ObserveReply{}, nil }}.plugin()
	p.Signals = nil
	for _, s := range signals {
		p.Signals = append(p.Signals, eviction.SignalSpec{Signal: s})
	}
	return p
}

// rolesIn returns what the status says of a capability of a signal, by plugin.
func rolesIn(status []Status, c string, of eviction.Signal) map[string]string {
	all := map[string]string{}
	for _, p := range status {
		for _, s := range p.Signals {
			for _, r := range s.Roles {
				if s.Signal != of || r.Capability != c {
					continue
				}
				said := r.Role
				if r.As != "" {
					said += " as " + string(r.As)
				}
				said += ": " + r.Why
				if offers, charge := strings.Contains(fmt.Sprint(s.Offers), c), strings.Contains(fmt.Sprint(s.InCharge), c); charge != (r.Role == roles.InCharge) || offers != (p.Name != "acme" || of == eviction.ImageFsAvailable) {
					said += fmt.Sprintf(", offers %v, in charge of %v", s.Offers, s.InCharge)
				}
				all[p.Name] = said
			}
		}
	}
	return all
}

// With images and writable layers on one filesystem their vendor's plugin ranked for
// both, and the status had the built-in one in charge of writable layers.
func TestWhoIsInChargeIsShownByTheLayout(t *testing.T) {
	t.Parallel()
	const node, image, container = eviction.NodeFsAvailable, eviction.ImageFsAvailable, eviction.ContainerFsAvailable
	for name, c := range map[string]struct {
		assign registry.Assignment
		of     eviction.Signal
		does   string // "rank" if empty
		now    eviction.Layout
		want   map[string]string
	}{
		"writable layers with the images": {of: container, now: eviction.LayoutImageFs, want: map[string]string{
			"acme": "in charge as imagefs.available: custom before built-in; asked for imagefs.available, the same filesystem",
			"disk": "fallback: custom before built-in; asked for imagefs.available, the same filesystem",
		}},
		"their figure, too": {of: container, does: "observe", now: eviction.LayoutImageFs, want: map[string]string{
			"acme": "in charge as imagefs.available: custom before built-in; asked for imagefs.available, the same filesystem",
			"disk": "fallback: custom before built-in; asked for imagefs.available, the same filesystem",
		}},
		"writable layers with the kubelet's": {of: container, now: eviction.LayoutContainerFs, want: map[string]string{
			"disk": "in charge: only provider",
		}},
		"all on one": {of: node, now: eviction.LayoutShared, want: map[string]string{
			"acme": "in charge as imagefs.available: custom before built-in; asked for imagefs.available, the same filesystem",
			"disk": "fallback: custom before built-in; asked for imagefs.available, the same filesystem",
		}},
		"but the figure of the kubelet's": {of: node, does: "observe", now: eviction.LayoutShared, want: map[string]string{
			"disk": "in charge: only provider",
		}},
		"layout not known": {of: container, want: map[string]string{
			"disk": "in charge: only provider",
		}},
		"another filesystem": {of: node, now: eviction.LayoutImageFs, want: map[string]string{
			"disk": "in charge: only provider",
		}},
		"each has an offer of its own": {of: image, now: eviction.LayoutImageFs, want: map[string]string{
			"acme": "in charge: custom before built-in",
			"disk": "fallback: custom before built-in",
		}},
		"assigned by another name": {assign: registry.Assignment{container: {"rank": "disk"}}, of: image, now: eviction.LayoutImageFs, want: map[string]string{
			"acme": "fallback: assigned for containerfs.available",
			"disk": "in charge: assigned for containerfs.available",
		}},
		"assigned by another name to nobody": {assign: registry.Assignment{container: {"rank": "zeta"}}, of: image, now: eviction.LayoutImageFs, want: map[string]string{
			"acme": "in charge: custom before built-in; containerfs.available is assigned to zeta, which is not there",
			"disk": "fallback: custom before built-in; containerfs.available is assigned to zeta, which is not there",
		}},
		"assigned to two": {assign: registry.Assignment{node: {"rank": "disk"}, image: {"rank": "acme"}}, of: image, now: eviction.LayoutShared, want: map[string]string{
			"acme": "fallback: assigned for nodefs.available; assigned to acme, which counts less",
			"disk": "in charge: assigned for nodefs.available; assigned to acme, which counts less",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := insideHost(t, Options{Assign: c.assign}, map[string]eviction.Plugin{"acme": ranking(image), "disk": ranking(node, image, container)})
			does := "rank"
			if c.does != "" {
				does = c.does
			}
			if diff := cmp.Diff(c.want, rolesIn(h.StatusIn(c.now), does, c.of)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A plugin that is down is not asked for any name of its filesystem, and would be for
// those that it has now.
func TestAPluginThatIsDownIsOutForTheWholeFilesystem(t *testing.T) {
	t.Parallel()
	h := insideHost(t, Options{}, map[string]eviction.Plugin{"acme": ranking(eviction.ImageFsAvailable), "disk": ranking(eviction.NodeFsAvailable, eviction.ContainerFsAvailable)})
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"acme": {Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is disabled", func() bool { return h.plugin("acme").State == Disabled })
	want := map[string]string{"acme": "out: disabled", "disk": "in charge: only provider"}
	if diff := cmp.Diff(want, rolesIn(h.StatusIn(eviction.LayoutImageFs), "rank", eviction.ContainerFsAvailable)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = map[string]string{"disk": "in charge: only provider"}
	if diff := cmp.Diff(want, rolesIn(h.StatusIn(eviction.LayoutContainerFs), "rank", eviction.ContainerFsAvailable)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
