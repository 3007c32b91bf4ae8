package pressure

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/sdktest"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/fakes/memorynode"
)

func TestPressurePassesTheConformanceSuite(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("reads this machine: run make test")
	}
	sdktest.Run(t, New())
}

const mib = 1 << 20

// thrashing is a fake node of 1000 MiB that the pressure plugin looks at with a window of a second.
type thrashing struct {
	*testing.T
	*memorynode.Node
	plugin   sdk.Plugin
	used     int64
	refaults int
	now      time.Duration
}

func newThrashing(t *testing.T, vmstat string) *thrashing {
	t.Helper()
	n := &thrashing{T: t, Node: memorynode.New(t), plugin: New(), used: 500}
	n.Use(n.used)
	n.Write(map[string]string{"proc/vmstat": vmstat})
	if err := n.plugin.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: n.Facts(), Config: []byte(`{"window":"1s","hardMiB":100}`)}); err != nil {
		t.Fatal(err)
	}
	h, err := n.plugin.Observer.(*plugin).current.Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	h.Value.sinceBoot = func() time.Duration { return n.now }
	return n
}

func (n *thrashing) look() eviction.Observation {
	n.Helper()
	reply, err := n.plugin.Observer.Observe(n.Context(), eviction.ObserveRequest{Signals: []eviction.Signal{Headroom}})
	if err != nil || len(reply.Observations) != 1 {
		n.Fatalf("%+v, %v", reply, err)
	}
	return reply.Observations[0]
}

// during looks ten times a second, while so many MiB a second more are used and as many pages refault.
func (n *thrashing) during(d time.Duration, mibs int64, refaults int) (last eviction.Observation) {
	n.Helper()
	for range d / (100 * time.Millisecond) {
		n.used += mibs / 10
		n.refaults += refaults / 10
		n.Use(n.used)
		n.Write(map[string]string{"proc/vmstat": fmt.Sprintf("workingset_refault_file %d\npgscan_direct 0\n", n.refaults)})
		n.now += 100 * time.Millisecond
		last = n.look()
	}
	return last
}

func TestHeadroomIsTheCapacityUntilTheNodeThrashes(t *testing.T) {
	n := newThrashing(t, "workingset_refault_file 0\npgscan_direct 0\n")
	if o := n.look(); o.State != eviction.Observed || o.Available != o.Capacity {
		t.Errorf("at first %+v, want the capacity", o)
	}
	if o := n.during(1500*time.Millisecond, 0, 0); o.State != eviction.Observed || o.Available != o.Capacity {
		t.Errorf("quiet: %+v, want the capacity", o)
	}
	if o := n.during(1500*time.Millisecond, 0, 3000); o.State != eviction.Observed || o.Available != o.Capacity {
		t.Errorf("refaults alone: %+v, want the capacity", o)
	}
	o := n.during(1500*time.Millisecond, 100, 3000)
	if o.State != eviction.Observed || o.Available != (1000-n.used)*mib || len(o.Components) == 0 || o.Components[0] != (eviction.Component{Name: "thrashes, memory falls", Value: 1}) {
		t.Errorf("thrashing: %+v, want %d MiB", o, 1000-n.used)
	}
	for _, c := range o.Components {
		if strings.HasPrefix(c.Name, "psi") {
			t.Errorf("%+v, want none on a node without PSI", c)
		}
	}
	n.refaults = -10
	if o := n.during(100*time.Millisecond, 0, 100); o.State != eviction.Unknown || !strings.Contains(o.Err, "counters went back") {
		t.Errorf("%+v, want unknown since the counters went back", o)
	}
}

// The cache that a database reads again becomes active, which the kubelet takes for used.
func TestCacheThatBecomesActiveIsNoThrash(t *testing.T) {
	n := newThrashing(t, "workingset_refault_file 0\npgscan_direct 0\n")
	n.Write(map[string]string{"proc/meminfo": "MemTotal: 1024000 kB\nMemAvailable: 614400 kB\n"})
	if o := n.during(3*time.Second, 100, 3000); o.State != eviction.Observed || o.Available != o.Capacity {
		t.Errorf("%+v, want the capacity", o)
	}
}

func TestHeadroomIsAbsentWithoutCounters(t *testing.T) {
	if o := newThrashing(t, "nr_free_pages 12\n").look(); o.State != eviction.Absent {
		t.Errorf("%+v, want absent", o)
	}
}

// A pod within its request never goes, and one that grew goes before one that is larger.
func TestPodsThatGrewGoFirst(t *testing.T) {
	n := newThrashing(t, "workingset_refault_file 0\npgscan_direct 0\n")
	pod := func(name string, usedMiB, requestMiB int64, priority int32) eviction.Candidate {
		return eviction.Candidate{
			Pod:         eviction.Pod{UID: name, MemoryRequestBytes: requestMiB * mib, Priority: priority},
			Measurement: eviction.Measurement{UID: name, State: eviction.Measured, WorkingSetBytes: eviction.Some(usedMiB * mib), Usage: []eviction.SignalUsage{{Signal: Headroom, Value: usedMiB * mib}}},
		}
	}
	candidates := []eviction.Candidate{
		pod("large", 300, 10, 0), pod("within", 200, 200, -5), pod("hog", 150, 10, 0), pod("important", 150, 10, 9), {Pod: eviction.Pod{UID: "unknown"}},
	}
	p := n.plugin.Ranker.(*plugin)
	reasons := map[string]string{}
	rank := func() (order []string) {
		ranked, err := p.Rank(t.Context(), eviction.RankRequest{Signal: Headroom, Capacity: 1000 * mib, Candidates: candidates})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range ranked {
			order, reasons[r.UID] = append(order, r.UID), r.Reason
		}
		return order
	}
	if got := fmt.Sprint(rank()); got != "[large hog important]" {
		t.Errorf("without a reading before: %s", got)
	}
	h, err := p.current.Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	h.Value.observing.Lock() // as while a look waits for the kernel
	defer h.Value.observing.Unlock()
	h.Value.sizes = []sizes{{of: map[string]int64{"large": 300 * mib, "hog": 100 * mib, "important": 100 * mib, "within": 100 * mib}}}
	if got := fmt.Sprint(rank()); got != "[hog important large]" {
		t.Errorf("after they grew: %s", got)
	}
	if reasons["hog"] != "grew by 50 MiB, exceeds request by 140Mi, priority 0" || reasons["large"] != "exceeds request by 290Mi, priority 0" {
		t.Errorf("reasons %q", reasons)
	}
}

func TestConfigOfPressure(t *testing.T) {
	for config, want := range map[string]string{
		`{"window":"20s","hardMiB":-1}`: "config: window: \"20s\", want 1s to 10s\nconfig: hardMiB: -1, want 0 to 1048576",
		`{"window":"x"}`:                "config: window: \"x\", want 1s to 10s",
		`{"windows":"2s"}`:              `config: unknown field "windows"`,
		`{"hardMiB":0}`:                 "",
	} {
		err := New().Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: memorynode.New(t).Facts(), Config: []byte(config)})
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("%s: %s, want %q", config, got, want)
		}
	}
}
