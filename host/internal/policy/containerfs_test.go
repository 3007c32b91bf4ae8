package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"

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
	untouched := []string{
		"imagefs.available<15%", "memory.available<1Gi", "nodefs.available<10% +1Gi", "nodefs.inodesFree<5%",
		"imagefs.inodesFree<8% for 2m0s", "nodefs.available<20% for 1m0s +1Gi",
	}
	fromNodeFs := []string{"containerfs.available<10% +1Gi", "containerfs.available<20% for 1m0s +1Gi", "containerfs.inodesFree<5%"}
	fromImageFs := []string{"containerfs.available<15%", "containerfs.inodesFree<8% for 2m0s"}
	set := []string{"containerfs.available<1Gi +5Gi", "containerfs.inodesFree<3% for 3m0s"}
	for name, c := range map[string]struct {
		layout  eviction.Layout
		want    []string
		dropped []string
	}{
		"shared":      {eviction.LayoutShared, append(untouched[:6:6], fromNodeFs...), set},
		"containerfs": {eviction.LayoutContainerFs, append(untouched[:6:6], fromNodeFs...), set},
		"imagefs":     {eviction.LayoutImageFs, append(untouched[:6:6], fromImageFs...), set},
		"unknown":     {0, append(append([]string{set[0]}, untouched[:4]...), append([]string{set[1]}, untouched[4:]...)...), []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			thresholds, err := ParseThresholds(config)
			if err != nil {
				t.Fatal(err)
			}
			before := printed(thresholds)
			derived, dropped := WithContainerFs(thresholds, c.layout)
			if diff := cmp.Diff(c.want, printed(derived)); diff != "" {
				t.Errorf("derived (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.dropped, printed(dropped)); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, printed(thresholds)); diff != "" {
				t.Errorf("the input changed (-want +got):\n%s", diff)
			}
			again, _ := WithContainerFs(derived, c.layout)
			if diff := cmp.Diff(printed(derived), printed(again)); diff != "" {
				t.Errorf("a second time (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithContainerFsTakesTheLastHardThreshold(t *testing.T) {
	thresholds, err := ParseThresholds(ThresholdConfig{
		Hard:            map[string]string{"nodefs.available": "10%"},
		Soft:            map[string]string{"nodefs.available": "5%"},
		SoftGracePeriod: map[string]string{"nodefs.available": "0s"},
	})
	if err != nil {
		t.Fatal(err)
	}
	derived, _ := WithContainerFs(thresholds, eviction.LayoutShared)
	want := []string{"nodefs.available<10%", "nodefs.available<5%", "containerfs.available<5%"}
	if diff := cmp.Diff(want, printed(derived)); diff != "" {
		t.Errorf("derived (-want +got):\n%s", diff)
	}
}
