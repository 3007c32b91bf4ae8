package rank

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

const gi = 1 << 30

// candidate makes a pod that is measured for s.
func candidate(uid string, priority int32, s eviction.Signal, usage int64) eviction.Candidate {
	return eviction.Candidate{
		Pod: eviction.Pod{UID: uid, Priority: priority},
		Measurement: eviction.Measurement{
			UID: uid, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: s, Value: usage}},
		},
	}
}

func requesting(c eviction.Candidate, memory, ephemeral int64) eviction.Candidate {
	c.Pod.MemoryRequestBytes, c.Pod.EphemeralStorageRequestBytes = memory, ephemeral
	return c
}

func without(uid string, priority int32, state eviction.MeasurementState) eviction.Candidate {
	return eviction.Candidate{Pod: eviction.Pod{UID: uid, Priority: priority}, Measurement: eviction.Measurement{UID: uid, State: state}}
}

func withClass(c eviction.Candidate, class eviction.QoSClass) eviction.Candidate {
	c.Pod.QoSClass = class
	return c
}

func uids(ranked []eviction.Ranked) []string {
	out := make([]string, len(ranked))
	for i, r := range ranked {
		out[i] = r.UID
	}
	return out
}

func TestFor(t *testing.T) {
	const mem, disk, inodes, pid = eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.PIDAvailable
	for name, c := range map[string]struct {
		signal     eviction.Signal
		candidates []eviction.Candidate
		want       []string
	}{
		"memory: above the request before priority": {mem, []eviction.Candidate{
			requesting(candidate("within", -10, mem, gi), gi, 0),
			requesting(candidate("above", 1000, mem, gi+1), gi, 0),
		}, []string{"above", "within"}},
		"memory: lower priority before larger excess": {mem, []eviction.Candidate{
			candidate("large", 1, mem, 5*gi),
			candidate("low", 0, mem, 1),
		}, []string{"low", "large"}},
		"memory: larger excess, not larger use": {mem, []eviction.Candidate{
			requesting(candidate("use", 0, mem, 5*gi), 4*gi, 0),
			requesting(candidate("excess", 0, mem, 2*gi), 0, 0),
		}, []string{"excess", "use"}},
		"memory: nearer to its request among those within": {mem, []eviction.Candidate{
			requesting(candidate("far", 0, mem, 1*gi), 4*gi, 0),
			requesting(candidate("near", 0, mem, 1*gi), 2*gi, 0),
		}, []string{"near", "far"}},
		"memory: the ephemeral-storage request does not count": {mem, []eviction.Candidate{
			requesting(candidate("a", 0, mem, gi), 0, 9*gi),
			candidate("b", 0, mem, gi-1),
		}, []string{"a", "b"}},
		"memory: no stats before all, in order": {mem, []eviction.Candidate{
			candidate("hog", -5, mem, 9*gi),
			without("first", 100, eviction.NoStats),
			without("second", 100, eviction.NoStats),
			without("low", 50, eviction.NoStats),
		}, []string{"low", "first", "second", "hog"}},
		"memory: unknown after the measured of its priority": {mem, []eviction.Candidate{
			without("unknown", 0, eviction.MeasurementUnknown),
			requesting(candidate("within", 0, mem, 0), gi, 0),
			requesting(candidate("higher", 1, mem, 0), gi, 0),
			candidate("above", 7, mem, 1),
		}, []string{"above", "within", "unknown", "higher"}},
		"allocatable memory ranks by the same figure": {eviction.AllocatableMemoryAvailable, []eviction.Candidate{
			candidate("small", 0, mem, gi),
			candidate("large", 0, eviction.AllocatableMemoryAvailable, 2*gi),
		}, []string{"large", "small"}},
		"memory: the working set where no figure was made": {mem, []eviction.Candidate{
			candidate("small", 0, mem, gi),
			{Pod: eviction.Pod{UID: "large"}, Measurement: eviction.Measurement{State: eviction.Measured, WorkingSetBytes: eviction.Some(2 * gi)}},
		}, []string{"large", "small"}},
		"ties stay in order": {mem, []eviction.Candidate{
			candidate("b", 0, mem, gi), candidate("a", 0, mem, gi), candidate("c", 0, mem, gi),
		}, []string{"b", "a", "c"}},
		"pid: priority, then count, requests play no role": {pid, []eviction.Candidate{
			requesting(candidate("few", 0, pid, 10), gi, gi),
			candidate("many", 0, pid, 1000),
			candidate("low", -1, pid, 1),
		}, []string{"low", "many", "few"}},
		"pid: no stats only win inside a priority": {pid, []eviction.Candidate{
			candidate("low", 0, pid, 1),
			candidate("many", 1, pid, 1000),
			without("none", 1, eviction.NoStats),
			without("unknown", 1, eviction.MeasurementUnknown),
			candidate("few", 1, pid, 1),
		}, []string{"low", "none", "many", "few", "unknown"}},
		"disk: above the ephemeral-storage request, then priority, then excess": {disk, []eviction.Candidate{
			requesting(candidate("within", -10, disk, gi), 0, gi),
			requesting(candidate("above", 5, disk, 2*gi), 0, gi),
			requesting(candidate("more", 5, disk, 4*gi), 9*gi, 2*gi),
			requesting(candidate("low", 0, disk, gi+1), 0, gi),
		}, []string{"low", "more", "above", "within"}},
		"inodes: any use exceeds, bytes are subtracted from inodes": {inodes, []eviction.Candidate{
			requesting(candidate("requests", 0, inodes, 1_000_000), 0, gi),
			candidate("unused", -1, inodes, 0),
			candidate("one", 0, inodes, 1),
		}, []string{"one", "requests", "unused"}},
		"disk: without any figures the smallest request goes first": {eviction.ImageFsAvailable, []eviction.Candidate{
			requesting(candidate("b", 0, eviction.ImageFsAvailable, 0), 0, 2*gi),
			requesting(candidate("a", 0, eviction.ImageFsAvailable, 0), 0, gi),
		}, []string{"a", "b"}},
		"custom signals: priority, then use": {"acme.example/nvme.spare", []eviction.Candidate{
			requesting(candidate("small", 0, "acme.example/nvme.spare", 1), gi, gi),
			candidate("large", 0, "acme.example/nvme.spare", 2),
			candidate("high", 1, "acme.example/nvme.spare", 9),
		}, []string{"large", "small", "high"}},
		"custom signals: the class where use tells no difference": {"acme.example/nvme.spare", []eviction.Candidate{
			withClass(candidate("guaranteed", 0, "acme.example/nvme.spare", 7), eviction.Guaranteed),
			withClass(candidate("burstable", 0, "acme.example/nvme.spare", 7), eviction.Burstable),
			withClass(candidate("best effort", 0, "acme.example/nvme.spare", 7), eviction.BestEffort),
			withClass(candidate("more", 0, "acme.example/nvme.spare", 8), eviction.Guaranteed),
			withClass(without("no stats", 0, eviction.NoStats), eviction.Guaranteed),
			withClass(candidate("low", -1, "acme.example/nvme.spare", 0), eviction.Guaranteed),
		}, []string{"low", "no stats", "more", "best effort", "burstable", "guaranteed"}},
		"custom signals that nobody measures: priority, then class, then the order of pods": {"acme.example/nvme.spare", []eviction.Candidate{
			withClass(without("guaranteed", 0, eviction.MeasurementUnknown), eviction.Guaranteed),
			withClass(without("b", 0, eviction.MeasurementUnknown), eviction.BestEffort),
			withClass(without("a", 0, eviction.MeasurementUnknown), eviction.BestEffort),
			withClass(without("low", -1, eviction.MeasurementUnknown), eviction.Guaranteed),
		}, []string{"low", "b", "a", "guaranteed"}},
		"the class plays no role for the kubelet's signals": {mem, []eviction.Candidate{
			withClass(candidate("guaranteed", 0, mem, gi), eviction.Guaranteed),
			withClass(candidate("best effort", 0, mem, gi), eviction.BestEffort),
		}, []string{"guaranteed", "best effort"}},
		"the figure of another signal is none": {disk, []eviction.Candidate{
			candidate("other", 0, mem, 9*gi), candidate("this", 0, disk, 1),
		}, []string{"this", "other"}},
		"figures at both ends of int64": {mem, []eviction.Candidate{
			requesting(candidate("least", 0, mem, math.MinInt64), math.MaxInt64, 0),
			requesting(candidate("zero", 0, mem, 0), 0, 0),
			requesting(candidate("most", 0, mem, math.MaxInt64), math.MinInt64, 0),
			requesting(candidate("max", 0, mem, math.MaxInt64), 0, 0),
		}, []string{"most", "max", "zero", "least"}},
		"nobody": {mem, nil, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.candidates)
			if diff := cmp.Diff(c.want, uids(Sort(c.candidates, For(c.signal)))); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, c.candidates); diff != "" {
				t.Errorf("the input changed:\n%s", diff)
			}
		})
	}
}

