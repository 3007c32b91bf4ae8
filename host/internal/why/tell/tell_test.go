package tell

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/host/internal/why/whatif"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/document"
)

const gibibyte = 1 << 30

func softEviction() *decision.Decision { return decoded("../../core/decision/testdata/soft.json") }

// example returns the eviction that the documentation tells of.
func example() *decision.Decision { return decoded("testdata/example.json") }

func decoded(path string) *decision.Decision {
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	r, err := decision.Decode(data)
	if err != nil {
		panic(err)
	}
	return r
}

func TestAnEvictionIsExplained(t *testing.T) {
	text := string(Text(softEviction()))
	for _, want := range []string{
		"2026-01-01 12:00:50 UTC  shop/report was evicted for memory.available, which it took itself",
		"3Gi less available than 4m12s before:", "shop/report by 2.5Gi", "may not go, by 512Mi",
		"memory.available<1Gi for 30s: 900Mi of 8Gi available, met since 12:00:20, longer than its grace period: acted on",
		"shop/report is before shop/web by: lower priority",
		"advice        a request of 3Gi would have spared it: then shop/web would have gone",
		"a priority of at least 1001: then shop/web would have gone",
		"killed after 1.2s, gone after 1.25s, 2Gi came back of the 3Gi that it used",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not told in\n%s", want, text)
		}
	}
}

// What docs/explain.md and docs/night.md quote is what evictd says of the example.
// What a plugin's figure was made of stood in the record alone.
func TestAVendorsFigureIsExplained(t *testing.T) {
	d := example()
	for i := range d.Thresholds {
		if t := &d.Thresholds[i]; t.Acted {
			t.Custom = &decision.CustomSignal{Unit: eviction.UnitBytes, Format: eviction.FormatBinarySI, Resource: "acme.example/spare", Condition: "acme.example/SparePressure"}
			d.Observation(t.Signal).Components = map[string]int64{"refaults": 4100, "direct scans": 0}
		}
	}
	if got := string(Text(d)); !strings.Contains(got, "\n  computed from direct scans 0, refaults 4100\n") {
		t.Errorf("the figures of the signal are missing:\n%s", got)
	}
}

func TestTheDocumentationQuotesTheExample(t *testing.T) {
	d := example()
	document.Compare(t, "../../../../docs/night.md", map[string]string{"example": "```text\n" + string(Text(d)) + "```\n"})
	view := Owner(d)
	document.Compare(t, "../../../../docs/explain.md", map[string]string{"example": "```text\n" + string(view.Text()) + "```\n"})
	why, owner := reason.Why(d, d.Growth.Most[0].By, time.Duration(-d.Growth.SinceMS*1e6)), string(testos.ReadFile(t, "../../../../docs/explain.md"))
	if message := strings.TrimSpace(d.Victim.Message); !strings.Contains(owner, why) || !strings.Contains(owner, message) || !strings.Contains(owner, d.ID) {
		t.Errorf("docs/explain.md lacks %q, %q or %q", why, message, d.ID)
	}
}

func TestAnEvictionByAnotherProgramIsExplained(t *testing.T) {
	r := &decision.Decision{ID: "r1", Kind: decision.KindOther, ByOthers: decision.ByOthers{By: "the kubelet"}, Victim: &decision.Victim{Pod: "shop/report", UID: "u", Message: "over its limit\x1b[31m. "}}
	text := string(Text(r))
	for _, want := range []string{"shop/report was evicted by the kubelet\n", "over its limit\ufffd[31m.\n", "evictd made no decision about it"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not told in\n%s", want, text)
		}
	}
	if strings.Contains(text, "grace period") {
		t.Errorf("tells what is not known:\n%s", text)
	}
	h := r.Head()
	if got := Followed(&h); got != "over its limit\x1b[31m." { // a table escapes it
		t.Errorf("followed by %q", got)
	}
}

// A record whose other figures do not ask for an eviction had neither an advice nor a word about that.
func TestAdviceIsGivenWithoutACounterfactual(t *testing.T) {
	r := softEviction()
	r.Thresholds[1].Since = new(r.Time.Add(time.Hour))
	if text := string(Text(r)); !strings.Contains(text, "a request of 3Gi would have spared it") || !strings.Contains(text, "spared by     cannot be told: the record is of no choice") {
		t.Errorf("%s", text)
	}
}

