package pressure

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A herd is the pods of a made-up node that the pressure plugin looks at five times a second. Their sizes and requests are
// by name. What they take is gone from what is left.
type herd struct {
	thrasher
	capacity, left, refaults int64
	size, request            map[string]int64
	// names and calm are those of innocents, and their sizes at first.
	names []string
	calm  []int64
	at    time.Duration
	held  int // looks that found that the node thrashes
}

func newHerd(capacity, available int64) *herd {
	h := &herd{capacity: capacity, size: map[string]int64{}, request: map[string]int64{}}
	h.rule.window = 2 * time.Second
	h.left = available
	return h
}

// resize sets the size of a pod.
func (h *herd) resize(name string, size int64) {
	h.left += h.size[name] - size
	h.size[name] = size
}

// look looks after 200 ms in which pages refaulted. It returns the pods that the ranking names if the node thrashes.
func (h *herd) look(refaults int64) []eviction.Ranked {
	h.at += 200 * time.Millisecond
	h.refaults += refaults
	now := look{at: h.at, refaults: h.refaults, reclaimable: h.left}
	h.looks.add(now, h.rule.window)
	v, _ := h.rule.judge(h.looks)
	h.note(v, now, func() map[string]int64 { return maps.Clone(h.size) })
	if !v.thrashes() {
		return nil
	}
	h.held++
	return h.ranking()
}

func (h *herd) ranking() []eviction.Ranked {
	req := eviction.RankRequest{Signal: Headroom, Capacity: h.capacity}
	for _, name := range slices.Sorted(maps.Keys(h.size)) {
		req.Candidates = append(req.Candidates, eviction.Candidate{
			Pod:         eviction.Pod{UID: name, MemoryRequestBytes: h.request[name]},
			Measurement: eviction.Measurement{UID: name, State: eviction.Measured, WorkingSetBytes: eviction.Some(h.size[name])},
		})
	}
	return h.rank(req)
}

// innocents gives the node ten pods beyond their requests.
func (h *herd) innocents(r *rand.Rand) {
	for i := range 10 {
		name, size := fmt.Sprint("innocent ", i), 1+r.Int64N(h.capacity/20)
		h.size[name], h.request[name] = size, r.Int64N(size)
		h.names, h.calm = append(h.names, name), append(h.calm, size)
	}
}

// stir has each innocent use up to a two-thousandth of what is available more or less than before.
func (h *herd) stir(r *rand.Rand, available int64) {
	for i, name := range h.names {
		h.resize(name, h.calm[i]+r.Int64N(1+available/2000))
	}
}

// randomNode returns a node of 1 GiB to 1 TiB with 1 to 50 % available.
func randomNode(r *rand.Rand) (*herd, int64) {
	capacity := int64(1<<30) << r.IntN(11)
	available := int64(float64(capacity) * (0.01 + 0.49*r.Float64()))
	h := newHerd(capacity, available)
	h.innocents(r)
	return h, available
}

// A tooth is a pod within its request that takes memory for some seconds, keeps it and gives it back.
type tooth struct{ most, takes, keeps, gives, pauses, phase float64 }

func (t tooth) size(second float64) int64 {
	at := math.Mod(second+t.phase, t.takes+t.keeps+t.gives+t.pauses)
	switch {
	case at < t.takes:
		return int64(t.most * at / t.takes)
	case at < t.takes+t.keeps:
		return int64(t.most)
	case at < t.takes+t.keeps+t.gives:
		return int64(t.most * (1 - (at-t.takes-t.keeps)/t.gives))
	}
	return 0
}

// A pod that took and gave back 512 MiB within its request once evicted others on a node of 64 GiB with 6 GiB left, by 20
// refaults a second.
func TestAPodWithinItsRequestEvictsNoOther(t *testing.T) {
	for name, of := range map[string]struct {
		tooth    tooth
		refaults int64
	}{
		"512 MiB in a second":  {tooth{most: 512 * mib, takes: 1, keeps: 3, gives: 0.2, pauses: 6}, 20},
		"1 GiB in 3 seconds":   {tooth{most: 1024 * mib, takes: 3, keeps: 3, gives: 0.2, pauses: 6}, 5},
		"with a busy disk":     {tooth{most: 512 * mib, takes: 1, keeps: 3, gives: 0.2, pauses: 6}, 50_000},
		"1 GiB, busy disk too": {tooth{most: 1024 * mib, takes: 3, keeps: 3, gives: 0.2, pauses: 6}, 50_000},
	} {
		h := newHerd(64<<30, 6<<30)
		r := rand.New(rand.NewPCG(1, 1))
		h.innocents(r)
		h.request["tooth"] = 1 << 30
		for second := 0.2; second < 120; second += 0.2 {
			h.stir(r, 6<<30)
			h.resize("tooth", of.tooth.size(second))
			if named := h.look(of.refaults / 5); len(named) > 0 {
				t.Fatalf("%s: at %.1f s it names %+v", name, second, named[0])
			}
		}
		if few := of.refaults < 100; few != (h.held == 0) {
			t.Errorf("%s: %d looks found that the node thrashes, want none only with few refaults", name, h.held)
		}
	}
}

