package summary

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

const onePod = `{"node":{},"pods":[{"podRef":{"uid":"u"},
	"memory":{"time":"2026-03-01T12:00:01Z","workingSetBytes":1000},
	"containers":[
		{"name":"b","memory":{"workingSetBytes":600},"rootfs":{"usedBytes":1,"inodesUsed":2},"logs":{"usedBytes":10,"inodesUsed":20}},
		{"name":"a","rootfs":{"usedBytes":100}},
		{"name":"none"}],
	"volume":[
		{"name":"cache","usedBytes":1000,"inodesUsed":3000},
		{"name":"cache","usedBytes":7,"inodesUsed":7},
		{"name":"secret","usedBytes":7,"inodesUsed":7},
		{"name":"empty"}],
	"ephemeral-storage":{"time":"2026-03-01T12:00:02Z","usedBytes":5555},
	"process_stats":{"process_count":42}}]}`

var onePodVolumes = []eviction.Volume{
	{Name: "cache", Kind: "emptyDir", CountsForRanking: true},
	{Name: "empty", Kind: "configMap", CountsForRanking: true},
	{Name: "host", Kind: "hostPath", CountsForRanking: true}, // without stats
	{Name: "secret", Kind: "secret"},
}

func TestUsageByLayout(t *testing.T) {
	const rootfs, rootfsInodes, logs, logsInodes, volumes, volumesInodes = 101, 2, 10, 20, 1000, 3000
	p := decode(t, onePod).Pod("u")
	all, allInodes := int64(rootfs+logs+volumes), int64(rootfsInodes+logsInodes+volumesInodes)
	for layout, want := range map[eviction.Layout]map[eviction.Signal]int64{
		eviction.LayoutShared: {
			eviction.NodeFsAvailable: all, eviction.NodeFsInodesFree: allInodes,
			eviction.ImageFsAvailable: all, eviction.ImageFsInodesFree: allInodes,
			eviction.ContainerFsAvailable: all, eviction.ContainerFsInodesFree: allInodes,
		},
		eviction.LayoutImageFs: {
			eviction.NodeFsAvailable: logs + volumes, eviction.NodeFsInodesFree: logsInodes + volumesInodes,
			eviction.ImageFsAvailable: rootfs, eviction.ImageFsInodesFree: rootfsInodes,
			eviction.ContainerFsAvailable: rootfs, eviction.ContainerFsInodesFree: rootfsInodes,
		},
		eviction.LayoutContainerFs: {
			eviction.NodeFsAvailable: all, eviction.NodeFsInodesFree: allInodes,
			eviction.ImageFsAvailable: 0, eviction.ImageFsInodesFree: 0,
			eviction.ContainerFsAvailable: all, eviction.ContainerFsInodesFree: allInodes,
		},
		0: {
			eviction.MemoryAvailable: 1000, eviction.AllocatableMemoryAvailable: 1000,
			eviction.PIDAvailable: 42, "acme.example/nvme.spare": 0,
		},
	} {
		for signal, usage := range want {
			if got := p.Usage(signal, layout, onePodVolumes); got != usage {
				t.Errorf("layout %d, %s: usage %d, want %d", layout, signal, got, usage)
			}
		}
	}
}

func measureAll(s *Summary, req eviction.MeasureRequest, layout eviction.Layout) []eviction.Measurement {
	var out []eviction.Measurement
	s.Measure(req, layout, func(m eviction.Measurement) { out = append(out, m) })
	return out
}