func TestQoS(t *testing.T) {
	of := func(q eviction.QoSClass) eviction.Candidate {
		return eviction.Candidate{Pod: eviction.Pod{UID: string(q), QoSClass: q}}
	}
	got := uids(Sort([]eviction.Candidate{of(eviction.Guaranteed), of(eviction.BestEffort), of(eviction.Burstable)}, Chain(QoS, Priority)))
	if diff := cmp.Diff([]string{"BestEffort", "Burstable", "Guaranteed"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// random makes candidates whose figures collide often and reach both ends.
func random(r *rand.Rand, n int) []eviction.Candidate {
	figure := func() int64 {
		return []int64{0, 1, gi, 2 * gi, math.MaxInt64, math.MinInt64, -1, r.Int64N(8)}[r.IntN(8)]
	}
	out := make([]eviction.Candidate, n)
	for i := range out {
		out[i] = requesting(candidate(fmt.Sprint(i), r.Int32N(3)-1, eviction.MemoryAvailable, figure()), figure(), figure())
		for _, s := range eviction.BuiltinSignals()[1:] {
			out[i].Measurement.Usage = append(out[i].Measurement.Usage, eviction.SignalUsage{Signal: s, Value: figure()})
		}
		out[i].Measurement.State = []eviction.MeasurementState{
			eviction.Measured, eviction.Measured, eviction.Measured, eviction.NoStats, eviction.MeasurementUnknown,
		}[r.IntN(5)]
	}
	return out
}

func TestEveryComparatorIsAStrictWeakOrder(t *testing.T) {
	compares := map[string]Compare{"priority": Priority, "qos": QoS, "own": For("acme.example/nvme.spare")}
	for _, s := range eviction.BuiltinSignals() {
		compares["for "+string(s)] = For(s)
		compares["exceeds "+string(s)] = ExceedsRequest(s)
		compares["over "+string(s)] = UsageOverRequest(s)
		compares["usage "+string(s)] = Usage(s)
	}
	for name, compare := range compares {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			for range 4 {
				cs := random(r, 24)
				for i := range cs {
					for j := range cs {
						ab := compare(&cs[i], &cs[j])
						if sign(ab) != -sign(compare(&cs[j], &cs[i])) || i == j && ab != 0 {
							t.Fatalf("not antisymmetric: %+v and %+v", cs[i], cs[j])
						}
						for k := range cs {
							bc, ac := compare(&cs[j], &cs[k]), compare(&cs[i], &cs[k])
							if ab <= 0 && bc <= 0 && (ac > 0 || (ab < 0 || bc < 0) && ac >= 0) {
								t.Fatalf("not transitive: %+v, %+v, %+v", cs[i], cs[j], cs[k])
							}
						}
					}
				}
			}
		})
	}
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	default:
		return 0
	}
}