func TestNoPodGoesForTeethWithinRequestsOnAnyNode(t *testing.T) {
	thrashed := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		h, available := randomNode(r)
		teeth := make([]tooth, 1+r.IntN(4))
		for i := range teeth {
			teeth[i] = tooth{
				most: float64(available) * (0.05 + 0.75*r.Float64()) / float64(len(teeth)), takes: 0.1 + 20*r.Float64()*r.Float64(),
				keeps: 10 * r.Float64(), gives: 0.1 + 10*r.Float64()*r.Float64(), pauses: 10 * r.Float64(), phase: 40 * r.Float64(),
			}
			h.request[fmt.Sprint("tooth ", i)] = int64(teeth[i].most)
		}
		refaults := int64(math.Exp(math.Log(100_000) * r.Float64()))
		for second := 0.2; second < 60; second += 0.2 {
			h.stir(r, available)
			for i, tooth := range teeth {
				h.resize(fmt.Sprint("tooth ", i), tooth.size(second))
			}
			if named := h.look(1 + r.Int64N(1+refaults*2/5)); len(named) > 0 {
				t.Errorf("seed %d: %d GiB, %d MiB available, about %d refaults/s: at %.1f s it names %+v", seed, h.capacity>>30, available>>20, refaults, second, named[0])
				break
			}
		}
		if h.held > 0 {
			thrashed++
		}
	}
	if thrashed < 150 {
		t.Errorf("%d of 500 nodes thrash, want 150 at least: the teeth are too small", thrashed)
	}
	t.Logf("%d of 500 nodes thrash", thrashed)
}

// The twin: a pod beyond its request by which memory is gone in 20 to 120 s is named first, 10 s before it is gone. Every
// second node has a tooth, every third hog is new.
func TestHogsAreNamedInTimeOnAnyNode(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 3))
		h, available := randomNode(r)
		perSecond := float64(available) / (20 + 100*r.Float64())
		within := tooth{most: float64(available) / 100 * float64(1-seed%2), takes: 1 + r.Float64(), keeps: 5, gives: 1, pauses: 5}
		h.request["tooth"] = int64(within.most)
		h.request["hog"] = int64(perSecond) * int64(r.IntN(4))
		if seed%3 != 0 {
			h.size["hog"] = int64(float64(h.request["hog"]) * r.Float64())
		}
		began := h.size["hog"]
		for second := 0.2; ; second += 0.2 {
			h.stir(r, available)
			h.resize("tooth", within.size(second))
			if second > 3 {
				h.resize("hog", began+int64(perSecond*(second-3)))
			}
			if named := h.look(1 + r.Int64N(20_000)); len(named) > 0 {
				if named[0].UID != "hog" {
					t.Errorf("seed %d: at %.1f s it names %+v first", seed, second, named[0])
				}
				break
			}
			if left := float64(h.left) / perSecond; left < 10 {
				t.Errorf("seed %d: %d GiB, a hog that takes %d MiB in %.0f s is not named when %.0f s are left", seed, h.capacity>>30, available>>20, float64(available)/perSecond, left)
				break
			}
		}
	}
}

