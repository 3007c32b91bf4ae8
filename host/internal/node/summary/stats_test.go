package summary

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

func decode(t *testing.T, text string) *Stats {
	t.Helper()
	s, err := Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const wholeNode = `{"node":{"nodeName":"n",
	"memory":{"time":"2026-03-01T12:00:01Z","availableBytes":700,"workingSetBytes":300},
	"systemContainers":[
		{"name":"kubelet","memory":{"availableBytes":1,"workingSetBytes":1}},
		{"name":"pods","memory":{"time":"2026-03-01T12:00:02Z","availableBytes":500,"workingSetBytes":100}},
		{"name":"pods","memory":{"availableBytes":2,"workingSetBytes":2}}],
	"fs":{"time":"2026-03-01T12:00:03Z","availableBytes":10,"capacityBytes":100,"inodesFree":11,"inodes":101},
	"runtime":{
		"imageFs":{"time":"2026-03-01T12:00:04Z","availableBytes":20,"capacityBytes":200,"inodesFree":22,"inodes":202},
		"containerFs":{"time":"2026-03-01T12:00:05Z","availableBytes":30,"capacityBytes":300,"inodesFree":33,"inodes":303}},
	"rlimit":{"time":"2026-03-01T12:00:06Z","maxpid":1000,"curproc":1200}}}`

func TestObserve(t *testing.T) {
	second := func(n int) time.Time { return time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC) }
	one := func(name string, v int64) []eviction.Component { return []eviction.Component{{Name: name, Value: v}} }
	s := decode(t, wholeNode)
	for _, want := range []eviction.Observation{
		{Signal: eviction.MemoryAvailable, Available: 700, Capacity: 1000, Time: second(1), Components: one("working_set", 300)},
		{Signal: eviction.AllocatableMemoryAvailable, Available: 500, Capacity: 600, Time: second(2), Components: one("working_set", 100)},
		{Signal: eviction.NodeFsAvailable, Available: 10, Capacity: 100, Time: second(3)},
		{Signal: eviction.NodeFsInodesFree, Available: 11, Capacity: 101, Time: second(3)},
		{Signal: eviction.ImageFsAvailable, Available: 20, Capacity: 200, Time: second(4)},
		{Signal: eviction.ImageFsInodesFree, Available: 22, Capacity: 202, Time: second(4)},
		{Signal: eviction.ContainerFsAvailable, Available: 30, Capacity: 300, Time: second(5)},
		{Signal: eviction.ContainerFsInodesFree, Available: 33, Capacity: 303, Time: second(5)},
		{Signal: eviction.PIDAvailable, Available: -200, Capacity: 1000, Time: second(6), Components: one("running", 1200)},
	} {
		want.State = eviction.Observed
		if diff := cmp.Diff(want, s.Observe(want.Signal)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", want.Signal, diff)
		}
	}
}

// A figure that is not there is the source saying so: the threshold is not met.
func TestMissingFiguresAreAbsent(t *testing.T) {
	for name, c := range map[string]struct {
		node   string
		absent []eviction.Signal
	}{
		"nothing":          {``, eviction.BuiltinSignals()},
		"no available":     {`"memory":{"workingSetBytes":1}`, []eviction.Signal{eviction.MemoryAvailable}},
		"no working set":   {`"memory":{"availableBytes":1}`, []eviction.Signal{eviction.MemoryAvailable}},
		"no pods":          {`"systemContainers":[{"name":"misc","memory":{"availableBytes":1,"workingSetBytes":1}}]`, []eviction.Signal{eviction.AllocatableMemoryAvailable}},
		"first pods empty": {`"systemContainers":[{"name":"pods"},{"name":"pods","memory":{"availableBytes":1,"workingSetBytes":1}}]`, []eviction.Signal{eviction.AllocatableMemoryAvailable}},
		"half filesystems": {
			`"fs":{"availableBytes":1,"inodes":1},"runtime":{"imageFs":{"capacityBytes":1,"inodesFree":1},"containerFs":null}`,
			[]eviction.Signal{
				eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable,
				eviction.ImageFsInodesFree, eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree,
			},
		},
		"no maximum": {`"rlimit":{"curproc":1}`, []eviction.Signal{eviction.PIDAvailable}},
		"no count":   {`"rlimit":{"maxpid":1}`, []eviction.Signal{eviction.PIDAvailable}},
	} {
		t.Run(name, func(t *testing.T) {
			s := decode(t, `{"node":{`+c.node+`}}`)
			for _, signal := range c.absent {
				want := eviction.Observation{Signal: signal, State: eviction.Absent}
				if diff := cmp.Diff(want, s.Observe(signal)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", signal, diff)
				}
			}
		})
	}
}