func TestMeasure(t *testing.T) {
	at := func(n int) time.Time { return time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC) }
	s := decode(t, onePod)
	got := measureAll(s, eviction.MeasureRequest{
		Detail:  eviction.DetailContainers,
		Signals: []eviction.Signal{eviction.ImageFsAvailable, "acme.example/nvme.spare", eviction.NodeFsInodesFree},
		Pods:    []eviction.Pod{{UID: "gone", Name: "u"}, {UID: "u", Volumes: onePodVolumes}},
	}, eviction.LayoutImageFs)
	want := []eviction.Measurement{{UID: "gone", State: eviction.NoStats}, {
		UID: "u", State: eviction.Measured, Time: at(2),
		Usage:                     []eviction.SignalUsage{{Signal: eviction.ImageFsAvailable, Value: 101}, {Signal: eviction.NodeFsInodesFree, Value: 3020}},
		WorkingSetBytes:           eviction.Some(1000),
		Processes:                 eviction.Some(42),
		EphemeralStorageUsedBytes: eviction.Some(5555),
		Containers: []eviction.ContainerMeasurement{
			{Name: "b", WorkingSetBytes: eviction.Some(600), RootfsUsedBytes: eviction.Some(1), RootfsInodesUsed: eviction.Some(2), LogsUsedBytes: eviction.Some(10), LogsInodesUsed: eviction.Some(20)},
			{Name: "a", RootfsUsedBytes: eviction.Some(100)},
			{Name: "none"},
		},
		Volumes: []eviction.VolumeMeasurement{
			{Name: "cache", UsedBytes: eviction.Some(1000), InodesUsed: eviction.Some(3000)},
			{Name: "cache", UsedBytes: eviction.Some(7), InodesUsed: eviction.Some(7)},
			{Name: "secret", UsedBytes: eviction.Some(7), InodesUsed: eviction.Some(7)},
			{Name: "empty"},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("measurements (-want +got):\n%s", diff)
	}
	for signal, want := range map[eviction.Signal]time.Time{eviction.MemoryAvailable: at(1), eviction.PIDAvailable: {}} {
		m := measureAll(s, eviction.MeasureRequest{Detail: eviction.DetailPod, Signals: []eviction.Signal{signal}, Pods: []eviction.Pod{{UID: "u"}}}, 0)[0]
		if !m.Time.Equal(want) || m.Containers != nil || m.Volumes != nil {
			t.Errorf("%s: got %+v, want the time %v and no details", signal, m, want)
		}
	}
}

// A pod that is in the summary without figures is measured: it uses nothing.
func TestAPodWithoutFiguresIsMeasured(t *testing.T) {
	s := decode(t, `{"node":{},"pods":[{"podRef":{"uid":"u"},"containers":null,"memory":null}]}`)
	got := measureAll(s, eviction.MeasureRequest{Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: []eviction.Pod{{UID: "u"}}}, 0)
	want := []eviction.Measurement{{UID: "u", State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: eviction.MemoryAvailable}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("measurements (-want +got):\n%s", diff)
	}
}

// The kubelet tells such a pod that it was using 0.
func TestAMemoryPartWithoutAFigureIsAUseOfNothing(t *testing.T) {
	s := decode(t, `{"node":{},"pods":[{"podRef":{"uid":"u"},"memory":{"time":null}}]}`)
	got := measureAll(s, eviction.MeasureRequest{Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: []eviction.Pod{{UID: "u"}}}, 0)
	if len(got) != 1 || got[0].WorkingSetBytes != eviction.Some(0) {
		t.Errorf("measurements = %+v, want a working set of 0", got)
	}
}

func TestSumsEndAtTheEndsOfInt64(t *testing.T) {
	for _, c := range []struct{ a, b, want int64 }{
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64},
		{math.MinInt64, math.MinInt64, math.MinInt64},
		{math.MaxInt64, math.MinInt64, -1},
		{1, 2, 3},
	} {
		if got := Add(c.a, c.b); got != c.want {
			t.Errorf("Add(%d, %d) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func BenchmarkMeasure(b *testing.B) {
	const pods = 500
	s, err := Decode(generate(pods))
	if err != nil {
		b.Fatal(err)
	}
	rows := make([]eviction.Pod, pods)
	for i := range rows {
		rows[i] = eviction.Pod{UID: fmt.Sprintf("11111111-2222-3333-4444-%012d", i), Volumes: []eviction.Volume{{Name: "cache", CountsForRanking: true}}}
	}
	for _, signal := range []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.PIDAvailable} {
		b.Run(string(signal), func(b *testing.B) {
			b.ReportAllocs()
			req := eviction.MeasureRequest{Detail: eviction.DetailPod, Signals: []eviction.Signal{signal}, Pods: rows}
			for b.Loop() {
				s.Measure(req, eviction.LayoutShared, func(eviction.Measurement) {})
			}
		})
	}
}

// A layer of 1Pi on a filesystem of 8Gi made its pod go first.
func TestAUsageBeyondItsFilesystemIsUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		pod     string
		unknown bool
	}{
		"a layer":                         {`"containers":[{"name":"c","rootfs":{"usedBytes":1125899906842624,"capacityBytes":8589934592}}]`, true},
		"a log, with the capacity before": {`"containers":[{"name":"c","logs":{"capacityBytes":8,"usedBytes":9}}]`, true},
		"inodes of a volume":              {`"volume":[{"name":"v","inodes":10,"inodesUsed":11}]`, true},
		"bytes of a volume":               {`"volume":[{"usedBytes":18446744073709551615,"name":"v"}]`, true},
		"all of it":                       {`"containers":[{"name":"c","rootfs":{"usedBytes":8,"capacityBytes":8,"inodes":3,"inodesUsed":3}}]`, false},
		"a filesystem without inodes":     {`"containers":[{"name":"c","rootfs":{"usedBytes":8,"capacityBytes":8,"inodes":0,"inodesUsed":3}}]`, false},
		"the sum of several filesystems":  {`"ephemeral-storage":{"usedBytes":9,"capacityBytes":8}`, false},
	} {
		s, err := Decode([]byte(`{"node":{},"pods":[{"podRef":{"uid":"other"},"volume":[{"name":"v","usedBytes":9,"capacityBytes":8}]},{"podRef":{"uid":"u"},"memory":{"workingSetBytes":7},` + c.pod + `}]}`))
		if err != nil {
			t.Fatal(err)
		}
		for signal, unknown := range map[eviction.Signal]bool{eviction.NodeFsAvailable: c.unknown, eviction.MemoryAvailable: false} {
			s.Measure(eviction.MeasureRequest{Signals: []eviction.Signal{signal}, Pods: []eviction.Pod{{UID: "u"}}}, eviction.LayoutShared, func(m eviction.Measurement) {
				if got := m.State == eviction.MeasurementUnknown; got != unknown || got != (m.Err != "") {
					t.Errorf("%s, %s: %+v, want unknown: %v", name, signal, m, unknown)
				}
			})
		}
	}
}