// Pods go only if their growth beyond their requests is half of what was taken.
func TestTheGrowthOfPodsExplainsAFall(t *testing.T) {
	type sized map[string]int64
	was := sized{"hog": 100, "innocent": 900, "within": 100}
	falls := verdict{falls: true, fell: 400 * mib}
	for claim, of := range map[string]struct {
		found     verdict
		fell      int64 // since the first reading
		was       sized
		is        sized
		requested int64 // by the hog
		want      string
	}{
		"a hog goes, however small beside the others":   {falls, 500, was, sized{"hog": 600}, 10, "[hog innocent]"},
		"half is enough, as of two hogs":                {falls, 500, was, sized{"hog": 250, "innocent": 1040}, 10, "[innocent hog]"},
		"what others give back does not count":          {falls, 500, was, sized{"hog": 600, "innocent": 200}, 10, "[hog innocent]"},
		"a pod within its request took it":              {falls, 500, was, sized{"within": 600}, 10, "[]"},
		"up to the request growth does not count":       {falls, 500, was, sized{"hog": 600}, 400, "[]"},
		"more has gone since the first reading":         {falls, 1300, was, sized{"hog": 600}, 10, "[]"},
		"more has gone in the window":                   {verdict{falls: true, fell: 1300 * mib}, 0, was, sized{"hog": 600}, 10, "[]"},
		"memory fell before the first reading":          {verdict{falls: true, fell: 50 * mib}, 0, was, sized{"hog": 200}, 10, "[]"},
		"a pod in no reading is new":                    {falls, 500, sized{"innocent": 900}, sized{"hog": 600}, 10, "[hog innocent]"},
		"without readings no growth is known":           {falls, 0, nil, sized{"hog": 600}, 10, "[]"},
		"at the brink it does not matter who took what": {verdict{falls: true, brink: true}, 500, was, nil, 10, "[innocent hog]"},
	} {
		h := newHerd(1<<40, 5500*mib)
		h.thrasher.left, h.found = h.left, of.found
		h.request = sized{"hog": of.requested * mib, "innocent": 10 * mib, "within": 2000 * mib}
		if of.was != nil {
			h.sizes = []sizes{{left: h.left + of.fell*mib, of: sized{}}}
		}
		for name, size := range was {
			h.size[name] = size * mib
		}
		for name, size := range of.was {
			h.sizes[0].of[name] = size * mib
		}
		for name, size := range of.is {
			h.size[name] = size * mib
		}
		var order []string
		for _, r := range h.ranking() {
			order = append(order, r.UID)
		}
		if got := fmt.Sprint(order); got != of.want {
			t.Errorf("%s: it names %s, want %s", claim, got, of.want)
		}
	}
}

// A pod within its request takes 900 MiB, after which one beyond its request grows by too little to be a hog by itself.
func TestReadingsAreKeptAsLongAsAFallCounts(t *testing.T) {
	for tooth, held := range map[float64]bool{600: true, 0: false} {
		h := newHerd(64<<30, 6<<30)
		h.request["tooth"] = 1 << 30
		for second := 0.2; second < 12; second += 0.2 {
			h.resize("tooth", int64(mib*tooth*min(max(0, second-3), 1.5)))
			h.resize("grows", int64(mib*55*max(0, second-3)))
			if named := h.look(20_000); len(named) > 0 {
				t.Fatalf("a tooth of %v MiB: at %.1f s it names %+v", tooth, second, named[0])
			}
		}
		if (h.held > 10) != held {
			t.Errorf("a tooth of %v MiB: %d looks found that the node thrashes", tooth, h.held)
		}
	}
}

// While the pods cannot be listed each would look new.
func TestAPodThatCouldNotBeReadIsNotNew(t *testing.T) {
	n := newThrashing(t, "workingset_refault_file 0\npgscan_direct 0\n")
	named := func() int {
		ranked, err := n.plugin.Ranker.Rank(t.Context(), eviction.RankRequest{Signal: Headroom, Capacity: 1000 * mib, Candidates: []eviction.Candidate{
			{Pod: eviction.Pod{UID: "hog"}, Measurement: eviction.Measurement{UID: "hog", State: eviction.Measured, WorkingSetBytes: eviction.Some(n.used * mib)}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return len(ranked)
	}
	n.during(time.Second, 0, 0)
	if o := n.during(1500*time.Millisecond, 100, 3000); o.Available == o.Capacity || named() != 0 {
		t.Errorf("%+v, %d pods are named, want none since no pod could be listed", o, named())
	}
	for range 10 {
		n.Write(map[string]string{"sys/fs/cgroup/kubepods/podhog/memory.current": fmt.Sprintln(n.used * mib), "sys/fs/cgroup/kubepods/podhog/memory.stat": "inactive_file 0\n"})
		n.during(100*time.Millisecond, 100, 3000)
	}
	if named() != 1 {
		t.Error("the hog is not named")
	}
}