func TestHugeFiguresTurnNegativeAsInTheKubelet(t *testing.T) {
	s := decode(t, `{"node":{"memory":{"availableBytes":18446744073709551615,"workingSetBytes":2},
		"fs":{"availableBytes":9223372036854775808,"capacityBytes":9223372036854775807}}}`)
	if o := s.Observe(eviction.MemoryAvailable); o.Available != -1 || o.Capacity != 1 {
		t.Errorf("memory %+v, want -1 of 1", o)
	}
	if o := s.Observe(eviction.NodeFsAvailable); o.Available != math.MinInt64 || o.Capacity != math.MaxInt64 {
		t.Errorf("nodefs %+v, want the ends of int64", o)
	}
}

func TestDecodeRefuses(t *testing.T) {
	inNode := func(s string) string { return `{"pods":[],"node":{` + s + `}}` }
	for name, c := range map[string]struct{ in, want string }{
		"nothing":          {``, "unexpected end of JSON input"},
		"null":             {`null`, "summary: node: missing"},
		"an error object":  {`{"kind":"Status","status":"Failure"}`, "summary: node: missing"},
		"node null":        {`{"node":null}`, "summary: node: missing"},
		"another document": {`[]`, "cannot unmarshal array"},
		"truncated":        {`{"node":{"memory":{"availableBytes":12`, "unexpected end of JSON input"},
		"trailing":         {`{"node":{}} {}`, "after top-level value"},
		"negative":         {inNode(`"memory":{"availableBytes":-5}`), "availableBytes of type uint64"},
		"fraction":         {inNode(`"fs":{"inodes":1.5}`), "inodes of type uint64"},
		"beyond uint64":    {inNode(`"fs":{"inodes":18446744073709551616}`), "inodes of type uint64"},
		"beyond int64":     {inNode(`"rlimit":{"maxpid":9223372036854775808}`), "maxpid of type int64"},
		"a string":         {inNode(`"runtime":{"imageFs":{"capacityBytes":"12"}}`), "capacityBytes of type uint64"},
		"a list":           {inNode(`"memory":[]`), "cannot unmarshal array"},
		"bad time":         {inNode(`"memory":{"time":"yesterday"}`), "yesterday"},
		"deep in a pod":    {`{"node":{},"pods":[{},{"containers":[{"name":"a"},{"name":7}]}]}`, "containers.name of type string"},
		"nested too deep":  {`{"node":{},"x":` + strings.Repeat("[", 10_001), "max depth"},
		"too many entries": {`{"node":{},"pods":[` + strings.Repeat("{},", maxCommas) + `{}]}`, "524289 values, want at most 524288"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Decode([]byte(c.in))
			if err == nil {
				t.Fatalf("got %+v, want an error", s)
			}
			wantError(t, err, c.want)
		})
	}
}

// The names of fields are those that a kubelet writes; others are ignored.
func TestDecodeIgnoresWhatItDoesNotKnow(t *testing.T) {
	s := decode(t, `{ "node" : { "future":[{"a":[1.5e-3,true,null]}], "MEMORY":7 }, "pods":null }`)
	if s.node.Memory != nil || len(s.pods) != 0 {
		t.Errorf("%+v, want nothing", s)
	}
}

func TestTheLastEntryOfAPodCounts(t *testing.T) {
	s := decode(t, `{"node":{},"pods":[{"podRef":{"uid":"a"},"process_stats":{"process_count":1}},{"podRef":{"uid":"a"},"process_stats":{"process_count":2}}]}`)
	if p := s.pods["a"]; p == nil || p.Processes.Value != 2 {
		t.Errorf("pod is %+v, want the last one", p)
	}
}

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
	s := decode(t, onePod)
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
		0: {eviction.MemoryAvailable: 1000, eviction.AllocatableMemoryAvailable: 1000, eviction.PIDAvailable: 42},
	} {
		for signal, usage := range want {
			m := measureAll(t, s, eviction.MeasureRequest{Signals: []eviction.Signal{signal}, Pods: []eviction.Pod{{UID: "u", Volumes: onePodVolumes}}}, layout)
			if got := m[0].UsageFor(signal); got != usage {
				t.Errorf("layout %d, %s: usage %d, want %d", layout, signal, got, usage)
			}
		}
	}
}

