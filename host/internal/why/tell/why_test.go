package tell

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/shared/eviction"
)

// "Container main was using 36Ki" was all that was said of a pod with 2.93Gi in a volume.
func TestTheOwnerSeesWhatFillsTheDisk(t *testing.T) {
	d := softEviction()
	d.Thresholds[1].Signal, d.Candidates[1].Usage = eviction.NodeFsAvailable, 3000<<20
	pod := eviction.Pod{Volumes: []eviction.Volume{{Name: "s", Kind: "emptyDir"}, {Name: "c", Kind: "configMap"}}}
	m := eviction.Measurement{
		Volumes:    []eviction.VolumeMeasurement{{Name: "c", UsedBytes: eviction.Some(1000)}, {Name: "s", UsedBytes: eviction.Some(3000 << 20), InodesUsed: eviction.Some(int64(7))}, {Name: "gone"}},
		Containers: []eviction.ContainerMeasurement{{LogsUsedBytes: eviction.Some(int64(2048)), RootfsUsedBytes: eviction.Some(int64(0))}, {LogsUsedBytes: eviction.Some(int64(2048)), LogsInodesUsed: eviction.Some(int64(3))}},
	}
	d.Candidates[1].Parts = decision.PartsOf(&pod, &m, eviction.NodeFsAvailable)
	if got, want := reason.Why(d, 0, 0), "uses 2.93Gi without a request (2.93Gi in emptyDir s, 4Ki in logs, 1000 in configMap c); a request of 3000Mi would have spared it"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !strings.Contains(string(Text(d)), "\n  it had        2.93Gi in emptyDir s, 4Ki in logs, 1000 in configMap c\n") {
		t.Errorf("%s", Text(d))
	}
	inodes := decision.PartsOf(&pod, &m, eviction.NodeFsInodesFree)
	if want := []decision.Part{{Name: "emptyDir s", Used: 7}, {Name: "logs", Used: 3}}; !slices.Equal(inodes, want) || decision.PartsOf(&pod, &m, eviction.MemoryAvailable) != nil {
		t.Errorf("inodes: %+v, want %+v, and nothing for memory", inodes, want)
	}
}

func TestTheOwnerOfAPodIsExplainedInOneLine(t *testing.T) {
	const grown = 5 * (1 << 30) / 2
	for _, c := range []struct {
		name   string
		change func(d *decision.Decision)
		grown  int64
		want   string
	}{
		{"a leak", nil, grown, "took 2.5Gi more in 4m12s, exceeds its request by 2.5Gi; a request of 3Gi would have spared it"},
		{"nothing is known of its growth", nil, 0, "exceeds its request by 2.5Gi; a request of 3Gi would have spared it"},
		{"no request", func(d *decision.Decision) { d.Candidates[1].MemoryRequest = 0 }, 0, "uses 3Gi without a request; a request of 3Gi would have spared it"},
		{"it is alone", func(d *decision.Decision) { d.Candidates, d.Order = d.Candidates[1:], []int{0} }, 0, "exceeds its request by 2.5Gi"},
		{"processes", func(d *decision.Decision) { d.Thresholds[1].Signal = eviction.PIDAvailable }, 0, "uses 3221225472"},
		{"no figures", func(d *decision.Decision) { d.Candidates[1].State = decision.StateNoStats }, 0, "its use is not known"},
		{"a custom ranker", func(d *decision.Decision) {
			d.Ranker.Custom, d.Candidates[1].Reason = true, "costs 1\x1b[2J"
		}, grown, "took 2.5Gi more in 4m12s, costs 1�[2J"},
	} {
		d := softEviction()
		if c.change != nil {
			c.change(d)
		}
		if got := reason.Why(d, c.grown, 252*time.Second); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
