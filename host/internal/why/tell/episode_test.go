package tell

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

// night returns decisions like the example at seconds after it.
func night(seconds ...int) (all []*decision.Decision) {
	for _, second := range seconds {
		d := example()
		d.Time = d.Time.Add(time.Duration(second) * time.Second)
		d.ID = decision.NewID(d.Time)
		all = append(all, d)
	}
	return all
}

func TestAnEpisodeNamesItsCause(t *testing.T) {
	for want, g := range map[string]*decision.Growth{
		"one pod, shop/a: it took 3Gi; 4Gi less was available than before":                                        {Lost: 4 * gibibyte, Pods: 3 * gibibyte, Most: []decision.Grown{{Pod: "shop/a", By: 3 * gibibyte}}},
		"several pods: they took 3Gi; 4Gi less was available than before":                                         {Lost: 4 * gibibyte, Pods: 3 * gibibyte, Most: []decision.Grown{{Pod: "shop/a", By: gibibyte}}},
		"the rest of the node, or pods that were not measured: they took 4Gi; 4Gi less was available than before": {Lost: 4 * gibibyte, Pods: -gibibyte},
	} {
		all := night(0, 60)
		all[0].Growth = g
		if text := string(Episode(all, all[1].Time)); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// Evictions of others, other signals and other episodes have no part in a course.
func TestACourseIsOfOneEpisodeAndSignal(t *testing.T) {
	all := append(night(0, 100), night(3000)...)
	disk := night(50)[0]
	disk.Victim.Signal = string(eviction.NodeFsAvailable)
	all = slices.Insert(all, 1, disk)
	heads := make([]decision.Head, len(all))
	for i, d := range all {
		heads[i] = d.Head()
	}
	decision.Episodes(heads)
	if got, want := fmt.Sprint(together(heads)), "[[0 2] [1] [3]]"; got != want {
		t.Errorf("courses %v, want %v", got, want)
	}
}

func TestLettersGoOnAfterZ(t *testing.T) {
	for i, want := range map[int]string{0: "A", 25: "Z", 26: "AA", 51: "AZ", 52: "BA", 701: "ZZ", 702: "AAA"} {
		if got := letter(i); got != want {
			t.Errorf("letter %d is %s, want %s", i, got, want)
		}
	}
}

// Each episode with samples has its picture and its figures, up to a bound.
func TestAPageHasTheCoursesOfItsEpisodes(t *testing.T) {
	var seconds []int
	for i := range 10 {
		seconds = append(seconds, 1000*i, 1000*i+60)
	}
	all := night(seconds...)
	page := parse(t, HTML(all, nil, all[0].Time))
	if n := strings.Count(page.text, "Who held memory.available, at each decision"); n != coursesShown || !strings.Contains(page.text, "and 2 more episodes") {
		t.Errorf("%d tables of who held the signal, want %d and how many more", n, coursesShown)
	}
}

// A row says of each victim what it used, requested and freed, why it was before the next, and what would have spared it.
func TestAnEpisodeHasARowForEachVictim(t *testing.T) {
	page := parse(t, HTML(night(0, 60), nil, example().Time))
	row := regexp.MustCompile(`(?s)\bB\s+12:01:50\s+shop/report\s+.*?3Gi\s+512Mi\s+2Gi\s+lower priority\s+gone after 1.3s\s+not earlier: .*?grace period is 30s; needed: .*?it was still growing by \S+: find what grows`)
	if !row.MatchString(page.text) || strings.Count(page.text, "had been another before the first of them") != 1 {
		t.Errorf("no such row in\n%s", page.text)
	}
}

// An evictd that had just started told of what took the memory, and forgot that its threshold was new.
func TestTheHeadlineOfARestart(t *testing.T) {
	for want, change := range map[string]func(d *decision.Decision){
		"; a restart of evictd put memory.available<1Gi in force at 12:00:49, before: memory.available<500Mi": func(d *decision.Decision) {
			from := d.Time.Add(-time.Second)
			d.Marks = []decision.Mark{{What: decision.MarkStart, MS: -1000, UntilMS: -1000, Former: []decision.Threshold{{Signal: eviction.MemoryAvailable, Value: "500Mi"}}}}
			d.Acted().InForce, d.Acted().Since, d.Acted().GracePeriod = &from, &from, ""
		},
		"; the cause is not known: evictd had started 3s before": func(d *decision.Decision) {
			d.Growth, d.Marks = nil, []decision.Mark{{What: decision.MarkStart, Text: "evictd started", MS: -3000, UntilMS: -3000}}
			d.Acted().InForce = nil
		},
		"evicted for emptydirfs.limit": func(d *decision.Decision) { // of its own use
			d.Growth, d.Marks = nil, []decision.Mark{{What: decision.MarkStart, Text: "evictd started", MS: -3000, UntilMS: -3000}}
			d.Kind, d.Victim.Signal = decision.KindLimit, "emptydirfs.limit"
		},
	} {
		d := example()
		change(d)
		if first, _, _ := strings.Cut(string(Text(d)), "\n"); !strings.HasSuffix(first, want) {
			t.Errorf("%q does not end with %q", first, want)
		}
	}
}

// A dry run counted as an eviction, and as one of the owner's pods.
func TestADryRunIsNoEviction(t *testing.T) {
	all := night(0, 60, 120)
	for _, d := range all {
		d.Victim.Owner = "ReplicaSet/report"
	}
	all[0].DryRun, all[1].By = true, "kubelet"
	text := string(Episode(all, all[2].Time))
	if want := "3 decisions, 1 eviction, 1 by kubelet, 1 in a dry run until"; !strings.Contains(text, want) || !strings.Contains(text, "2nd of") || strings.Contains(text, "3rd of") {
		t.Errorf("no %q, or a wrong count, in\n%s", want, text)
	}
}

// The first line names as the cause what the samples show, and nothing else.
func TestNoCauseIsNamedThatTheSamplesDoNotCarry(t *testing.T) {
	kinds := map[string]int{}
	for seed := range 1000 {
		r := rand.New(rand.NewPCG(uint64(seed), 5))
		d := example()
		d.Kind, d.Growth, d.Marks, d.Acted().InForce = decision.KindEviction, nil, nil, nil
		if r.IntN(3) > 0 {
			d.Growth = &decision.Growth{SinceMS: -60_000, Lost: 1 + r.Int64N(100), Protected: r.IntN(2) == 0}
			for i := range r.IntN(4) {
				d.Growth.Most = append(d.Growth.Most, decision.Grown{UID: fmt.Sprint(i), Pod: fmt.Sprintf("shop/p%d", i), By: r.Int64N(100)})
				d.Growth.Pods += d.Growth.Most[i].By
			}
			d.Growth.Pods -= r.Int64N(60)
			slices.SortFunc(d.Growth.Most, func(a, b decision.Grown) int { return cmp.Compare(b.By, a.By) })
		}
		started := -1000 * float64(r.IntN(30))
		if r.IntN(2) == 0 {
			d.Marks = append(d.Marks, decision.Mark{What: decision.MarkStart, MS: started, UntilMS: started})
		} else {
			started = math.Inf(-1)
		}
		changed := r.IntN(4) == 0
		if changed { // as the threshold came into force it was met
			d.Acted().InForce = d.Acted().Since
		} else if r.IntN(4) == 0 {
			d.Acted().InForce = new(d.Acted().Since.Add(-time.Minute))
		}
		first, _, _ := strings.Cut(string(Text(d)), "\n")
		_, cause, _ := strings.Cut(first, "was evicted for memory.available")
		g := d.Growth
		fine, kind := cause == "", "none"
		switch {
		case strings.Contains(cause, " in force at "):
			fine, kind = changed, "threshold"
		case strings.Contains(cause, "not known"):
			fine, kind = !changed && g == nil && started > -10_000, "started"
		case strings.Contains(cause, "the rest of the node took it"):
			fine, kind = !changed && g.Lost-g.Pods >= g.Lost/2 && strings.HasSuffix(cause, "took it") == g.Protected, "node"
		case strings.HasSuffix(cause, " took"):
			fine, kind = !changed && g.Most[0].By >= g.Lost/2 && strings.Contains(cause, g.Most[0].Pod), "pod"
		}
		if kinds[kind]++; !fine {
			t.Fatalf("seed %d: cause %q with growth %+v, a start at %v ms, another threshold %v", seed, cause, g, started, changed)
		}
	}
	if len(kinds) != 5 {
		t.Errorf("causes %v, want each kind", kinds)
	}
}
