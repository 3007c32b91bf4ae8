package main

import (
	"math"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

const mib = 1 << 20

func (n node) measure(t *testing.T, pods ...eviction.Pod) map[string]eviction.Measurement {
	t.Helper()
	got := map[string]eviction.Measurement{}
	req := eviction.MeasureRequest{Signals: []eviction.Signal{signal}, Pods: pods}
	if err := n.plugin.Measurer.Measure(t.Context(), req, func(m eviction.Measurement) { got[m.UID] = m }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestAPodIsMeasuredByWhatItHasWritten(t *testing.T) {
	for name, c := range map[string]struct{ config, file, content string }{
		"cgroup v2": {
			"", "sys/fs/cgroup/kubepods/burstable/podwriter/io.stat",
			"259:0 rbytes=77 wbytes=3145728 rios=1 wios=2 dbytes=0 dios=0\n8:0 rbytes=0 wbytes=1048576 rios=0 wios=1 dbytes=0 dios=0\n",
		},
		"cgroup v1": {
			"", "sys/fs/cgroup/blkio/kubepods/burstable/podwriter/blkio.throttle.io_service_bytes_recursive",
			"259:0 Read 77\n259:0 Write 3145728\n259:0 Sync 0\n259:0 Total 3145805\n8:0 Write 1048576\nTotal 4194381\n",
		},
		"of one drive": {
			`{"device":"259:0"}`, "sys/fs/cgroup/kubepods/burstable/podwriter/io.stat",
			"259:0 wbytes=4194304 dios=0\n8:0 wbytes=1\n259:01 wbytes=1\n",
		},
		"devices that were only read": {
			"", "sys/fs/cgroup/kubepods/burstable/podwriter/io.stat",
			"253:0 \n8:0\n259:0 rbytes=77 wbytes=4194304\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c.config)
			n.write(t, c.file, c.content)
			got := n.measure(t, eviction.Pod{UID: "writer", QoSClass: eviction.Burstable}, eviction.Pod{UID: "gone", QoSClass: eviction.Burstable},
				eviction.Pod{UID: "../writer", QoSClass: eviction.Burstable})
			if m := got["writer"]; m.State != eviction.Measured || m.UsageFor(signal) != 4*mib {
				t.Errorf("measured %+v, want 4 MiB", m)
			}
			if m := got["gone"]; m.State != eviction.NoStats {
				t.Errorf("measured %+v, want no stats of a pod without a cgroup", m)
			}
			if m := got["../writer"]; m.State != eviction.MeasurementUnknown || m.Err == "" {
				t.Errorf("measured %+v, want unknown of a pod whose name is no file's", m)
			}
		})
	}
}

func TestACounterThatIsNoNumberMakesItsPodUnknown(t *testing.T) {
	n := newNode(t, "")
	n.write(t, "sys/fs/cgroup/kubepods/pododd/io.stat", "259:0 wbytes=many\n")
	m := n.measure(t, eviction.Pod{UID: "odd", QoSClass: eviction.Guaranteed})["odd"]
	if m.State != eviction.MeasurementUnknown || !strings.Contains(m.Err, "wbytes=many") {
		t.Errorf("measured %+v, want unknown and why", m)
	}
}

func TestWhoWroteMostGoesFirst(t *testing.T) {
	pod := func(uid string, priority int32, state eviction.MeasurementState, written int64) eviction.Candidate {
		return eviction.Candidate{
			Pod:         eviction.Pod{UID: uid, Priority: priority},
			Measurement: eviction.Measurement{UID: uid, State: state, Usage: []eviction.SignalUsage{{Signal: signal, Value: written}}},
		}
	}
	ranking, err := plugin().Ranker.Rank(t.Context(), eviction.RankRequest{Signal: signal, Candidates: []eviction.Candidate{
		pod("important", 1000, eviction.Measured, 900*mib),
		pod("reader", 0, eviction.Measured, 0),
		pod("unknown", 0, eviction.MeasurementUnknown, 0),
		pod("writer", 0, eviction.Measured, 800*mib),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range ranking {
		got = append(got, r.UID+": "+r.Reason)
	}
	want := `writer: priority 0, has written 800 MiB
reader: priority 0, has written 0 MiB
unknown: priority 0, not known what it wrote
important: priority 1000, has written 900 MiB`
	if all := strings.Join(got, "\n"); all != want {
		t.Errorf("ranking is\n%s\nwant\n%s", all, want)
	}
}

func FuzzWritten(f *testing.F) {
	f.Add([]byte("259:0 rbytes=1 wbytes=4096 rios=1\n"), "wbytes=", "259:0")
	f.Add([]byte("259:0 Write 4096\nTotal 4096"), "Write ", "")
	f.Add([]byte("1:1 wbytes=9223372036854775807\n1:2 wbytes=1"), "wbytes=", "")
	f.Fuzz(func(t *testing.T, content []byte, key, device string) {
		if sum, err := parseWritten(content, key, device); sum < 0 || err != nil && sum != 0 {
			t.Errorf("parseWritten(%q, %q, %q) = %d, %v", content, key, device, sum, err)
		}
	})
}

func TestSumsEndAtTheLargestNumber(t *testing.T) {
	sum, err := parseWritten([]byte("1:1 wbytes=9223372036854775807\n1:2 wbytes=1\n"), "wbytes=", "")
	if err != nil || sum != math.MaxInt64 {
		t.Errorf("sum %d, %v", sum, err)
	}
}