// No counterfactual is shown for another pod than the one that went.
func TestAnotherVictimHasNoCounterfactual(t *testing.T) {
	r := softEviction()
	r.Candidates = append(r.Candidates, decision.Candidate{UID: "cache-1", Pod: "shop/cache", QoS: eviction.BestEffort, Usage: 4 * gibibyte})
	if text := string(Text(r)); !strings.Contains(text, "cannot be told") || strings.Contains(text, "would have gone") {
		t.Error(text)
	}
}

// kernelKill makes r the record of a kernel kill.
func kernelKill(r *decision.Decision, scope string) {
	k := &decision.Kernel{Scope: scope, Container: "main", Processes: 2, SinceMS: -900, UsedBytes: new(int64(300 << 20)), RequestBytes: new(int64(0))}
	if scope != decision.ScopeNode {
		k.LimitBytes = 512 << 20
	}
	r.Kind, r.By, r.Kernel, r.Ranker, r.Candidates, r.Order, r.Outcome = decision.KindKernel, "the kernel", k, nil, nil, nil, nil
	r.Victim.Message, r.Thresholds[0].Acted, r.Thresholds[1].Acted = reason.Kernel(k), false, false
}

// Among evictions a kernel kill was told twice in its line.
func TestAKernelKillAmongEvictionsIsInItsLineOnce(t *testing.T) {
	r := softEviction()
	kernelKill(r, decision.ScopeContainer)
	text := string(Episode([]*decision.Decision{softEviction(), r}, r.Time))
	if strings.Count(text, "the kernel killed 2 processes") != 1 || !strings.Contains(text, "2 decisions, 1 eviction, 1 kernel kill until") {
		t.Error(text)
	}
}

// The explanation is true: of a pod that did not end, of a signal that nobody knew, of a
// threshold that holds for its minimum reclaim.
func TestAnExplanationIsTrue(t *testing.T) {
	hard := func(r *decision.Decision) { r.Thresholds[1].GracePeriod = "" }
	for _, c := range []struct {
		name           string
		change         func(r *decision.Decision)
		reported, hide string
	}{
		{"a kill that failed", func(r *decision.Decision) {
			r.Outcome = &decision.Outcome{State: "given-up", Err: "runtime down", KilledMS: 120_000}
		}, "the kill of shop/report failed: it was to be evicted for memory.available, which it took itself", "killed after"},
		{"a kernel kill while a threshold was met", func(r *decision.Decision) {
			kernelKill(r, decision.ScopeNode)
		}, "memory.available<1Gi for 30s had been met for 30s, and no pod was evicted in time", "grace period 60s"},
		{"a kernel kill at a limit", func(r *decision.Decision) {
			kernelKill(r, decision.ScopeContainer)
			r.Thresholds[1].Since = nil
		}, "shop/report: the kernel killed 2 processes of container main: the container reached its limit of 512Mi of memory; a larger limit, or less use, would have spared it", "was evicted"},
		{"the time and the memory of a kernel kill", func(r *decision.Decision) {
			kernelKill(r, decision.ScopePod)
		}, "after 12:00:49.100, when evictd looked before", "not known"},
		{"a kernel kill of a cgroup that is gone", func(r *decision.Decision) {
			kernelKill(r, decision.ScopeUnknown)
			r.Victim, r.Reason = nil, reason.Kernel(r.Kernel)
		}, "UTC  the kernel killed 2 processes of container main: at whose limit of memory is not known", "evicted for"},
		{"nothing was observed", func(r *decision.Decision) {
			hard(r)
			r.Observations[0] = decision.Observation{Signal: eviction.MemoryAvailable, State: "unknown"}
		}, "memory.available<1Gi: the signal was unknown, met since", "0 of 0"},
		{"held by its minimum reclaim", func(r *decision.Decision) {
			hard(r)
			r.Thresholds[1].MinReclaim, r.Observations[0].Available = "500Mi", 1100<<20
		}, "available, held until its minimum reclaim is reached, met since 12:00:20", "below it"},
		{"a limit above the pods", func(r *decision.Decision) {
			r.Observations[0].Components = map[string]int64{"limit of /tenant": r.Observations[0].Capacity}
		}, "available, the limit of /tenant", "limit of /,"},
		{"a limit that is not the closest", func(r *decision.Decision) {
			r.Observations[0].Components = map[string]int64{"limit of /tenant": 1}
		}, "available", "/tenant"},
		{"a disk whose use pods do not explain", func(r *decision.Decision) {
			r.Thresholds[1].Signal, r.Observations[0].Signal, r.Victim.Signal = eviction.NodeFsAvailable, eviction.NodeFsAvailable, "nodefs.available"
			r.Observations[0].Components = map[string]int64{"used": 16 * gibibyte, "images": 2 * gibibyte}
		}, "16Gi: 5Gi by pods that could go, 2Gi by images, 9Gi outside of both", "at least 10Gi"},
		{"a lower bound of a use", func(r *decision.Decision) {
			r.Candidates[1].AtMost = 30 * gibibyte
		}, "  at least 3Gi  ", "a request for memory"},
		{"files that share their blocks", func(r *decision.Decision) {
			r.Victim.Signal, r.Outcome.Released = "nodefs.available", new(int64(16<<20))
		}, "16Mi came back of the 3Gi that it used: other files may share its blocks", "uses at least"},
		{"a ranker that writes to the terminal", func(r *decision.Decision) {
			r.Ranker.Custom, r.Candidates[1].Reason = true, "idle\x1b[2J"
		}, "idle", "\x1b"},
		{"inputs that were not new", func(r *decision.Decision) {
			r.Inputs = []decision.Input{{Name: "containers", AgeSeconds: 12.04, Reason: "no answer in time"}, {Name: "API server", Reason: "away"}}
		}, "containers of 12s before: no answer in time", "of 0s"},
		{"a step that tells no figure", func(r *decision.Decision) {
			r.Reclaim = []decision.Reclaim{{Step: "image-gc", By: "embedding program", TookSeconds: 2}}
		}, "image-gc by embedding program reported nothing reclaimed in 2s", "reclaimed 0"},
		{"a step that reclaimed inodes", func(r *decision.Decision) {
			r.Reclaim = []decision.Reclaim{{Step: "image-gc", By: "disk", BytesFreed: gibibyte, InodesFreed: 7, TookSeconds: 2}}
		}, "image-gc by disk reclaimed 1Gi and 7 inodes in 2s", "nothing"},
		{"a ranking of now", func(r *decision.Decision) {
			r.Kind, r.Victim = decision.KindRanking, nil
		}, "shop/report is before shop/web by: lower priority", "acted on"},
		{"a preemption", func(r *decision.Decision) {
			r.Kind, r.Reason = decision.KindPreemption, "to admit the critical pod kube-system/dns, which lacks cpu"
		}, "shop/report was killed, to admit the critical pod kube-system/dns, which lacks cpu", "was evicted"},
		{"a kill of a former evictd", func(r *decision.Decision) {
			r.Kind, r.Trigger, r.Thresholds = decision.KindResumed, "", nil
		}, "a former evictd decided so", "looked because"},
		{"a quantity without end", func(r *decision.Decision) { r.Thresholds[1].Value = "1e999999999" }, "shop/report", "1e999999999"},
	} {
		r := softEviction()
		c.change(r)
		if text := string(Text(r)); !strings.Contains(text, c.reported) || strings.Contains(text, c.hide) {
			t.Errorf("%s: want %q and not %q in\n%s", c.name, c.reported, c.hide, text)
		}
	}
}

