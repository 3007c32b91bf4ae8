package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/shared/eviction"
)

func TestWithContainerFs(t *testing.T) {
	config := ThresholdConfig{
		Hard: map[string]string{
			"nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "containerfs.available": "1Gi", "memory.available": "1Gi",
		},
		Soft:            map[string]string{"nodefs.available": "20%", "imagefs.inodesFree": "8%", "containerfs.inodesFree": "3%"},
		SoftGracePeriod: map[string]string{"nodefs.available": "1m", "imagefs.inodesFree": "2m", "containerfs.inodesFree": "3m"},
		MinReclaim:      map[string]string{"nodefs.available": "1Gi", "containerfs.available": "5Gi"},
	}
	configured := []string{"containerfs.available<1Gi +5Gi", "containerfs.inodesFree<3% for 3m0s"}
	hard := []string{"imagefs.available<15%", "memory.available<1Gi", "nodefs.available<10% +1Gi", "nodefs.inodesFree<5%"}
	soft := []string{"imagefs.inodesFree<8% for 2m0s", "nodefs.available<20% for 1m0s +1Gi"}
	list := func(parts ...[]string) []string {
		var out []string
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	// The configured soft inode threshold has nothing to be replaced with.
	sharesNodeFs := struct{ first, derived, dropped []string }{
		list([]string{"containerfs.available<10% +1Gi"}, hard, soft),
		list([]string{"containerfs.available<10% +1Gi"}, hard, soft, []string{"containerfs.available<20% for 1m0s +1Gi", "containerfs.inodesFree<5%"}),
		configured,
	}
	for name, c := range map[string]struct {
		layout eviction.Layout
		want   struct{ first, derived, dropped []string }
	}{
		"shared":      {eviction.LayoutShared, sharesNodeFs},
		"containerfs": {eviction.LayoutContainerFs, sharesNodeFs},
		"imagefs": {eviction.LayoutImageFs, struct{ first, derived, dropped []string }{
			list([]string{"containerfs.available<15%"}, hard, []string{"containerfs.inodesFree<8% for 2m0s"}, soft),
			list([]string{"containerfs.available<15%"}, hard, []string{"containerfs.inodesFree<8% for 2m0s"}, soft),
			configured,
		}},
		"unknown": {0, struct{ first, derived, dropped []string }{
			list(configured[:1], hard, configured[1:], soft), list(configured[:1], hard, configured[1:], soft), nil,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			thresholds, err := ParseThresholds(config)
			if err != nil {
				t.Fatal(err)
			}
			before := printed(thresholds)
			got := WithContainerFs(thresholds, c.layout)
			for _, l := range []struct {
				name      string
				want, got []string
			}{
				{"first", c.want.first, printed(got.First)},
				{"derived", c.want.derived, printed(got.Derived)},
				{"dropped", c.want.dropped, printed(got.Dropped)},
				{"input", before, printed(thresholds)},
				{"derived again", c.want.derived, printed(WithContainerFs(got.Derived, c.layout).Derived)},
			} {
				if diff := cmp.Diff(l.want, l.got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", l.name, diff)
				}
			}
		})
	}
}

// The pass that finds the layout must hand on timers to the next one, whose list
// is longer.
func TestTheFirstPassKnowsReplacedThresholdsByTheSameKey(t *testing.T) {
	thresholds, err := ParseThresholds(ThresholdConfig{
		Hard: map[string]string{"nodefs.available": "10%", "nodefs.inodesFree": "5%", "containerfs.inodesFree": "1%"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := WithContainerFs(thresholds, eviction.LayoutShared)
	for i, first := range got.First {
		if first.Key() != got.Derived[i].Key() {
			t.Errorf("%s becomes %s", first, got.Derived[i])
		}
	}
	if added := len(got.Derived) - len(got.First); added != 1 {
		t.Errorf("%d thresholds are added for the second pass, want 1: %v", added, printed(got.Derived))
	}
}

func TestWithContainerFsTakesTheLastHardThreshold(t *testing.T) {
	thresholds, err := ParseThresholds(ThresholdConfig{
		Hard:            map[string]string{"nodefs.available": "10%", "containerfs.inodesFree": "1%"},
		Soft:            map[string]string{"nodefs.available": "5%", "containerfs.inodesFree": "2%"},
		SoftGracePeriod: map[string]string{"nodefs.available": "0s", "containerfs.inodesFree": "0s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	got := WithContainerFs(thresholds, eviction.LayoutShared)
	want := []string{"containerfs.inodesFree<1%", "nodefs.available<10%", "nodefs.available<5%", "containerfs.available<5%"}
	if diff := cmp.Diff(want, printed(got.Derived)); diff != "" {
		t.Errorf("derived (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"containerfs.inodesFree<2%"}, printed(got.Dropped)); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}