func measureAll(t *testing.T, s *Stats, req eviction.MeasureRequest, layout eviction.Layout) []eviction.Measurement {
	t.Helper()
	var out []eviction.Measurement
	if err := s.Measure(req, layout, func(m eviction.Measurement) { out = append(out, m) }); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMeasure(t *testing.T) {
	at := func(n int) time.Time { return time.Date(2026, 3, 1, 12, 0, n, 0, time.UTC) }
	s := decode(t, onePod)
	got := measureAll(t, s, eviction.MeasureRequest{
		Detail:  eviction.DetailContainers,
		Signals: []eviction.Signal{eviction.ImageFsAvailable, eviction.NodeFsInodesFree},
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
		m := measureAll(t, s, eviction.MeasureRequest{Detail: eviction.DetailPod, Signals: []eviction.Signal{signal}, Pods: []eviction.Pod{{UID: "u"}}}, 0)[0]
		if !m.Time.Equal(want) || m.Containers != nil || m.Volumes != nil {
			t.Errorf("%s: got %+v, want the time %v and no details", signal, m, want)
		}
	}
}

// A pod that is in the summary without figures is measured: it uses nothing.
func TestAPodWithoutFiguresIsMeasured(t *testing.T) {
	s := decode(t, `{"node":{},"pods":[{"podRef":{"uid":"u"},"containers":null,"memory":null}]}`)
	got := measureAll(t, s, eviction.MeasureRequest{Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: []eviction.Pod{{UID: "u"}}}, 0)
	want := []eviction.Measurement{{UID: "u", State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: eviction.MemoryAvailable}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("measurements (-want +got):\n%s", diff)
	}
}

// The kubelet tells such a pod that it was using 0.
func TestAMemoryPartWithoutAFigureIsAUseOfNothing(t *testing.T) {
	s := decode(t, `{"node":{},"pods":[{"podRef":{"uid":"u"},"memory":{"time":null}}]}`)
	got := measureAll(t, s, eviction.MeasureRequest{Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: []eviction.Pod{{UID: "u"}}}, 0)
	if len(got) != 1 || got[0].WorkingSetBytes != eviction.Some(0) {
		t.Errorf("measurements = %+v, want a working set of 0", got)
	}
}

func TestDisksAreNotMeasuredWithoutALayout(t *testing.T) {
	err := decode(t, onePod).Measure(eviction.MeasureRequest{Signals: []eviction.Signal{eviction.NodeFsAvailable}}, 0, nil)
	wantError(t, err, "measure nodefs.available: the layout of the node's filesystems is not known")
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
			m := measureAll(t, s, eviction.MeasureRequest{Signals: []eviction.Signal{signal}, Pods: []eviction.Pod{{UID: "u"}}}, eviction.LayoutShared)[0]
			if got := m.State == eviction.MeasurementUnknown; got != unknown || got != (m.Err != "") {
				t.Errorf("%s, %s: %+v, want unknown: %v", name, signal, m, unknown)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(wholeNode))
	f.Add([]byte(onePod))
	f.Add([]byte(`{"node":{},"pods":[{"podRef":{"uid":"\ud800"},"volume":[{"usedBytes":01}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data)
		if err != nil {
			return
		}
		rows := []eviction.Pod{{UID: "gone"}}
		for uid := range s.pods {
			rows = append(rows, eviction.Pod{UID: uid, Volumes: onePodVolumes})
		}
		for _, signal := range eviction.BuiltinSignals() {
			if o := s.Observe(signal); o.State == eviction.Unknown {
				t.Errorf("%+v, want a figure or none", o)
			}
			got := measureAll(t, s, eviction.MeasureRequest{Detail: eviction.DetailContainers, Signals: []eviction.Signal{signal}, Pods: rows}, eviction.LayoutShared)
			if len(got) != len(rows) {
				t.Errorf("%d measurements of %d pods", len(got), len(rows))
			}
		}
	})
}

// One decoding serves all signals of a pass; its peer copies the text.
func BenchmarkDecode(b *testing.B) {
	pod := onePod[strings.Index(onePod, "[{")+1 : strings.LastIndex(onePod, "]}")]
	text := []byte(`{"node":{},"pods":[` + strings.Repeat(pod+",", 499) + pod + `]}`)
	for name, read := range map[string]func(){"decode": func() { _, _ = Decode(text) }, "copy": func() { _ = bytes.Clone(text) }} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				read()
			}
		})
	}
}