// The first line says whose growth it was: the pod's own, a neighbour's, or the node's.
func TestTheFirstLineSaysWhoTookWhatIsMissing(t *testing.T) {
	own, neighbour := decision.Grown{UID: "report-1", Pod: "shop/report", By: 2 * gibibyte}, decision.Grown{UID: "web-1", Pod: "shop/web", By: 3 * gibibyte}
	for _, c := range []struct {
		growth      decision.Growth
		first, also string
	}{
		{decision.Growth{Lost: 3 * gibibyte, Pods: 2 * gibibyte, Most: []decision.Grown{own}}, ", which it took itself", "shop/report by 2Gi"},
		{decision.Growth{Lost: 5 * gibibyte, Pods: 5 * gibibyte, Most: []decision.Grown{neighbour, own}}, ", which shop/web took", "3m0s before: shop/web by 3Gi shop/report by 2Gi"},
		{decision.Growth{Lost: 6 * gibibyte, Pods: 2 * gibibyte, Most: []decision.Grown{own}}, "; the rest of the node took it, or a pod that may not go", "the rest of the node, or pods that may not go, by 4Gi"},
		{decision.Growth{Lost: 6 * gibibyte, Pods: 2 * gibibyte, Protected: true, Most: []decision.Grown{own}}, "; the rest of the node took it", "the rest of the node by 4Gi"},
		{decision.Growth{Lost: 6 * gibibyte, Pods: -gibibyte, Protected: true}, "; the rest of the node took it", "the rest of the node by 7Gi"},
		{decision.Growth{Lost: 100 * gibibyte, Pods: 100 * gibibyte, Most: []decision.Grown{own}}, "", "shop/report by 2Gi"}, // many took a little each
	} {
		r := softEviction()
		r.Growth = &c.growth
		r.Growth.SinceMS = -180_000
		text := string(Text(r))
		first, _, _ := strings.Cut(text, "\n")
		if want := "2026-01-01 12:00:50 UTC  shop/report was evicted for memory.available" + c.first; first != want {
			t.Errorf("%+v: the first line is %q, want %q", c.growth, first, want)
		}
		if plain := strings.Join(strings.Fields(text), " "); !strings.Contains(plain, c.also) || !strings.Contains(plain, "what grew ") {
			t.Errorf("%+v: %q is not told in\n%s", c.growth, c.also, text)
		}
	}
}