func TestSortIsAStablePermutation(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		cs := random(r, r.IntN(60))
		signals := eviction.BuiltinSignals()
		compare := For(signals[r.IntN(len(signals))])
		got := uids(Sort(cs, compare))
		want := make([]int, len(cs))
		for i := range want {
			want[i] = i
		}
		slices.SortStableFunc(want, func(i, j int) int { return compare(&cs[i], &cs[j]) })
		for i := range want {
			if got[i] != cs[want[i]].Pod.UID {
				t.Fatalf("position %d has %s, want %s", i, got[i], cs[want[i]].Pod.UID)
			}
		}
	}
}

// The figures of the kubelet's order are no reason for another one.
func TestReasonsOfAnotherOrder(t *testing.T) {
	candidates := []eviction.Candidate{candidate("a", 0, eviction.MemoryAvailable, gi), candidate("b", 1, eviction.MemoryAvailable, gi)}
	highest := func(a, b *eviction.Candidate) int { return Priority(b, a) }
	named := func(c *eviction.Candidate) string { return "is " + c.Pod.UID }
	if diff := cmp.Diff([]eviction.Ranked{{UID: "b", Reason: "is b"}, {UID: "a", Reason: "is a"}}, SortWithReason(candidates, highest, named)); diff != "" {
		t.Errorf("with a reason (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]eviction.Ranked{{UID: "b"}, {UID: "a"}}, SortWithReason(candidates, highest, nil)); diff != "" {
		t.Errorf("without (-want +got):\n%s", diff)
	}
	many := SortWithReason(make([]eviction.Candidate, reasoned+1), highest, named)
	if many[reasoned-1].Reason == "" || many[reasoned].Reason != "" {
		t.Errorf("want %d reasons, since nobody reads further, got %+v", reasoned, many)
	}
}

func TestReason(t *testing.T) {
	const mem, disk, inodes, pid = eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.PIDAvailable
	both := candidate("p", 0, mem, gi)
	both.Measurement.Usage = append(both.Measurement.Usage, eviction.SignalUsage{Signal: eviction.AllocatableMemoryAvailable, Value: gi})
	mixed := candidate("p", 3, mem, gi)
	mixed.Measurement.Usage = append(mixed.Measurement.Usage, eviction.SignalUsage{Signal: disk, Value: gi})
	for want, c := range map[string]eviction.Candidate{
		"exceeds request by 1.5Gi, priority 0":          requesting(candidate("p", 0, mem, 2*gi), gi/2, 0),
		"exceeds request by 1Gi, priority 0":            both,
		"512Mi below request, priority -7":              requesting(candidate("p", -7, mem, gi/2), gi, 0),
		"uses what it requests, priority 0":             requesting(candidate("p", 0, disk, gi), 0, gi),
		"exceeds request by 1023, priority 0":           candidate("p", 0, disk, 1023),
		"exceeds request by 15.9Ei, priority 0":         requesting(candidate("p", 0, mem, math.MaxInt64), math.MinInt64, 0),
		"uses 1200 processes, priority 1000":            candidate("p", 1000, pid, 1200),
		"uses 10 inodes, requests 1Gi, priority 0":      requesting(candidate("p", 0, inodes, 10), 0, gi),
		"uses 10 inodes, priority 0":                    candidate("p", 0, inodes, 10),
		"uses 4 of acme.example/nvme.spare, priority 0": candidate("p", 0, "acme.example/nvme.spare", 4),
		"no stats, priority 2":                          without("p", 2, eviction.NoStats),
		"usage unknown, priority 2":                     without("p", 2, eviction.MeasurementUnknown),
		"priority 3":                                    mixed,
	} {
		t.Run(want, func(t *testing.T) {
			if got := Sort([]eviction.Candidate{c}, For(mem))[0].Reason; got != want {
				t.Errorf("reason is %q, want %q", got, want)
			}
			if got := Reason(&c); got != want {
				t.Errorf("Reason is %q, want %q", got, want)
			}
		})
	}
}

func BenchmarkSort(b *testing.B) {
	for _, s := range []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable, eviction.PIDAvailable} {
		for _, n := range []int{500, 5000} {
			b.Run(fmt.Sprintf("%s/%d", s, n), func(b *testing.B) {
				r := rand.New(rand.NewPCG(5, 6))
				cs := make([]eviction.Candidate, n)
				for i := range cs {
					cs[i] = requesting(candidate(fmt.Sprint(i), r.Int32N(4), s, r.Int64N(4*gi)), r.Int64N(4*gi), r.Int64N(4*gi))
				}
				compare := For(s)
				b.ReportAllocs()
				for b.Loop() {
					Sort(cs, compare)
				}
			})
		}
	}
}

