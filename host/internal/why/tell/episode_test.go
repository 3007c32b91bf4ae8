package tell

import (
	"fmt"
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
		"one pod, shop/a: 3Gi of 4Gi":                    {Lost: 4 * gibibyte, Pods: 3 * gibibyte, Most: []decision.Grown{{Pod: "shop/a", By: 3 * gibibyte}}},
		"several pods: 3Gi of 4Gi":                       {Lost: 4 * gibibyte, Pods: 3 * gibibyte, Most: []decision.Grown{{Pod: "shop/a", By: gibibyte}}},
		"outside of pods that were measured: 4Gi of 4Gi": {Lost: 4 * gibibyte, Pods: -gibibyte},
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