// Whatever a file has, nothing panics.
func FuzzRecord(f *testing.F) {
	data, err := json.Marshal(softEviction())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"version":1,"id":"x","victim":{"signal":"pid.available"},"signals":[{"signal":"pid.available","unit":1,"available":[1,-2]}]}`))
	f.Add([]byte(`{"version":1,"id":"x","thresholds":[{"acted":true,"percentage":"NaN","graceSeconds":1e300}],"candidates":[{}],"order":[0]}`))
	f.Add([]byte(`{"version":1,"id":"x","now":"2026-01-01T12:00:50Z","time":"2026-01-01T12:00:50Z","thresholds":[{"signal":"memory.available","value":"1Gi","acted":true,"since":"2026-01-01T12:00:20Z","inForce":"2026-01-01T12:00:20Z"}],
		"observations":[{"signal":"memory.available","state":"observed","available":1,"capacity":8589934592}],"signals":[{"signal":"memory.available","unit":1048576,"untilMS":1e300,"available":[900,-3,9],"repeated":[-1,2]}],
		"candidates":[{"pod":"a/b","usage":5},{"pod":"a/c"}],"order":[0,1],"curves":["a/b"],"usage":[{"ms":-1e300,"first":"a/b","used":[1,2]}],"marks":[{"what":"wait","ms":-1e9,"untilMS":1e9}],
		"outcome":{"goneMS":1,"released":9,"after":{"signal":"memory.available","unit":1,"untilMS":-1e300,"available":[1]}}}`))
	other := []policy.Threshold{{Signal: eviction.MemoryAvailable, Value: policy.Value{Percentage: 0.5, IsPercentage: true}, GracePeriod: time.Second}}
	f.Fuzz(func(_ *testing.T, data []byte) {
		r, err := decision.Decode(data)
		if err != nil {
			return
		}
		Text(r)
		Episode([]*decision.Decision{r, r}, time.Unix(0, 0))
		if e, err := whatif.Met(r, other); err == nil {
			If("x", &e)
		}
		if r.Victim != nil {
			o := Owner(r)
			o.HTML("x")
		}
		_ = r.Head()
		_, _ = SVG(r) // an error says that there are no samples
	})
}

func TestTheNextVictimIsReported(t *testing.T) {
	r := softEviction()
	r.Kind, r.Victim, r.Outcome, r.Trigger, r.Causes = decision.KindRanking, nil, nil, "", ""
	calm := softEviction()
	*calm = *r
	calm.Thresholds = []decision.Threshold{{Signal: eviction.PIDAvailable, Value: "10%", Acted: true}}
	calm.Observations = []decision.Observation{{Signal: eviction.PIDAvailable, State: decision.StateObserved, Available: 900, Capacity: 1000}}
	calm.Order, calm.Reason = nil, "2 being evicted"
	want := `2026-01-01 12:00:50 UTC  memory.available on node-1
  threshold     memory.available<500Mi: 900Mi of 8Gi available, 400Mi more than that
                memory.available<1Gi for 30s: 900Mi of 8Gi available, met since 12:00:20, longer than its grace period
  would go      shop/report is before shop/web by: lower priority
2026-01-01 12:00:50 UTC  pid.available on node-1
  threshold     pid.available<10%: 900 of 1000 available, 800 more than that
  would go      no pod: 2 being evicted