// Kubelet must not know better than the comparators that plugin authors have.
func TestKubeletSortsAsItsComparatorsDo(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	classes := []eviction.QoSClass{eviction.BestEffort, eviction.Burstable, eviction.Guaranteed, ""}
	figures := []int64{0, 1, 2, 1 << 20, math.MaxInt64, math.MinInt64, -1}
	some := func() int64 { return figures[r.IntN(len(figures))] }
	signals := []eviction.Signal{
		eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable, eviction.NodeFsAvailable, eviction.ImageFsInodesFree,
		eviction.PIDAvailable, "acme.example/nvme.spare",
	}
	for range 2000 {
		s := signals[r.IntN(len(signals))]
		candidates := make([]eviction.Candidate, r.IntN(9))
		for i := range candidates {
			candidates[i] = eviction.Candidate{
				Pod: eviction.Pod{UID: fmt.Sprint(i), QoSClass: classes[r.IntN(len(classes))], Priority: int32(r.IntN(3)), MemoryRequestBytes: some(), EphemeralStorageRequestBytes: some()},
				Measurement: eviction.Measurement{
					State: eviction.MeasurementState(r.IntN(3)), WorkingSetBytes: eviction.Some(some()),
					Usage: []eviction.SignalUsage{{Signal: s, Value: some()}},
				},
			}
		}
		if diff := cmp.Diff(Sort(candidates, For(s)), Kubelet(candidates, s)); diff != "" {
			t.Fatalf("%s, %+v (-Sort +Kubelet):\n%s", s, candidates, diff)
		}
	}
}

// Plugins chain the orders by their names.
func TestTheOrdersByName(t *testing.T) {
	candidates := []eviction.Candidate{
		{Pod: eviction.Pod{UID: "important", Priority: 1000}},
		{Pod: eviction.Pod{UID: "expendable", Priority: -1}},
	}
	for name, compare := range map[string]Compare{"Memory": Memory(), "Disk": Disk(eviction.NodeFsAvailable), "PID": PID()} {
		if got := Sort(candidates, compare); got[0].UID != "expendable" {
			t.Errorf("%s: %v goes first, want expendable", name, got[0].UID)
		}
	}
}