`
	if got := string(Now([]*decision.Decision{r, calm})); got != want {
		t.Errorf("told\n%s\nwant\n%s", got, want)
	}
	order := string(Order(r))
	for _, want := range []string{"memory.available<500Mi: 900Mi of 8Gi available, 400Mi more than that", "shop/report is before shop/web by: lower priority", "1  shop/report  0 "} {
		if !strings.Contains(order, want) {
			t.Errorf("%q is not told in\n%s", want, order)
		}
	}
}

// A full disk that daemons had filled was told with the pod that had to go for it, and pods that a ranker
// had spared were a number.
func TestADiskThatIsFullOfOtherThings(t *testing.T) {
	r := softEviction()
	r.Growth, r.RankVeto = nil, "soft"
	r.Thresholds[1].Signal, r.Ranker.Custom, r.Ranker.Name, r.Order = eviction.NodeFsAvailable, true, "keeper", []int{1}
	r.Victim.Signal = "nodefs.available"
	r.Observations = append(r.Observations, decision.Observation{Signal: eviction.NodeFsAvailable, State: decision.StateObserved, Available: 900 << 20, Capacity: 100 << 30, Components: map[string]int64{"used": 90 << 30, "images": 4 << 30}})
	text := string(Text(r))
	for _, want := range []string{
		"shop/report was evicted for nodefs.available; most of it is in files outside of images and pods",
		"  left out      1 by keeper, which may spare pods (rankVeto: soft)\n                shop/web\n",
		"90Gi: 5Gi by pods that could go, 4Gi by images, 81Gi outside of both",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}

// What is not known of pods is not said to be no pod's.
func TestADiskOfPodsThatAreNotKnown(t *testing.T) {
	for _, c := range []struct {
		change func(*decision.Decision)
		want   string
	}{
		{func(*decision.Decision) {}, "nodefs.available; most of it is in files outside of images and pods\n"},
		{func(d *decision.Decision) { d.Protected = []decision.Protected{{Pod: "kube-system/registry"}} }, "nodefs.available; most of it is in files outside of images and of pods that could go\n"},
		{func(d *decision.Decision) { d.Candidates[0].State = decision.StateUnknown }, "nodefs.available\n"},
		{func(d *decision.Decision) { d.Candidates[0].AtMost = 90 << 30 }, "nodefs.available\n"},
		{func(d *decision.Decision) { d.Observations[1].Components["images"] = 80 << 30 }, "nodefs.available\n"},
	} {
		r := softEviction()
		r.Growth, r.Thresholds[1].Signal, r.Victim.Signal = nil, eviction.NodeFsAvailable, "nodefs.available"
		r.Observations = append(r.Observations, decision.Observation{Signal: eviction.NodeFsAvailable, State: decision.StateObserved, Available: 900 << 20, Capacity: 100 << 30, Components: map[string]int64{"used": 90 << 30, "images": 4 << 30}})
		c.change(r)
		if text := string(Text(r)); !strings.Contains(text, "shop/report was evicted for "+c.want) {
			t.Errorf("want %q in\n%s", c.want, text)
		}
	}
}

// A shortage of which the record has no figure was over, and its eviction not needed.
func TestAnEpisodeWithoutAFigureIsNotOver(t *testing.T) {
	r := softEviction()
	r.Outcome.After = &decision.Series{Signal: eviction.MemoryAvailable, Unit: 1 << 20, UntilMS: 60_000, Available: []int64{5000, 0, 0}}
	later := r.Time.Add(time.Hour)
	if text := string(Episode([]*decision.Decision{r, r}, later)); !strings.Contains(text, "over          yes: 4.88Gi") || !strings.Contains(text, "not needed") {
		t.Errorf("with a figure:\n%s", text)
	}
	r.Observations[0].State = decision.StateUnknown
	if text := string(Episode([]*decision.Decision{r, r}, later)); !strings.Contains(text, "over          not known: ") || strings.Contains(text, "needed") {
		t.Errorf("without a figure:\n%s", text)
	}
}

// The signal that was about to be acted on stood behind those that were far away.
func TestNowBeginsWithWhatIsNear(t *testing.T) {
	at := func(s eviction.Signal, available int64) *decision.Decision {
		return &decision.Decision{
			Thresholds:   []decision.Threshold{{Signal: s, Value: "10%", Acted: true}},
			Observations: []decision.Observation{{Signal: s, State: decision.StateObserved, Available: available, Capacity: 100}},
			Candidates:   []decision.Candidate{{Pod: "x/y"}}, Order: []int{0},
		}
	}
	text := string(Now([]*decision.Decision{at(eviction.MemoryAvailable, 90), {}, at(eviction.PIDAvailable, 11)}))
	if pid, memory := strings.Index(text, "pid.available"), strings.Index(text, "memory.available"); pid < 0 || pid > memory {
		t.Errorf("%s", text)
	}
}

// The picture of the documentation is that of the example:
//
//	go run ./host/cmd/evictctl explain host/internal/why/tell/testdata/example.json --svg >docs/night.svg
func TestTheDocumentationHasThePictureOfTheExample(t *testing.T) {
	r := example()
	want, err := SVG(r)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../../../../docs/night.svg"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("docs/night.svg is another picture: %v", err)
	}
}
